package daemon

import (
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/memstore"
)

// The bounds of the admin listener.
const (
	// adminWriteTimeout leaves time for a profile of a minute.
	adminWriteTimeout = 90 * time.Second
	// maxProfiles is how many profiles and traces run at a time, of traces and of CPU
	// profiles one: each costs what it measures, and its connection for as long.
	maxProfiles = 2
)

func (d *Daemon) server(door string, h http.Handler) *http.Server {
	protocols, _ := listen.Protocols(d.config.goVersion)
	return listen.Server(httpapi.Budgeted(h, d.metrics.Budget(door), listen.HasAsked), listen.ServerOptions{
		Protocols: protocols, Log: d.config.Log.Handler(),
		HandshakeFailed: d.metrics.HandshakeFailed(door), ProtocolBroken: d.metrics.ProtocolBroken(door),
	})
}

// noPages keeps pages that a browser shows from asking the HTTP listener.
func (d *Daemon) noPages(door http.Handler) http.Handler {
	refused := d.metrics.Overload("http", []string{string(httpapi.RefusedHost), string(httpapi.RefusedOrigin)})
	return httpapi.NoPages(door, httpapi.GateOptions{
		Host: ownHost(d.config.HTTP), Refused: func(why httpapi.Refusal) { refused(string(why)) },
	})
}

// ownHost is whether a request asks a listener by a host of its own; nil where that is
// reached from elsewhere, for there it may have any name.
func ownHost(address string) func(string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !listen.Local(address) {
		return nil
	}
	return func(asked string) bool { return httpapi.Loopback(asked, host) }
}

// The bounds of wrong tokens, at the gate of the admin listener and at its sign-in page
// each.
const (
	// wrongTokens is how many an address may show: ten at once, and then one in six
	// seconds. Beyond, it is answered 429.
	wrongTokens = "10/min"
	// maxAddresses is how many of them are told apart. When full, those that are
	// refused stay so, and of the others the one nearest to fresh makes place.
	maxAddresses = 16 << 10
)

// attempts counts the wrong tokens that addresses show at a place.
func attempts(place string) (*weir.Limiter, error) {
	limit, err := weir.ParseLimit(wrongTokens)
	if err != nil {
		return nil, err
	}
	return weir.NewLimiter(memstore.New(memstore.Options{MaxKeys: maxAddresses}), place, limit), nil
}

// gate lets into the admin listener who may come in. Browsers send no token, so its
// pages let people sign in themselves.
func (d *Daemon) gate(door http.Handler) (http.Handler, error) {
	wrong, err := attempts("attempts")
	if err != nil {
		return nil, err
	}
	o := httpapi.GateOptions{
		Attempts: wrong,
		Host:     ownHost(d.config.Admin),
		Wrong:    func(r *http.Request) { d.auditLog.Wrong(from(r)) },
		Refused:  d.metrics.Refused, Log: d.config.Log,
	}
	origin, host, err := d.config.external()
	if err != nil {
		return nil, err
	}
	if own := o.Host; own != nil && host != "" {
		o.Host = func(asked string) bool { return own(asked) || strings.EqualFold(asked, host) }
	}
	o.External = origin
	if d.needsToken() {
		o.Token = d.holder
	}
	if d.feed != nil && d.config.TLSClientCA != "" {
		o.Certificate = d.certified
	}
	pages, err := d.pages()
	if err != nil {
		return nil, err
	}
	if o.Token != nil {
		door = listen.KeepSeats(door)
	}
	withToken := httpapi.Gate(door, o)
	open := o
	open.Token, open.Certificate = nil, nil
	without := httpapi.Gate(pages, open)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPage(r) {
			without.ServeHTTP(w, r)
			return
		}
		withToken.ServeHTTP(w, r)
	}), nil
}

// needsToken is whether the admin listener takes a token: for all that is in it, but for health and
// the pages, which ask for one themselves.
func (d *Daemon) needsToken() bool { return d.keys.tokens != nil || d.feed != nil }

// notThere answers for what a mux of the admin listener has not, or not by this method.
func notThere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); strings.HasPrefix(pattern, method+" ") {
				w.Header().Set("Allow", method)
				sendProblem(w, http.StatusMethodNotAllowed, "use "+pattern)
				return
			}
		}
		if ruleapi.Handles(path) || path == ruleapi.DocumentPath {
			sendProblem(w, http.StatusConflict, "this daemon has no rule database; start it with weir serve --data DIR")
			return
		}
		if most := 128; len(path) > most {
			path = strings.ToValidUTF8(path[:most], "") + "…"
		}
		sendProblem(w, http.StatusNotFound, "there is no "+strconv.QuoteToGraphic(path)+" at the admin listener; docs/operating.md lists the paths")
	}
}

// few lets so many run at a time of all that it is asked for; it tells any other caller what runs,
// and to come again.
func (d *Daemon) few(most int, runs string) func(http.HandlerFunc) http.HandlerFunc {
	running := make(chan struct{}, most)
	refused := d.metrics.Overload("admin", []string{"profiles"})
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case running <- struct{}{}:
				defer func() { <-running }()
				next(w, r)
			default:
				refused("profiles")
				w.Header().Set("Retry-After", "1")
				sendProblem(w, http.StatusServiceUnavailable, runs+" already; ask again when that is done")
			}
		}
	}
}

// profiles are what the runtime tells of itself. It has one trace and one CPU profile at a
// time.
func (d *Daemon) profiles(mux *http.ServeMux) {
	few := d.few(maxProfiles, strconv.Itoa(maxProfiles)+" profiles run")
	profile, trace := d.few(1, "a CPU profile runs"), d.few(1, "a trace runs")
	mux.HandleFunc("GET /debug/pprof/", few(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", profile(few(pprof.Profile)))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", trace(few(pprof.Trace)))
}

// adminHandler is all that the admin listener answers.
func (d *Daemon) adminHandler() (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("/", notThere(mux))
	mux.Handle("GET /metrics", d.metricsHandler())
	mux.HandleFunc("GET /v1/export", d.export)
	mux.HandleFunc("GET /v1/findings", d.findings)
	mux.HandleFunc("GET /v1/schema", schema)
	o := httpapi.Options{Log: d.config.Log, Observe: d.metrics.AdminCall, Panicked: d.metrics.Panicked("admin")}
	resets := o
	resets.Reset = d.auditReset
	requests := httpapi.NewAdmin(explainer{d.limiter, d.storage.node}, d.reads, resets)
	mux.Handle("/v1/explain", requests)
	mux.Handle("/v1/reset", requests)
	var chart offenders.Charts
	if d.feed != nil {
		chart = d.chart
	}
	traffic := httpapi.NewTraffic(d.limiter.Book, d.clientName, d.limiter.Set, d.known, d.reads, chart, o)
	mux.Handle("/v1/top", traffic)
	mux.Handle("/v1/series", traffic)
	mux.Handle("/v1/limited", httpapi.NewLimited(d.limitedNow, d.limiter.Set, d.decides, d.reads, o))
	mux.Handle("/v1/shadow", httpapi.NewShadow(d.reports, d.known, d.reads, o))
	d.clusterRoutes(mux)
	d.profiles(mux)
	if d.feed == nil {
		return mux, nil
	}
	return d.withRules(mux)
}
