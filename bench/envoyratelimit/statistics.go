package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// statisticsRules have a rule for each way to name a statistic.
const statisticsRules = `domain: stats.d
descriptors:
  - {key: plain, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: plain, value: known, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: hidden, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: star, value: a*, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: "odd:|10.1.2.3", rate_limit: {unit: year, requests_per_unit: 3}}
  - key: outer
    value: v
    descriptors:
      - {key: inner, rate_limit: {unit: year, requests_per_unit: 4}}
      - key: inner
        value: deep
        descriptors:
          - {key: deepest, rate_limit: {unit: year, requests_per_unit: 3}}
          - {key: deeper, rate_limit: {unit: year, requests_per_unit: 3}}
`

// statisticsAsked are requests, each of one descriptor, KEY=VALUE … , that costs one hit: where a request costs more or meets several
// limits, the numbers differ as answers do (D1, D2, D31).
var statisticsAsked = []struct {
	times int
	words string
}{
	{8, "plain=x"},
	{12, "plain=known"},
	{5, "hidden=x"},
	{2, "free=x"},
	{5, "star=ab"},
	{2, "star=ac"},
	{3, "detailed=x.y"},
	{1, "detailed=10.0.0.1"},
	{4, "odd:|10.1.2.3=x"},
	{6, "outer=v inner=x"},
	{4, "outer=v inner=deep deepest=x"},
	{4, "outer=v inner=deep deeper=x"},
	{2, "none=x"},
}

// statistics compares what both tell Prometheus after the same requests: names, labels and numbers; and the rules that their debug
// ports tell.
func (c *comparison) statistics(ctx context.Context) error {
	if err := c.servers.load(ctx, map[string]string{"stats.yaml": statisticsRules}); err != nil {
		return err
	}
	for _, asked := range statisticsAsked {
		d := new(ratelimit.RateLimitDescriptor)
		for word := range strings.FieldsSeq(asked.words) {
			key, value, _ := strings.Cut(word, "=")
			d.Entries = append(d.Entries, &entry{Key: key, Value: value})
		}
		for range asked.times {
			for _, server := range []*client{c.servers.peer, c.servers.ours} {
				if _, err := server.ask(ctx, &rls.RateLimitRequest{Domain: "stats.d", Descriptors: []*ratelimit.RateLimitDescriptor{d}}, false); err != nil {
					return err
				}
			}
		}
	}
	for _, server := range []*client{c.servers.peer, c.servers.ours} { // a bad request, which is an error in the statistics of both
		if _, err := server.ask(ctx, &rls.RateLimitRequest{Domain: "stats.d"}, false); err != nil {
			return err
		}
	}
	ours, err := series(ctx, c.servers.oursMetrics)
	if err != nil {
		return err
	}
	var peer map[string]string
	for until := time.Now().Add(callTimeout); ; time.Sleep(50 * time.Millisecond) { // it tells them in intervals
		if peer, err = series(ctx, c.servers.peerMetrics); err != nil {
			return err
		}
		if maps.Equal(peer, ours) || time.Now().After(until) {
			break
		}
	}
	names := maps.Clone(peer)
	maps.Copy(names, ours)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if peer[name] != ours[name] {
			c.report(finding{What: []string{fmt.Sprintf("statistic %s: envoyproxy/ratelimit tells %q, Weir %q", name, peer[name], ours[name])}, Rules: statisticsRules})
		}
	}
	if c.result.Statistics = len(ours); len(ours) < 20 {
		c.report(finding{What: []string{fmt.Sprintf("there are only %d statistics", len(ours))}, Rules: statisticsRules})
	}
	return c.configs(ctx)
}

// configs compares /rlconfig of the debug ports. ratelimit tells rules in any order.
func (c *comparison) configs(ctx context.Context) error {
	a, err := lines(ctx, c.servers.peerDebug+"/rlconfig")
	if err != nil {
		return err
	}
	b, err := lines(ctx, c.servers.oursDebug+"/rlconfig")
	if err != nil {
		return err
	}
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		c.report(finding{What: []string{fmt.Sprintf("/rlconfig: envoyproxy/ratelimit tells %q, Weir %q", a, b)}, Rules: statisticsRules})
	}
	return nil
}

// series are the statistics of ratelimit that a server tells Prometheus, and their numbers. Times differ, and how often files were read; calls of the health service are
// ratelimit's alone (D31).
func series(ctx context.Context, address string) (map[string]string, error) {
	all, err := lines(ctx, address+"/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, line := range all {
		name, value, ok := strings.Cut(line, "} ")
		if !ok {
			name, value, _ = strings.Cut(line, " ")
		}
		timed := strings.HasPrefix(name, "ratelimit_service_response_time_seconds") && !strings.HasPrefix(name, "ratelimit_service_response_time_seconds_count")
		switch {
		case !strings.HasPrefix(name, "ratelimit_service_"), timed, strings.Contains(name, `grpc_method="Check"`):
		case name == "ratelimit_service_config_load_success":
			found[name] = "some"
		default:
			found[name] = value
		}
	}
	return found, nil
}

// lines are those of a page.
func lines(ctx context.Context, url string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", url, r.StatusCode)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}
