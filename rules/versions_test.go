package rules_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/weir-limit/weir/rules"
)

// kept is how many of the sets are still in memory.
func kept(sets []weak.Pointer[rules.Set]) (n int) {
	runtime.GC()
	for _, s := range sets {
		if s.Value() != nil {
			n++
		}
	}
	return n
}

// replaceBy puts so many versions of a file in force one by one, and asks what is
// denied by each of them.
func replaceBy(t *testing.T, l *rules.Limiter, versions int, denied *rules.Request) (sets []weak.Pointer[rules.Set]) {
	t.Helper()
	for n := range versions {
		set := parse(t, fmt.Sprintf("domain: shop\ndescriptors:\n- {key: zero, limits: [0/s]}\n- {key: n%d}\n", n))
		sets = append(sets, weak.Make(set))
		l.Replace(set)
		if denied != nil && check(t, l, denied).Allowed {
			t.Fatal("what is to be denied passes")
		}
	}
	return sets
}

// TestVersionsKept: rules that were replaced are kept for the denials that they
// explain, and no longer.
func TestVersionsKept(t *testing.T) {
	denied := ask(descriptor("zero=a"))
	for _, c := range []struct {
		name   string
		denied *rules.Request
		want   int
	}{
		{"nobody denied", nil, 1},
		{"denied by each", denied, rules.MaxVersions},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := newClocked(t, explainRules)
			d := remember(t, l)
			sets := replaceBy(t, l, 6, c.denied)
			if n := kept(sets); n != c.want {
				t.Errorf("%d versions of the rules are in memory, want %d", n, c.want)
			}
			d.Sweep(clock.now.Time().Add(rules.DenialLife + time.Second))
			if n := kept(sets); n != 1 {
				t.Errorf("%d versions of the rules are in memory when their denials are over, want 1", n)
			}
			runtime.KeepAlive(l)
		})
	}
}
