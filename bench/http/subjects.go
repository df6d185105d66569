package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/httprate"
	sethvargohttp "github.com/sethvargo/go-limiter/httplimit"
	sethvargomem "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

const httprateName = "httprate, `LimitByIP`"

// subject is a handler behind middleware. All limit by the client's address, pass
// all requests, and write header fields.
type subject struct {
	name    string
	handler http.Handler
	peer    string // the address of a client, with its number
	target  bool   // it must reach what is aimed at
}

const (
	ipv4 = "192.0.%d.%d:4711"
	ipv6 = "[2001:db8:%x:%x::1]:4711"
)

// subjects are what is measured; the first is the handler alone.
func subjects() ([]subject, error) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	one, err := weirs(httplimit.Options{}, "1000000000/h")
	if err != nil {
		return nil, err
	}
	two, err := weirs(httplimit.Options{}, "1000000000/h", "1000000000/day fixed-window")
	if err != nil {
		return nil, err
	}
	silent, err := weirs(httplimit.Options{Fields: httplimit.NoFields}, "1000000000/h")
	if err != nil {
		return nil, err
	}
	counts, err := weirs(httplimit.Options{Counts: func(int) bool { return true }}, "1000000000/h")
	if err != nil {
		return nil, err
	}
	throttle, err := throttledBy()
	if err != nil {
		return nil, err
	}
	sethvargo, err := sethvargoBy()
	if err != nil {
		return nil, err
	}
	ululeBy := ulule.NewMiddleware(limiter.New(ululemem.NewStore(), limiter.Rate{Period: time.Hour, Limit: 1 << 60}))
	return []subject{
		{name: "the handler alone", handler: nothing, peer: ipv4},
		{name: "`httplimit`, one rule, IPv4", handler: one(nothing), peer: ipv4, target: true},
		{name: "`httplimit`, one rule, IPv6 by /64", handler: one(nothing), peer: ipv6, target: true},
		{name: "`httplimit`, two rules, decided together", handler: two(nothing), peer: ipv4},
		{name: "`httplimit`, no fields", handler: silent(nothing), peer: ipv4},
		{name: "`httplimit`, counting by the status", handler: counts(nothing), peer: ipv4},
		{name: httprateName, handler: httprate.LimitByIP(1<<60, time.Hour)(nothing), peer: ipv4},
		{name: "sethvargo/go-limiter", handler: sethvargo.Handle(nothing), peer: ipv4},
		{name: "throttled", handler: throttle.RateLimit(nothing), peer: ipv4},
		{name: "ulule", handler: ululeBy.Handler(nothing), peer: ipv4},
	}, nil
}

func weirs(o httplimit.Options, limits ...string) (func(http.Handler) http.Handler, error) {
	var all []httplimit.Rule
	for i, limit := range limits {
		all = append(all, httplimit.Rule{Name: fmt.Sprintf("rule%d", i), Limit: weir.MustParseLimit(limit), Key: httplimit.Peer})
	}
	return httplimit.New(memstore.New(memstore.Options{}), all, o)
}

func throttledBy() (*throttled.HTTPRateLimiterCtx, error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(1_000_000), MaxBurst: 1_000_000})
	if err != nil {
		return nil, err
	}
	return &throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{RemoteAddr: true}}, nil
}

func sethvargoBy() (*sethvargohttp.Middleware, error) {
	store, err := sethvargomem.New(&sethvargomem.Config{Tokens: 1 << 62, Interval: time.Hour})
	if err != nil {
		return nil, err
	}
	return sethvargohttp.NewMiddleware(store, sethvargohttp.IPKeyFunc())
}

// requests are one of each client.
func requests(peer string) []*http.Request {
	all := make([]*http.Request, clients)
	for i := range all {
		all[i] = &http.Request{Method: http.MethodGet, Header: http.Header{}, RemoteAddr: fmt.Sprintf(peer, i/256, i%256)}
		if _, err := netip.ParseAddrPort(all[i].RemoteAddr); err != nil {
			panic(err) // the formats are right
		}
	}
	return all
}
