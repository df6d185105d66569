// Package httplimit limits HTTP requests: as middleware of a server, and as a
// transport of a client that keeps to the limits of others.
//
// # A server
//
// New makes a func(http.Handler) http.Handler, for net/http and every router
// that takes one:
//
//	limit, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
//		{Name: "api", Limit: weir.MustParseLimit("100/min"), Key: httplimit.Peer},
//	}, httplimit.Options{})
//	if err != nil {
//		return err
//	}
//	http.ListenAndServe(":8080", limit(mux))
//
// A Rule is a limit, whose count a request is (Key), and what it is worth (Cost).
// Several rules decide together: a request is charged by all of them, or denied
// and charged by none. Rule.Plan picks the limit by request, for plans and
// exceptions. NewFromRules asks a rules.Limiter instead, so that the rules are in a
// file, the same as for the daemon.
//
// # Who is it
//
// Peer is the address of the connection, which is right where no proxy is in
// front. Behind proxies, Address finds the client in X-Forwarded-For or Forwarded,
// from the right, as far as Source says whom to believe. IPv6 clients are told apart
// by their /64, for they may change the rest at will. Header, Cookie, Claim, Path and
// Pattern are other keys, Join puts some together, First takes the first that is
// there, and any function is a Key.
//
// A request without a key is refused with 400, so that nobody gets around a limit
// by leaving out who he is; Rule.Optional lets it pass instead. One that has a key
// twice is always refused.
//
// # What clients read
//
// Every answer tells the limits by RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers-10), or older forms by Options.Fields. A client that is
// denied reads 429 with Retry-After, whole seconds rounded up, and a body that says why, as problem
// details (RFC 9457), HTML or text by Accept; 503 where the store could not decide, unless
// Options.FailOpen lets pass. A request that can never pass has no Retry-After. Denials are never
// cached.
//
// # Queues, permits, and costs known later
//
// A leaky-queue holds requests for their slot, and lets go of those whose client
// leaves. Permits of a concurrent limit come back when the handler returns, panics,
// or the connection that it took over is closed; they are renewed as long as that
// takes. Options.Counts gives back what does not count, by the status of the
// response: count only failed logins, say. With Options.Settle a handler tells by
// ChargeOf what a request really cost, while it works.
//
// # A client
//
// Transport is an http.RoundTripper: it waits for a limit of its own, learns those
// of servers from their answers, and sends again what they refused, later and
// apart from others.
//
// # The code
//
// middleware.go is a request's way, call.go asks the rules of a program and fromrules.go
// those of a file, charge.go is what has to be settled when a request is done, recorder.go
// sees its end, address.go and forwarded.go find the client, internal/address which
// addresses one client has, fields.go and denial.go tell it how it stands. Transport reads
// the fields of answers (learn.go) and sends again what is safe (replay.go).
package httplimit
