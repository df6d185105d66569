package httpapi

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/internal/address"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// auth is GET /auth, for proxies that ask before they pass a request on: the
// auth_request of nginx, forwardAuth of Traefik, forward_auth of Caddy. A value that a proxy can't
// write safely into a query comes as a field of the request.
func (a *API) auth(w http.ResponseWriter, r *http.Request) int {
	q, deny, err := readAuth(r)
	if err != nil {
		return a.fail(w, r, err)
	}
	answer, err := a.limiter.Check(r.Context(), q)
	if err != nil {
		return a.fail(w, r, err)
	}
	describe(w.Header(), answer)
	if answer.Allowed {
		w.WriteHeader(http.StatusOK)
		return http.StatusOK
	}
	// Some proxies hand all of this on to the client that sent the request.
	w.Header()[envoy.DenialHeader] = []string{answer.ID()}
	detail := "there were too many requests; come back later"
	if answer.Away() {
		detail = "the store of the limits is away, and the rules say to deny then; come back later"
		if deny == http.StatusTooManyRequests {
			deny = http.StatusServiceUnavailable
		}
	} else if retry, ok := answer.RetryAfter(); !ok {
		detail = "this can never pass: it is more than the limit"
	} else if retry > 0 {
		detail = "there were too many requests; come back in " + strconv.FormatInt(fields.RetryAfter(retry), 10) + " s"
	}
	return send(w, &problem{Status: deny, Detail: detail})
}

// readAuth reads the query of /auth. The e's in their order, then the h's in
// theirs, are one descriptor, and the e2's and h2's another, if there are any.
func readAuth(r *http.Request) (q *rules.Request, deny int, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, 0, faultf("the query can't be read: %v; escape all but letters and digits as %%XX", err)
	}
	cost := int64(1)
	q, deny = &rules.Request{Wider: network}, http.StatusTooManyRequests
	for name, all := range values {
		value := all[0]
		switch {
		case slices.Contains([]string{"e", "h", "e2", "h2"}, name):
			continue
		case name == "domain":
			q.Domain = value
		case name == "cost":
			t := text{src: value}
			cost, err = t.integer(weir.MaxCount)
			if err != nil || t.at < len(value) {
				return nil, 0, faultf("cost: write a whole number from 0 to %d", weir.MaxCount)
			}
		case name == "deny" && (value == "401" || value == "403"):
			deny, _ = strconv.Atoi(value) // it is one of the two
		case name == "deny":
			return nil, 0, faultf("deny: write 401 or 403, or leave it out for 429")
		default:
			return nil, 0, faultf("unknown parameter %s; the parameters are domain, e, h, e2, h2, cost, deny", quote(name))
		}
		if len(all) > 1 {
			return nil, 0, faultf("%s stands there twice; write it once", name)
		}
	}
	for _, second := range []string{"", "2"} {
		if second != "" && values["e2"] == nil && values["h2"] == nil {
			break
		}
		entries, err := readEntries(values["e"+second], values["h"+second], r.Header)
		if err != nil {
			return nil, 0, err
		}
		q.Descriptors = append(q.Descriptors, rules.Descriptor{Entries: entries, Cost: cost})
	}
	return q, deny, nil
}

// network is the value that an entry counts under: of an IPv6 address its /64, for
// the client may choose the rest, and an IPv4 address however it is written.
func network(e rules.Entry) string {
	if e.Key == "remote_address" && strings.IndexByte(e.Value, ':') >= 0 {
		if a, err := netip.ParseAddr(e.Value); err == nil {
			return address.Network(a, address.IPv6Bits)
		}
	}
	return e.Value
}

// readEntries reads e's, KEY=VALUE, and h's, KEY=NAME of a field of the request.
// A field that is not there is as one that is empty: were it left out, a client that does not send
// it would meet no rule. One that stands there twice is refused: the server behind the proxy may
// take the other one, which was not counted.
func readEntries(es, hs []string, fields http.Header) ([]rules.Entry, error) {
	if len(es)+len(hs) > rules.MaxEntries {
		return nil, faultf("e, h: there are more than %d", rules.MaxEntries)
	}
	entries := make([]rules.Entry, 0, len(es)+len(hs))
	for _, e := range es {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			return nil, faultf("e: %s is no KEY=VALUE", quote(e))
		}
		entries = append(entries, rules.Entry{Key: key, Value: value})
	}
	for _, h := range hs {
		key, name, _ := strings.Cut(h, "=")
		switch {
		case name == "":
			return nil, faultf("h: %s is no KEY=HEADER", quote(h))
		case strings.EqualFold(name, "Host"):
			return nil, faultf("h: Host is that of the daemon; let the proxy send another, as X-Forwarded-Host")
		case len(fields.Values(name)) > 1:
			return nil, faultf("h: the header %s stands there %d times; send it once", quote(name), len(fields.Values(name)))
		}
		entries = append(entries, rules.Entry{Key: key, Value: fields.Get(name)})
	}
	return entries, nil
}
