package redisstore

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/redistest"
)

// forgetful is a store that remembers no denials, for its memory is emptied
// before each take.
type forgetful struct{ timed }

func (s forgetful) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	s.denials = record.NewDenials()
	return s.timed.TakeAt(now, asks, out)
}

// TestRememberedDenials: what is answered from the memory of denials is what Redis
// would have answered, to the microsecond.
func TestRememberedDenials(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	texts := []string{
		"3/10us burst 2", "5/10us debt 3", "2/7us leaky-queue queue 1", "3/10us fixed-window", "4/15us sliding-log",
		"9/20us sliding-window", "9/20us sliding-window 2 relaxed", "3/10us fixed-window count-denied", "4/20us initial 1", "2 concurrent ttl 9us",
	}
	trial, answered := 0, int64(0)
	rapid.Check(t, func(t *rapid.T) {
		trial++
		with := timed{New(client, Options{Prefix: fmt.Sprintf("home%d:", trial)})}
		without := forgetful{timed{New(client, Options{Prefix: fmt.Sprintf("away%d:", trial)})}}
		limits := []*weir.Limit{
			weir.MustParseLimit(rapid.SampledFrom(texts).Draw(t, "first")), weir.MustParseLimit(rapid.SampledFrom(texts).Draw(t, "second")),
		}
		now := weir.Instant(1_000_000)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			now += weir.Instant(rapid.Int64Range(0, 4).Draw(t, "step"))
			var asks []weir.Ask
			for i, limit := range limits[:rapid.IntRange(1, 2).Draw(t, "limits")] {
				asks = append(asks, weir.Ask{
					State: weir.StateKey{Rule: fmt.Sprintf("r#%d", i), Key: "k"}, Limit: limit, Cost: rapid.Int64Range(0, 3).Draw(t, "cost"),
					Peek: rapid.IntRange(0, 5).Draw(t, "peek") == 0, Shadow: rapid.IntRange(0, 5).Draw(t, "shadow") == 0,
				})
			}
			got, want := make([]weir.Decision, len(asks)), make([]weir.Decision, len(asks))
			if err := with.TakeAt(now, asks, got); err != nil {
				t.Fatal(err)
			}
			if err := without.TakeAt(now, asks, want); err != nil {
				t.Fatal(err)
			}
			for i := range asks {
				if got[i] != want[i] {
					t.Fatalf("at %d, %s: with a memory %+v, without %+v", now, asks[i].Limit, got[i], want[i])
				}
			}
		}
		answered += with.Stats().Remembered
	})
	if answered == 0 {
		t.Error("nothing was answered locally")
	}
	t.Logf("%d takes were answered locally", answered)
}

// TestPermitsRunOutAtHome: a denial that permits stand beside is not remembered,
// for some of them may have run out when it is asked for again.
func TestPermitsRunOutAtHome(t *testing.T) {
	s := timed{New(connect(t, redistest.Start(t).Addr), Options{})}
	permits := weir.Ask{State: weir.StateKey{Rule: "r#0", Key: "k"}, Limit: weir.MustParseLimit("2 concurrent ttl 9us"), Cost: 1}
	rate := weir.Ask{State: weir.StateKey{Rule: "r#1", Key: "k"}, Limit: weir.MustParseLimit("1/day"), Cost: 1}
	take := func(now weir.Instant, asks ...weir.Ask) []weir.Decision {
		t.Helper()
		out := make([]weir.Decision, len(asks))
		if err := s.TakeAt(now, asks, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	take(1_000_000, permits)
	take(1_000_004, permits, rate)
	none := permits
	none.Cost = 0
	take(1_000_008, none, rate) // denied by the rate: worth remembering, but for the permits
	if d := take(1_000_010, permits, rate); d[0].Outcome != weir.Allowed || d[0].Remaining != 1 || d[1].Outcome != weir.Denied {
		t.Errorf("the permits that are back: %+v, the rate that denies: %+v", d[0], d[1])
	}
}

// TestDenialsAreForgotten: what another process gave back, reset or changed is
// seen after DenialLife at the latest, what this one did at once.
func TestDenialsAreForgotten(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	here, there := timed{New(client, Options{Prefix: "forget:"})}, timed{New(client, Options{Prefix: "forget:"})}
	ask := []weir.Ask{{State: weir.StateKey{Rule: "r#1", Key: "k"}, Limit: weir.MustParseLimit("1/day"), Cost: 1}}
	allowed := func(s timed, now weir.Instant) bool {
		t.Helper()
		out := make([]weir.Decision, 1)
		if err := s.TakeAt(now, ask, out); err != nil {
			t.Fatal(err)
		}
		return out[0].Outcome == weir.Allowed
	}
	const life = weir.Instant(record.DenialLife / time.Microsecond)
	for name, reset := range map[string]struct {
		by    timed
		after weir.Instant
	}{"this one": {here, 0}, "another": {there, life}} {
		start := weir.Instant(1_800_000_000_000_000)
		if err := here.ResetAt(start, []weir.StateKey{ask[0].State}); err != nil {
			t.Fatal(err)
		}
		if !allowed(here, start) || allowed(here, start+1) {
			t.Fatal("the limit is not spent")
		}
		calls := here.Stats().Calls
		if allowed(here, start+2) || here.Stats().Calls != calls {
			t.Errorf("%s: the denial was not remembered", name)
		}
		if err := reset.by.ResetAt(start+3, []weir.StateKey{ask[0].State}); err != nil {
			t.Fatal(err)
		}
		if reset.after > 0 && allowed(here, start+3) {
			t.Errorf("%s: it was seen before it could be", name)
		}
		if !allowed(here, start+1+reset.after) {
			t.Errorf("%s: not seen %v after", name, reset.after.Duration())
		}
	}
}
