package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/address"
	"github.com/weir-limit/weir/internal/fields"
)

// Refusal is why a Gate did not let a request in.
type Refusal string

// The refusals.
const (
	RefusedHost    Refusal = "host"        // it asks for another host: a page that had its name turned to this machine
	RefusedOrigin  Refusal = "origin"      // a page of another origin sends it
	RefusedMissing Refusal = "missing"     // it has no token
	RefusedWrong   Refusal = "wrong"       // its token is none of ours
	RefusedLimit   Refusal = "limit"       // its address has shown too many of those
	RefusedRole    Refusal = "role"        // its token is one of ours, and not for this
	RefusedAway    Refusal = "unavailable" // the rule database, which has the tokens, does not answer
)

// Shut is why a request is not let in whose token is not wrong: nobody guesses.
type Shut struct {
	Refusal Refusal // RefusedRole or RefusedAway
	Text    string  // says what to do instead
}

// Error is Text.
func (s *Shut) Error() string { return s.Text }

// status is what it is answered with.
func (s *Shut) status() int {
	if s.Refusal == RefusedRole {
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

// Refusals are all that GateOptions.Refused is called with.
func Refusals() []Refusal {
	return []Refusal{RefusedHost, RefusedOrigin, RefusedMissing, RefusedWrong, RefusedLimit, RefusedRole, RefusedAway}
}

// GateOptions are who a Gate lets in.
type GateOptions struct {
	// Host is whether requests may ask for a host, which is without its port. Nil:
	// for any.
	Host func(string) bool
	// Token gives the request as next should have it, with who holds the token, or
	// says why the token does not open: by a *Shut when it is not wrong. Nil: none is
	// needed.
	Token func(*http.Request, []byte) (*http.Request, error)
	// External is where browsers reach the listener through a proxy, as an origin:
	// https://limits.example.com. Host is to let its host in. Empty: nowhere.
	External string
	// Certificate is Token for the certificate of a request that shows no token; nil
	// and no error: it has none that matters. Nil: none does.
	Certificate func(*http.Request) (*http.Request, error)
	// Attempts is how many wrong tokens an address may show. It is asked when there
	// is a Token.
	Attempts *weir.Limiter
	// Wrong is called for each request with a wrong token. Nil: nobody is told.
	Wrong func(*http.Request)
	// Refused is called for each request that is not let in.
	Refused func(Refusal)
	// Log gets the errors that are the daemon's own.
	Log *slog.Logger
}

// Gate stands before a listener that is not for everybody: it lets requests to next
// that ask for the right host, are of no other origin, and have a token. A
// browser reaches what listens on loopback, and not everybody who can use it may
// do what the listener does.
func Gate(next http.Handler, o GateOptions) http.Handler {
	g := &gate{next: next, options: o, people: true}
	return g.host(g.origin(http.HandlerFunc(g.token)))
}

// NoPages stands before a listener for programs. A page of another origin, open in a browser on
// this machine, spends none of its limits, nor does a page that had its name turned to the
// listener. A request that a proxy hands on is the proxy's own, whatever a browser has said to the
// proxy. NoPages uses only the options Host and Refused.
func NoPages(next http.Handler, o GateOptions) http.Handler {
	g := &gate{next: next, options: o}
	origin := g.origin(next)
	host := g.host(origin)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
		switch {
		case !page && !named(r) || !near(r) || proxied(r):
			next.ServeHTTP(w, r)
		case r.TLS != nil: // the certificate says which names are the listener's
			origin.ServeHTTP(w, r)
		default:
			host.ServeHTTP(w, r)
		}
	})
}

// named is whether a request names the listener by a host of its own and the listener's port, as a
// browser does that has looked that host up: a page of it says nothing else of itself.
func named(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	_, port, _ := net.SplitHostPort(at.String())
	_, asked, _ := net.SplitHostPort(r.Host)
	return port != "" && asked == port
}

// near is whether a request comes from this machine.
func near(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// proxied is whether a request has what no page can make a browser send to another
// origin unasked: an older HTTP, or a field for which the browser would ask first.
func proxied(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-") || name == "Forwarded" || name == "Via" {
			return true
		}
	}
	return !r.ProtoAtLeast(1, 1)
}

// origin refuses what pages of other origins send, or make a browser fetch, as an image
// or in a frame: they can't read the answer, but a profile and a GET /auth cost all the same.
// It also refuses what a browser sends by a proxy that External does not tell of: the daemon would
// not know whether the cookie of a session must stay in TLS.
func (g *gate) origin(next http.Handler) http.Handler {
	pages := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link := g.people && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Dest") == "document"
		asked := *r
		asked.Method = http.MethodPost // pages holds GET safe, and lets it come from everywhere
		from := r.Header.Get("Origin")
		switch external := g.options.External; {
		case external != "" && from == external, link:
		case pages.Check(&asked) != nil, g.people && from != "" && from != "null" && (from != ownOrigin(r) || strings.HasSuffix(external, "://"+r.Host)):
			g.refuse(w, RefusedOrigin, &problem{http.StatusForbidden, "a page of another origin sends this; ask with a program, such as curl or weir" + g.proxyAdvice()})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownOrigin is that of the pages that a browser gets from the listener itself.
func ownOrigin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// proxyAdvice is what to do where a browser comes by a proxy.
func (g *gate) proxyAdvice() string {
	switch {
	case !g.people:
		return ""
	case g.options.External != "":
		return "; with a browser, open " + g.options.External + ", as --external-url says"
	}
	return "; if browsers come by a proxy, start weir serve with --external-url and the URL that they open, as --external-url https://limits.example.com"
}

type gate struct {
	next    http.Handler
	options GateOptions
	people  bool // browsers of people come in, as by links of other origins
}

// refuse also ends the connection, so that nobody holds one who may not come in.
func (g *gate) refuse(w http.ResponseWriter, why Refusal, p *problem) {
	g.options.Refused(why)
	w.Header().Set("Connection", "close")
	send(w, p)
}

// host refuses requests for other hosts than that of the listener. Without any is
// who speaks HTTP/1.0, which no browser does.
func (g *gate) host(next http.Handler) http.Handler {
	if g.options.Host == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && !g.options.Host(hostname(r.Host)) {
			g.refuse(w, RefusedHost, &problem{
				http.StatusMisdirectedRequest,
				quote(r.Host) + " is not this listener; ask by a loopback address or localhost, as 127.0.0.1" + g.proxyAdvice(),
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname is a host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Loopback is whether a host is the machine's own: localhost, a loopback address,
// or name.
func Loopback(host, name string) bool {
	address, err := netip.ParseAddr(host)
	if err == nil {
		return address.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost") || strings.EqualFold(host, name)
}

// token lets requests in that have a token. Wrong ones are counted by address, and
// beyond the limit they are told to wait; a right one comes in all the same, for it
// can't be guessed, and other clients may share the address of the one that sends wrong ones.
func (g *gate) token(w http.ResponseWriter, r *http.Request) {
	if g.options.Token == nil {
		g.next.ServeHTTP(w, r)
		return
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		g.certificate(w, r)
		return
	}
	known, wrong := g.options.Token(r, []byte(strings.TrimSpace(token)))
	if wrong == nil {
		g.next.ServeHTTP(w, known)
		return
	}
	if shut, ok := errors.AsType[*Shut](wrong); ok {
		g.refuse(w, shut.Refusal, &problem{shut.status(), shut.Text})
		return
	}
	if g.options.Wrong != nil {
		g.options.Wrong(r)
	}
	switch answer, err := g.attempt(r.Context(), r.RemoteAddr); {
	case err != nil:
		g.options.Log.Error("wrong tokens could not be counted", "error", err)
		send(w, &problem{http.StatusServiceUnavailable, "the daemon could not count your attempts; its log says why"})
	case answer.Outcome != weir.Allowed:
		w.Header().Set("Retry-After", strconv.FormatInt(fields.RetryAfter(answer.RetryAfter), 10))
		g.refuse(w, RefusedLimit, &problem{http.StatusTooManyRequests, "too many wrong tokens came from your address; wait, and send the right one"})
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir", error="invalid_token"`)
		g.refuse(w, RefusedWrong, &problem{http.StatusUnauthorized, wrong.Error()})
	}
}

// certificate lets requests in whose certificate stands for somebody. Nobody
// guesses one, so that those that do not are not counted.
func (g *gate) certificate(w http.ResponseWriter, r *http.Request) {
	why := "this listener needs a token; send Authorization: Bearer TOKEN, as weir does with --token-file or with WEIR_TOKEN in its environment"
	if g.options.Certificate != nil {
		known, err := g.options.Certificate(r)
		shut, isShut := errors.AsType[*Shut](err)
		switch {
		case isShut:
			g.refuse(w, shut.Refusal, &problem{shut.status(), shut.Text})
			return
		case err != nil:
			why += "; " + err.Error()
		case known != nil:
			g.next.ServeHTTP(w, known)
			return
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
	g.refuse(w, RefusedMissing, &problem{http.StatusUnauthorized, why})
}

// attempt charges the address for a wrong token.
func (g *gate) attempt(ctx context.Context, from string) (weir.Answer, error) {
	return g.options.Attempts.Ask(ctx, weir.Request{Key: Neighbourhood(from), Cost: 1})
}

// Neighbourhood is what one client can choose its addresses from: an IPv4
// address, or the /64 of an IPv6 address.
func Neighbourhood(from string) string {
	at, err := netip.ParseAddrPort(from)
	if err != nil {
		return ""
	}
	return address.Network(at.Addr(), address.IPv6Bits)
}
