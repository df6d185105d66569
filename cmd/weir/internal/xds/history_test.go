package xds

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
)

// TestHistories: after any sequence of good and bad snapshots, cuts and restarts of both sides, the rules are those of
// the last good snapshot.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := xdstest.Start(t, nil)
		defer c.Stop()
		last := filepath.Join(t.TempDir(), "last")
		good := []string{xdstest.Limit("a", 1)}
		c.Set(good...)
		const hold = "hold=50ms" // or what was left out by a restart would stay for long
		f := follow(t, c, "last="+last, hold)
		expect := func() {
			var want []string
			for _, text := range good {
				domain, n := "", 0
				if _, err := fmt.Sscanf(text, xdstest.Scan, &domain, &n); err != nil {
					rt.Fatal(err)
				}
				want = append(want, fmt.Sprintf("%s/user %d/min fixed-window", domain, n))
			}
			slices.Sort(want)
			xdstest.Soon(t, func() string {
				if is := f.rules(); is != strings.Join(want, ", ") {
					return fmt.Sprintf("%s; want %v", is, want)
				}
				return ""
			})
		}
		bad := false
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				good = nil
				for domain, n := range rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(1, 9), 0, 3).Draw(rt, "good") {
					good = append(good, xdstest.Limit(domain, n))
				}
				c.Set(good...)
				bad = false
				expect()
			case 2:
				c.Set(xdstest.Limit("a", 10), `domain: "b" descriptors {}`)
				bad = true
			case 3: // the control plane begins anew, and knows what it knew
				c.Stop()
				c.Start()
				if !bad {
					c.Set(good...)
				} else {
					c.Set(`domain: "x" descriptors {}`)
				}
			case 4: // the node begins anew
				f.stop()
				f = follow(t, c, "last="+last, hold, "wait=100ms")
			}
		}
		expect()
		f.stop()
	})
}

// policies is 10,000 policies as Envoy Gateway makes them, of one listener. The last has another limit.
func policies(last int) *rlsv3.RateLimitConfig {
	c := &rlsv3.RateLimitConfig{Name: "default/eg/http", Domain: "default/eg/http"}
	const n = 10_000
	for i := range n {
		route := fmt.Sprintf("httproute/default/backend-%d/rule/0/match/0/*", i)
		of := &rlsv3.RateLimitDescriptor{Key: "rule-0-match-0", RateLimit: &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit_MINUTE, RequestsPerUnit: 5}}
		if i == n-1 {
			of.RateLimit.RequestsPerUnit = uint32(last)
		}
		c.Descriptors = append(c.Descriptors, &rlsv3.RateLimitDescriptor{Key: route, Value: route, Descriptors: []*rlsv3.RateLimitDescriptor{of}})
	}
	return c
}

// TestManyPolicies: 10,000 policies of one listener are loaded, and one that changes among them is.
func TestManyPolicies(t *testing.T) {
	c := xdstest.Start(t, nil)
	c.Put(policies(5))
	f := follow(t, c, "wait=1m")
	if set, err := f.now(); err != nil || len(set.Rules()) != 10_000 || len(set.Warnings()) > 0 {
		t.Fatal(len(set.Rules()), set.Warnings(), err)
	}
	c.Put(policies(6))
	xdstest.Soon(t, func() string {
		set, err := f.now()
		if all := set.Rules(); err != nil || all[len(all)-1].Limit.String() != "6/min fixed-window" {
			return fmt.Sprint(all[len(all)-1].Limit, err)
		}
		return ""
	})
}

// BenchmarkChange is how long a change takes, from the control plane's to the rules', among 10,000 policies of one
// listener, of which each change has all read anew.
func BenchmarkChange(b *testing.B) {
	c := xdstest.Start(b, nil)
	c.Put(policies(0))
	f := follow(b, c, "wait=1m")
	sets := make(chan int64, 16)
	f.heard(func() {
		set, _ := f.now()
		all := set.Rules()
		sets <- all[len(all)-1].Limit.Spec().Count
	})
	n := int64(0)
	for b.Loop() {
		n++
		c.Put(policies(int(n)))
		for <-sets != n {
		}
	}
}
