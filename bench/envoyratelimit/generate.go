package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// features are what this envoyproxy/ratelimit knows, of what came to it lately.
type features struct {
	InnerStar bool `json:"inner_star"` // * elsewhere than at the end
	Quota     bool `json:"quota_mode"` // denies when all quotas are over
	Metadata  bool `json:"metadata"`
}

// generator makes rule files and requests at random.
type generator struct {
	*rand.Rand

	features features
	plain    bool // no words that run into each other when joined by _
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) file(domain string) *ruleFile {
	return &ruleFile{domain: domain, level: g.level(1 + g.IntN(5))}
}

// level makes descriptors with different keys and values, so that a file of
// them is a good one.
func (g *generator) level(n int) []*descriptor {
	seen := map[string]bool{}
	var level []*descriptor
	for range n {
		d := g.descriptor()
		if name := joined(d); !seen[name] {
			seen[name] = true
			level = append(level, d)
		}
		if g.chance(3) {
			d.below = g.level(1 + g.IntN(3))
		}
	}
	return level
}

func (g *generator) key() string {
	if g.plain || !g.chance(8) {
		return pick(g, "user", "path", "ip")
	}
	return pick(g, "user_a", "a", "a_b", "us*", "*")
}

func (g *generator) value() string {
	switch {
	case g.chance(2):
		return ""
	case g.chance(3):
		return pick(g, "*", "a*", "ab*")
	case g.features.InnerStar && g.chance(2):
		return pick(g, "*b", "a*b", "a*b*c", "**")
	case !g.plain && g.chance(6):
		return pick(g, "b_c", "a_b", "_")
	}
	return pick(g, "a", "b", "ab", "abc", "a b", "10")
}

func (g *generator) descriptor() *descriptor {
	d := &descriptor{key: g.key(), value: g.value()}
	if !g.features.InnerStar && strings.Contains(strings.TrimSuffix(joined(d), "*"), "*") {
		d.key, d.value = "user", "a*"
	}
	if !g.chance(6) {
		d.limit = g.limit()
	}
	d.shadow, d.detailed, d.toMetric = g.chance(8), g.chance(6), g.chance(6)
	d.quota = g.features.Quota && g.chance(6)
	d.share = strings.Contains(joined(d), "*") && g.chance(3)
	if g.features.Metadata && g.chance(6) {
		d.metadata = pick(g, `{"team": "core", "tier": 1}`, `{"team": "edge", "more": {"a": [1, "two", {"b": true}]}}`, `{"more": {"c": 1.5, "d": null}}`)
	}
	return d
}

func (g *generator) limit() *rateLimit {
	l := &rateLimit{
		unit:  pick(g, "second", "minute", "hour", "day", "week", "month", "year", "MINUTE", "Hour"),
		count: pick[uint32](g, 0, 1, 2, 3, 3, 5, 5, 10, 20, 100, 1000, 1<<30, 1<<32-1),
	}
	l.unlimited = g.chance(12)
	if g.chance(3) {
		l.name = pick(g, "n1", "n2", "n3")
	}
	if g.chance(6) {
		if other := pick(g, "n1", "n2", "n3", "n4"); other != l.name {
			l.replaces = append(l.replaces, other)
		}
	}
	return l
}

// request is one of the domain of f that is likely to meet rules.
func (g *generator) request(f *ruleFile) *rls.RateLimitRequest {
	q := &rls.RateLimitRequest{Domain: f.domain}
	for range 1 + g.IntN(4)/2*g.IntN(3) {
		q.Descriptors = append(q.Descriptors, g.ask(f))
	}
	if g.chance(4) {
		q.HitsAddend = pick[uint32](g, 0, 1, 2, 3, 7)
	}
	if g.chance(100) {
		q.Domain = "nobody"
	}
	if g.chance(40) {
		g.spoil(q)
	}
	return q
}

func (g *generator) ask(f *ruleFile) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{Entries: g.entries(f.level)}
	if g.chance(5) {
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](g, 0, 0, 1, 2, 4, 11))
	}
	if g.chance(100) {
		d.HitsAddend = wrapperspb.UInt64(pick[uint64](g, 1<<30, 1<<30+1, 1<<32, 1<<40))
	}
	if g.chance(15) {
		d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: pick[uint32](g, 0, 1, 3, 10, 1<<32-1),
			Unit: pick(g, envoytype.RateLimitUnit_SECOND, envoytype.RateLimitUnit_MINUTE, envoytype.RateLimitUnit_HOUR,
				envoytype.RateLimitUnit_DAY, envoytype.RateLimitUnit_MONTH, envoytype.RateLimitUnit_YEAR),
		}
	}
	return d
}

// entries goes down a file, and sometimes astray.
func (g *generator) entries(level []*descriptor) []*entry {
	var entries []*entry
	for {
		e := &entry{Key: g.key(), Value: g.word(g.value())}
		var below []*descriptor
		if len(level) > 0 && !g.chance(12) {
			d := pick(g, level...)
			e.Key, e.Value, below = g.word(d.key), g.word(d.value), d.below
			if d.value == "" {
				e.Value = g.word("")
			}
		}
		entries = append(entries, e)
		if len(below) == 0 && !g.chance(30) || len(below) > 0 && g.chance(3) {
			return entries
		}
		level = below
	}
}

// word is one that fits a pattern, mostly. No value means any.
func (g *generator) word(pattern string) string {
	if pattern == "" {
		if !g.plain && g.chance(6) {
			return pick(g, "a_user", "user_b", "b", "x_path_b") // user=a, user=user_b and user=a_user, user=b
		}
		return pick(g, "", "a", "ab", "zz")
	}
	if g.chance(20) {
		return pattern
	}
	for strings.Contains(pattern, "*") {
		pattern = strings.Replace(pattern, "*", pick(g, "", "b", "x"), 1)
	}
	if pattern == "" {
		return "q"
	}
	return pattern
}

// spoil makes a request that one of the servers at least refuses.
func (g *generator) spoil(q *rls.RateLimitRequest) {
	d := q.Descriptors[0]
	switch g.IntN(7) {
	case 0:
		q.Domain = ""
	case 1:
		q.Descriptors = nil
	case 2:
		d.Entries = nil
	case 3:
		d.Entries[0].Key = ""
	case 4:
		for len(d.Entries) < 17 {
			d.Entries = append(d.Entries, &entry{Key: "user", Value: fmt.Sprint(len(d.Entries))})
		}
	case 5:
		for len(q.Descriptors) < 101 {
			q.Descriptors = append(q.Descriptors, d)
		}
	case 6:
		d.Entries[0].Value = strings.Repeat("v", 5000)
	}
}
