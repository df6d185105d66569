package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// probe is a question to a door whose answer is a text; known is the class of
// the difference, if there is one.
type probe struct {
	what, known string
	ask         func(context.Context, *client) string
}

func httpProbe(known, method, path, body string) probe {
	return probe{strings.TrimSpace(method + " " + path + " " + body), known, func(ctx context.Context, c *client) string {
		code, text, err := c.do(ctx, method, path, []byte(body))
		if err != nil {
			return err.Error()
		}
		if path == "/json" {
			return fmt.Sprint(code)
		}
		return fmt.Sprintf("%d %s", code, strings.TrimSpace(string(text)))
	}}
}

func healthProbe(known, service string) probe {
	return probe{"gRPC health of " + `"` + service + `"`, known, func(ctx context.Context, c *client) string {
		return c.health(ctx, service)
	}}
}

func probes() []probe {
	const good = `{"domain": "doors", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}`
	const over = `{"domain": "doors", "descriptors": [{"entries": [{"key": "none"}]}]}`
	return []probe{
		httpProbe("", http.MethodGet, "/healthcheck", ""),
		healthProbe("", "ratelimit"),
		healthProbe("", ""),
		healthProbe("", "nobody"),
		healthProbe("D28", "envoy.service.ratelimit.v3.RateLimitService"),
		httpProbe("", http.MethodPost, "/json", good),
		httpProbe("", http.MethodPost, "/json", over),
		httpProbe("D27", http.MethodPut, "/json", good),
		httpProbe("D27", http.MethodGet, "/json", good),
		httpProbe("", http.MethodPost, "/json", ""),
		httpProbe("", http.MethodPost, "/json", "{}"),
		httpProbe("", http.MethodPost, "/json", "nonsense"),
		httpProbe("", http.MethodPost, "/json", good+" x"),
		httpProbe("", http.MethodPost, "/json", `{"domain": "doors", "unheard": 1, "descriptors": [{"entries": [{"key": "k"}]}]}`),
		httpProbe("", http.MethodPost, "/json", `{"domain": "doors", "descriptors": [{"entries": [{"key": "k", "value": 1}]}]}`),
		httpProbe("", http.MethodPost, "/json", `{"domain": "doors", "hits_addend": 2, "descriptors": [{"entries": [{"key": "k", "value": "v"}], "hits_addend": 0}]}`),
		httpProbe("", http.MethodPost, "/json", `{"domain": "doors", "hitsAddend": -1, "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}`),
		{"an unknown method of gRPC", "", func(ctx context.Context, c *client) string {
			err := c.conn.Invoke(ctx, "/envoy.service.ratelimit.v3.RateLimitService/Nothing", &rls.RateLimitRequest{}, &rls.RateLimitResponse{})
			return codeOf(err)
		}},
		{"is_negative_hits", "", func(ctx context.Context, c *client) string {
			d := &ratelimit.RateLimitDescriptor{Entries: []*entry{{Key: "k"}}}
			const isNegativeHits = 4 // a field newer than the protocol of this program
			d.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, isNegativeHits, protowire.VarintType), 1))
			_, err := c.rls.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "doors", Descriptors: []*ratelimit.RateLimitDescriptor{d}})
			return codeOf(err)
		}},
		{"an override without a unit", "D11", func(ctx context.Context, c *client) string {
			_, err := c.rls.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "doors", Descriptors: []*ratelimit.RateLimitDescriptor{
				{Entries: []*entry{{Key: "k"}}, Limit: &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}},
			}})
			return codeOf(err)
		}},
	}
}

// doors compares what is around the limits. Its last probe ends the process of
// envoyproxy/ratelimit.
func (c *comparison) doors(ctx context.Context) error {
	const rules = "domain: doors\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1000}\n" +
		"  - key: none\n    rate_limit: {unit: year, requests_per_unit: 0}\n"
	if err := c.servers.load(ctx, map[string]string{"doors.yaml": rules}); err != nil {
		return err
	}
	for _, p := range probes() {
		a, b := p.ask(ctx, c.servers.peer), p.ask(ctx, c.servers.ours)
		switch {
		case a == b:
		case p.known != "":
			c.result.seen(p.known, 1)
		default:
			c.report(finding{What: []string{fmt.Sprintf("%s: envoyproxy/ratelimit answers %q, Weir %q", p.what, a, b)}, Rules: rules})
		}
	}
	if !c.servers.peerRun.gone(5 * time.Second) {
		c.report(finding{What: []string{"envoyproxy/ratelimit lives on after an override without a unit: take that out of docs/envoy.md"}, Rules: rules})
	}
	if code, _, err := c.servers.ours.do(ctx, http.MethodGet, "/healthcheck", nil); err != nil || code != http.StatusOK {
		c.report(finding{What: []string{"Weir is not well after all that"}, Rules: rules})
	}
	return nil
}
