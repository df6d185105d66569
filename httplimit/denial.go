package httplimit

import (
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/fields"
)

// Denial is why a request does not pass.
type Denial struct {
	// Status is 429 when rules deny, 503 when nothing could be decided or only the
	// fallback of a store that is away denies, 400 when the request does not tell
	// whose it is or what it costs, and 403 by Options.Deny.
	Status int
	// RetryAfter is how long until another try is worth it, with jitter. 0: it is
	// not, or nobody knows.
	RetryAfter time.Duration
	// Never tells that the request costs more than a limit can ever pass.
	Never bool
	// Rules are the names of the rules that deny.
	Rules []string
	// Shadow tells that the rules are in shadow and deny nothing.
	Shadow bool
	// Passed tells that the request passed all the same: by Options.FailOpen, or
	// because the rules are in shadow.
	Passed bool
	// Err is why nothing could be decided. It is not for the client.
	Err error
}

// answer tells the client that the request does not pass, in the form that it prefers: a program gets
// a problem document, and a person with a browser a page. Options.Answer may write the body, but the
// fields that keep clients and caches right are set before it.
func (m *middleware) answer(w http.ResponseWriter, r *http.Request, d *Denial) {
	m.report(r, d)
	h := w.Header()
	h.Set("Cache-Control", "no-store") // RFC 6585 §4
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(fields.RetryAfter(d.RetryAfter), 10))
	}
	if m.options.Answer != nil {
		m.options.Answer(w, r, d)
		return
	}
	h.Set("X-Content-Type-Options", "nosniff")
	var body []byte
	switch prefers(r.Header["Accept"], "application/problem+json", "text/html", "text/plain") {
	case "text/html":
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'")
		body = d.page()
	case "text/plain":
		h.Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(d.detail() + "\n")
	default:
		h.Set("Content-Type", "application/problem+json")
		body = d.problem()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status)
	_, _ = w.Write(body) // the client may be gone
}

// detail is the denial in a sentence that says what to do. It names no rule: names are for programs,
// which find them in violated-policies.
func (d *Denial) detail() string {
	switch {
	case d.Status == http.StatusForbidden:
		return "requests from this address are not served"
	case d.Status == http.StatusBadRequest:
		return "the request can't be counted: its key or its cost is missing"
	case d.Status == http.StatusServiceUnavailable:
		return "whether the request may pass could not be decided; come back later"
	case d.Never:
		return "the request can never pass: it costs more than the limit; make it smaller"
	}
	seconds := fields.RetryAfter(d.RetryAfter)
	if seconds == 1 {
		return "there were too many requests; come back in a second"
	}
	return "there were too many requests; come back in " + strconv.FormatInt(seconds, 10) + " seconds"
}

// problem is the denial as RFC 9457 has it, with the problem types of
// draft-ietf-httpapi-ratelimit-headers-10 §5.
func (d *Denial) problem() []byte {
	const types = `{"type":"https://iana.org/assignments/http-problem-types#`
	b := make([]byte, 0, 512)
	switch d.Status {
	case http.StatusTooManyRequests:
		b = append(b, types+`quota-exceeded","title":"Quota exceeded"`...)
	case http.StatusServiceUnavailable:
		b = append(b, types+`temporary-reduced-capacity","title":"Capacity temporarily reduced"`...)
	default:
		b = append(b, `{"title":"`+http.StatusText(d.Status)+`"`...)
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(d.Status), 10)
	b = append(b, `,"detail":"`+d.detail()+`"`...)
	for i, name := range d.Rules {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		// Names are printable ASCII, which Go and JSON quote alike.
		b = strconv.AppendQuote(b, name)
	}
	if len(d.Rules) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...)
}

// page is the denial as a page of HTML, without script, style or anything to load.
func (d *Denial) page() []byte {
	title := http.StatusText(d.Status)
	return []byte("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n" +
		"<title>" + html.EscapeString(title) + "</title>\n<h1>" + html.EscapeString(title) + "</h1>\n<p>" + html.EscapeString(d.sentence()) + "</p>\n</html>\n")
}

// sentence is detail with a capital and a full stop.
func (d *Denial) sentence() string {
	s := d.detail()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// prefers is which of the offers the client prefers by Accept (RFC 9110 §12.5.1);
// the first where it minds none, or accepts none: a denial in the wrong form is better than none.
func prefers(accept []string, offers ...string) string {
	best, quality := offers[0], 0
	for _, offer := range offers {
		if q := qualityOf(accept, offer); q > quality {
			best, quality = offer, q
		}
	}
	return best
}

// qualityOf is how much a client likes a type, in thousandths: by the range that
// names it most exactly. Of
//
//	Accept: text/html, application/json;q=0.9, */*;q=0.1
//
// it is 1000 for text/html, 900 for application/problem+json and 100 for text/plain.
func qualityOf(accept []string, offer string) int {
	quality, exact := 0, 0
	kind, _, _ := strings.Cut(offer, "/")
	for _, line := range accept {
		for r := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(r, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			rank := 0
			switch {
			case name == offer:
				rank = 4
			case offer == "application/problem+json" && name == "application/json":
				rank = 3 // it is JSON, too
			case name == kind+"/*":
				rank = 2
			case name == "*/*":
				rank = 1
			}
			if rank > exact {
				exact, quality = rank, weight(parameters)
			}
		}
	}
	return quality
}

// weight is q among parameters, in thousandths.
func weight(parameters string) int {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		q, err := strconv.ParseFloat(value, 64)
		if err != nil || q < 0 || q > 1 {
			return 0
		}
		return int(q * 1000)
	}
	return 1000
}
