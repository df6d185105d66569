package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// auth is GET /auth, for proxies that ask before they pass a request on: the
// auth_request of nginx, forwardAuth of Traefik, forward_auth of Caddy.
func (a *API) auth(w http.ResponseWriter, r *http.Request) int {
	q, deny, err := readAuth(r.URL.RawQuery)
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
	// Some proxies hand this on to whoever sent the request.
	detail := "there were too many requests; come back later"
	if retry, ok := answer.RetryAfter(); !ok {
		detail = "this can never pass: it is more than the limit"
	} else if retry > 0 {
		detail = "there were too many requests; come back in " + strconv.FormatInt(wholeSeconds(retry), 10) + " s"
	}
	return send(w, &problem{Status: deny, Detail: detail})
}

// readAuth reads the query of /auth. The e's, in their order, are one descriptor.
func readAuth(query string) (q *rules.Request, deny int, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, 0, faultf("the query can't be read: %v; escape what is not a letter or digit as %%XX", err)
	}
	d := rules.Descriptor{Cost: 1}
	q, deny = &rules.Request{}, http.StatusTooManyRequests
	for name, all := range values {
		value := all[0]
		switch {
		case name == "e":
			if d.Entries, err = readEntries(all); err != nil {
				return nil, 0, err
			}
			continue
		case name == "domain":
			q.Domain = value
		case name == "cost":
			t := text{src: value}
			d.Cost, err = t.integer(weir.MaxCount)
			if err != nil || t.at < len(value) {
				return nil, 0, faultf("cost: write a whole number from 0 to %d", weir.MaxCount)
			}
		case name == "deny" && (value == "401" || value == "403"):
			deny, _ = strconv.Atoi(value) // it is one of the two
		case name == "deny":
			return nil, 0, faultf("deny: write 401 or 403, or leave it out for 429")
		default:
			return nil, 0, faultf("unknown parameter %s; the parameters are domain, e, cost, deny", quote(name))
		}
		if len(all) > 1 {
			return nil, 0, faultf("%s stands there twice; write it once", name)
		}
	}
	q.Descriptors = []rules.Descriptor{d}
	return q, deny, nil
}

func readEntries(all []string) ([]rules.Entry, error) {
	if len(all) > rules.MaxEntries {
		return nil, faultf("e: there are more than %d", rules.MaxEntries)
	}
	entries := make([]rules.Entry, len(all))
	for i, e := range all {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			return nil, faultf("e: %s is no KEY=VALUE", quote(e))
		}
		entries[i] = rules.Entry{Key: key, Value: value}
	}
	return entries, nil
}
