package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
)

// packed is resources of domains with one limit each; 0 is a bad one.
func packed(t testing.TB, limits map[string]int) (all []*anypb.Any) {
	t.Helper()
	for _, domain := range slices.Sorted(maps.Keys(limits)) {
		text := xdstest.Limit(domain, limits[domain])
		if limits[domain] == 0 {
			text = strings.Replace(text, "MINUTE", "UNKNOWN", 1)
		}
		resource, err := anypb.New(xdstest.Config(t, text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resource)
	}
	return all
}

// TestBookModel: whatever streams and answers there are, good and bad, the domains are those of the last good answer,
// and those that no stream since has had long enough to name.
func TestBookModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now, b := time.Unix(0, 0), &book{hold: holdTime}
		type known struct{ limit, stream int }
		model, stream, first := map[string]known{}, 0, time.Time{}
		b.open()
		stream++
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			// The timer of what is held rings when it is due, not with the next step.
			if _, until := b.held(); !until.IsZero() && !now.Before(until) {
				b.take(b.expired(), until)
			}
			if !first.IsZero() && !now.Before(first.Add(holdTime)) {
				maps.DeleteFunc(model, func(_ string, k known) bool { return k.stream != stream })
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				b.open()
				stream, first = stream+1, time.Time{}
			default:
				limits := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(0, 2), 0, 3).Draw(rt, "answer")
				read, err := b.read(packed(t, limits))
				if bad := slices.Contains(slices.Collect(maps.Values(limits)), 0); bad != (err != nil) {
					rt.Fatalf("%v: %v", limits, err)
				} else if bad {
					continue
				}
				b.take(b.next(read, now), now)
				maps.DeleteFunc(model, func(_ string, k known) bool {
					return k.stream == stream || !first.IsZero() && !now.Before(first.Add(holdTime))
				})
				for domain, n := range limits {
					model[domain] = known{n, stream}
				}
				if first.IsZero() {
					first = now
				}
			}
			var want []string
			for _, domain := range slices.Sorted(maps.Keys(model)) {
				want = append(want, fmt.Sprintf("%s/user %d/min fixed-window", domain, model[domain].limit))
			}
			set, err := join(b.domains)
			if err != nil || told(set) != strings.Join(want, ", ") {
				rt.Fatalf("%s, %v; want %s", told(set), err, strings.Join(want, ", "))
			}
		}
	})
}

// TestHeld: what an earlier stream has named stays for holdTime from the first answer of this one, and no longer; what this one
// has named is gone at once.
func TestHeld(t *testing.T) {
	b, now := &book{hold: holdTime}, time.Unix(0, 0)
	answer := func(limits map[string]int) string {
		t.Helper()
		read, err := b.read(packed(t, limits))
		if err != nil {
			t.Fatal(err)
		}
		b.take(b.next(read, now), now)
		return strings.Join(slices.Sorted(maps.Keys(b.domains)), " ")
	}
	b.open()
	answer(map[string]int{"a": 1, "b": 1, "c": 1})
	if got := answer(map[string]int{"a": 1, "b": 1}); got != "a b" {
		t.Error("left out by the stream that had named it:", got)
	}
	b.open()
	now = now.Add(time.Hour) // it takes its time
	if got := answer(nil); got != "a b" {
		t.Error("an empty first answer:", got)
	}
	now = now.Add(holdTime - 1)
	if got := answer(map[string]int{"b": 2}); got != "a b" {
		t.Error("a moment before:", got)
	}
	if names, until := b.held(); !slices.Equal(names, []string{"a"}) || !until.Equal(now.Add(1)) {
		t.Error("held:", names, until)
	}
	now = now.Add(1)
	if got := answer(map[string]int{"b": 2}); got != "b" {
		t.Error("then:", got)
	}
}

// TestUnchanged: a resource that is as before is not parsed again.
func TestUnchanged(t *testing.T) {
	b, now := &book{hold: holdTime}, time.Unix(0, 0)
	b.open()
	read := func(limits map[string]int) map[string]*domain {
		t.Helper()
		domains, err := b.read(packed(t, limits))
		if err != nil {
			t.Fatal(err)
		}
		return domains
	}
	first := read(map[string]int{"a": 1, "b": 1})
	if !b.take(first, now) {
		t.Error("the first answer changed nothing")
	}
	again := read(map[string]int{"a": 1, "b": 2})
	if again["a"].set != first["a"].set || again["b"].set == first["b"].set {
		t.Error("parsed again, or not")
	}
	if !b.take(again, now) || b.take(read(map[string]int{"a": 1, "b": 2}), now) {
		t.Error("what changed is not what was told")
	}
}

// TestRuleFile: each field of a resource is in the rule file, and it is read as envoyproxy/ratelimit reads it.
func TestRuleFile(t *testing.T) {
	c := xdstest.Config(t, `
domain: "d: \"x\"\n*"
descriptors {
  key: "route/*" value: "route/*" shadow_mode: true
  descriptors {
    key: "path" value: "/api/*"
    rate_limit { unit: WEEK requests_per_unit: 4294967295 name: "n" replaces { name: "o" } replaces { name: "p" } }
    shadow_mode: true quota_mode: true detailed_metric: true
    metadata {
      fields { key: "a" value { list_value { values { number_value: 5 } values { number_value: 1.5e300 } values { null_value: 0 } } } }
      fields { key: "\001\303\251" value { struct_value { fields { key: "b" value { bool_value: true } } fields { key: "c" value { string_value: "\t" } } } } }
    }
  }
  descriptors { key: "user" rate_limit { unlimited: true } }
}
descriptors { key: "zero" rate_limit { unit: SECOND } }
`)
	const want = `domain: "d: \"x\"\n*"
descriptors:
- key: "route/*"
  value: "route/*"
  match: exact
  descriptors:
  - key: "path"
    value: "/api/*"
    rate_limit: {unit: week, requests_per_unit: 4294967295, name: "n", replaces: [{name: "o"}, {name: "p"}]}
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    metadata: {"\x01é": {"b": true, "c": "\t"}, "a": [5, 1.5e+300, null]}
  - key: "user"
    rate_limit: {unlimited: true}
- key: "zero"
  rate_limit: {unit: second, requests_per_unit: 0}
`
	if got := string(ruleFile(c)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	domains, err := new(book).read(resources(t, c))
	if err != nil {
		t.Fatal(err)
	}
	set := domains[c.GetDomain()].set
	r := set.Rules()[0]
	if !r.Shadow || !r.QuotaMode || !r.DetailedMetric || r.EnvoyName != "n" || !slices.Equal(r.Replaces, []string{"o", "p"}) || r.Limit.String() != "4294967295/168h fixed-window" {
		t.Errorf("%+v", r)
	}
	if got := fmt.Sprint(r.Metadata); got != "map[\x01é:map[b:true c:\t] a:[5 1.5e+300 <nil>]]" {
		t.Errorf("%q", got)
	}
}

func resources(t testing.TB, c *rlsv3.RateLimitConfig) []*anypb.Any {
	t.Helper()
	resource, err := anypb.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return []*anypb.Any{resource}
}

// TestBadResources: what envoyproxy/ratelimit refuses in a resource is refused, with the name of the resource.
func TestBadResources(t *testing.T) {
	deep := &rlsv3.RateLimitDescriptor{Key: "k"}
	for range maxDepth {
		deep = &rlsv3.RateLimitDescriptor{Key: "k", Descriptors: []*rlsv3.RateLimitDescriptor{deep}}
	}
	for want, c := range map[string]*rlsv3.RateLimitConfig{
		"empty domain":              xdstest.Config(t, `name: "x"`),
		"unit is missing":           xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" rate_limit { requests_per_unit: 1 } }`),
		`unit "9"`:                  xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" rate_limit { unit: 9 requests_per_unit: 1 } }`),
		"unlimited excludes unit":   xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" rate_limit { unit: DAY unlimited: true } }`),
		"empty key":                 xdstest.Config(t, `name: "x" domain: "d" descriptors { value: "k" rate_limit { unit: DAY requests_per_unit: 1 } }`),
		"duplicate descriptor":      xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" } descriptors { key: "k" }`),
		"empty name":                xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" rate_limit { unit: DAY replaces { } } }`),
		"replaces its own name":     xdstest.Config(t, `name: "x" domain: "d" descriptors { key: "k" rate_limit { unit: DAY name: "n" replaces { name: "n" } } }`),
		"stand in each other":       {Name: "x", Domain: "d", Descriptors: []*rlsv3.RateLimitDescriptor{deep}},
		"there are 10001 resources": nil,
	} {
		all := make([]*anypb.Any, maxResources+1)
		name := "resources"
		if c != nil {
			all, name = resources(t, c), "x"
		}
		_, err := new(book).read(all)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(reason(err), "refused, the rules before stay: "+name+"\n") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestReasonIsBounded: thousands of bad resources make no reason that a control plane could not take.
func TestReasonIsBounded(t *testing.T) {
	limits := map[string]int{}
	for i := range 2000 {
		limits[fmt.Sprintf("é%04d", i)] = 0
	}
	_, err := new(book).read(packed(t, limits))
	if r := reason(err); len(r) > maxReason || !strings.Contains(r, "é0000, é0001") || !strings.HasSuffix(r, "… (cut)") {
		t.Errorf("%d bytes: %q", len(r), r)
	}
}

// FuzzRead: no bytes of a control plane stop the process.
func FuzzRead(f *testing.F) {
	for _, text := range []string{xdstest.Limit("shop", 5), `domain: "d" descriptors { key: "a*" value: "a*" descriptors { key: "b" } }`} {
		raw, err := proto.Marshal(xdstest.Config(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		domains, err := new(book).read([]*anypb.Any{{TypeUrl: typeURL, Value: raw}})
		if err == nil {
			_, err = join(domains)
		}
		if err != nil && reason(err) == "" {
			t.Error("refused without a reason")
		}
	})
}
