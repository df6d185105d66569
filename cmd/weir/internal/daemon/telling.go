package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/sync/errgroup"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/rules"
)

// What Config.MetricNames may be.
const (
	NamesWeir      = "weir"
	NamesRatelimit = "ratelimit"
)

const (
	// DefaultMetricsPath is where Config.Metrics has the metrics.
	DefaultMetricsPath = "/metrics"
	// maxMetricLabels is how many labels Config.MetricLabels may have.
	maxMetricLabels = 16
	// millionths is the whole of what NearLimitRatio is a part of.
	millionths = 1_000_000
)

// checkTelling finds what can't be meant of what the daemon tells, and reads the rest.
func (c *Config) checkTelling() (errs []error) {
	bad := func(flag, format string, args ...any) {
		errs = append(errs, &ConfigError{flag, fmt.Sprintf(format, args...)})
	}
	for flag, address := range map[string]string{"--metrics": c.Metrics, "--debug": c.Debug} {
		at, path := address, "/"
		if flag == "--metrics" {
			at, path = c.metricsAt()
		}
		if _, err := net.ResolveTCPAddr("tcp", at); address != "" && err != nil {
			bad(flag, "%v; write HOST:PORT, as 127.0.0.1:9090", err)
		} else if strings.ContainsAny(path, "{}? #") || len(path) > 1 && strings.HasSuffix(path, "/") {
			bad(flag, "%q is no path of metrics; write HOST:PORT%s", path, DefaultMetricsPath)
		}
	}
	if c.MetricNames != NamesWeir && c.MetricNames != NamesRatelimit {
		bad("--metric-names", "%q are no names; write %s or %s", c.MetricNames, NamesWeir, NamesRatelimit)
	}
	var err error
	if c.labels, err = parseLabels(c.MetricLabels); err != nil {
		bad("--metric-labels", "%v", err)
	}
	if c.near, err = parseRatio(c.NearLimitRatio); err != nil {
		bad("--near-limit-ratio", "%v", err)
	}
	if c.Statsd != "" {
		if c.statsd, err = telemetry.ParseStatsd(c.Statsd); err != nil {
			bad("--statsd", "%v", err)
		}
	}
	if c.headers, err = parseHeaders(c.ResponseHeaders); err != nil {
		bad("--response-headers", "%v", err)
	}
	return errs
}

// metricsAt is the address of Metrics, and the path behind it.
func (c *Config) metricsAt() (address, path string) {
	address, path, has := strings.Cut(c.Metrics, "/")
	if !has {
		return address, DefaultMetricsPath
	}
	return address, "/" + path
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// parseLabels reads NAME=VALUE,… as names and values by turns.
func parseLabels(text string) (labels []string, err error) {
	for pair := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(pair, "=")
		own := slices.Contains([]string{"domain", "key1", "key2", "err_type", "grpc_method"}, name)
		switch {
		case !ok, !labelName.MatchString(name), strings.HasPrefix(name, "__"), value == "":
			return nil, fmt.Errorf("%q is no label; write NAME=VALUE, and more with commas, as build=42,zone=a", pair)
		case own, slices.Contains(labels, name):
			return nil, fmt.Errorf("there is a label %s already; write another name", name)
		case len(labels) == 2*maxMetricLabels:
			return nil, fmt.Errorf("there may be %d labels", maxMetricLabels)
		}
		labels = append(labels, name, value)
	}
	return labels, nil
}

// parseRatio reads a part of one, in millionths.
func parseRatio(text string) (int64, error) {
	if text == "" {
		return telemetry.DefaultNearLimit, nil
	}
	part, err := strconv.ParseFloat(text, 64)
	if err != nil || !(part >= 0 && part <= 1) { // NaN is neither
		return 0, fmt.Errorf("%q is no part of a limit; write one from 0 to 1, as 0.8", text)
	}
	return int64(part*millionths + 0.5), nil
}

// parseHeaders reads LIMIT,REMAINING,RESET.
func parseHeaders(text string) (h envoy.Headers, err error) {
	if text == "" {
		return h, nil
	}
	names := strings.Split(text, ",")
	if len(names) != 3 || slices.ContainsFunc(names, func(name string) bool { return !httpguts.ValidHeaderFieldName(name) }) {
		return h, fmt.Errorf("%q are no three names of header fields; write LIMIT,REMAINING,RESET, as RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset", text)
	}
	return envoy.Headers{Limit: names[0], Remaining: names[1], Reset: names[2]}, nil
}

// answers are what answers to Envoy have beside the decision.
func (c *Config) answers() envoy.Options {
	return envoy.Options{Echo: c.DynamicMetadata, Shadow: c.ShadowMode, Headers: c.headers}
}

// openStatistics has metrics and a statsd server tell ratelimit's statistics, where they are to.
func (d *Daemon) openStatistics() {
	s := telemetry.NewStatistics(d.limiter, d.metrics, d.config.labels...)
	if d.config.MetricNames == NamesRatelimit {
		d.registry.MustRegister(s)
	}
	if to := d.config.statsd; to != nil {
		to.Open(s, d.config.Log)
		d.registry.MustRegister(to.Collector())
		d.closing.push("the statsd server was not told the last statistics", to.Close)
	}
	if d.config.Debug != "" {
		d.statistics = s
	}
}

// openPlain answers at the listeners that take no token: metrics, and ratelimit's debug port.
func (d *Daemon) openPlain(o *listeners, g *errgroup.Group) {
	metrics := http.NewServeMux()
	_, path := d.config.metricsAt()
	metrics.Handle("GET "+path, d.metricsHandler())
	for _, door := range []struct {
		name    string
		at      *listen.Listener
		handler http.Handler
	}{{"metrics", o.metricsAt, metrics}, {"debug", o.debugAt, d.debugHandler()}} {
		if door.at == nil {
			continue
		}
		s := d.server(door.name, door.handler)
		g.Go(func() error { return serve(door.name, s.Serve(door.at.Safe())) })
		d.closing.push("calls of the "+door.name+" listener were cut off", func(ctx context.Context) error { return listen.Stop(ctx, s) })
	}
}

func (d *Daemon) metricsHandler() http.Handler {
	return promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{Registry: d.registry})
}

// debugHandler answers what the debug port of envoyproxy/ratelimit does. Profiles, which cost what they measure, are at the admin listener.
func (d *Daemon) debugHandler() http.Handler {
	mux := http.NewServeMux()
	pages := map[string]struct {
		help  string
		write func(io.Writer)
	}{
		"/rlconfig": {"print out the currently loaded configuration for debugging", d.writeConfig},
		"/stats":    {"print out stats", d.writeStatistics},
	}
	text := func(write func(io.Writer)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			write(w)
		}
	}
	for path, page := range pages {
		mux.Handle("GET "+path, text(page.write))
	}
	mux.Handle("GET /{$}", text(func(w io.Writer) {
		for _, path := range []string{"/rlconfig", "/stats"} {
			_, _ = fmt.Fprintf(w, "%s: %s\n", path, pages[path].help) // the client may be gone
		}
	}))
	return mux
}

// writeConfig writes the active rules in ratelimit's words, a line for each.
func (d *Daemon) writeConfig(w io.Writer) {
	set := d.limiter.Set()
	if set == nil {
		return
	}
	for _, r := range set.Rules() {
		unit, count := "UNKNOWN", int64(0)
		if !r.Unlimited {
			unit, count = envoy.UnitName(r.Limit), r.Limit.Spec().Count
		}
		if _, err := fmt.Fprintf(w, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n", ratelimitKey(r), unit, count, r.Shadow, r.QuotaMode); err != nil {
			return // the client is gone
		}
	}
}

// ratelimitKey is how ratelimit writes where a rule stands: DOMAIN.KEY_VALUE….
func ratelimitKey(r *rules.Rule) string {
	key := r.Domain
	for _, e := range r.Path {
		key += "." + e.Key
		if e.Value != "" {
			key += "_" + e.Value
		}
	}
	return key
}

// writeStatistics writes ratelimit's statistics that have counted something, a line for each.
func (d *Daemon) writeStatistics(w io.Writer) {
	var lines []string
	d.statistics.Each(func(name string, n uint64) { lines = append(lines, fmt.Sprintf("%s: %d\n", name, n)) })
	slices.Sort(lines)
	_, _ = io.WriteString(w, strings.Join(lines, "")) // the client may be gone
}
