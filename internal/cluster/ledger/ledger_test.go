package ledger

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"pgregory.net/rapid"
)

const (
	second = weir.Instant(1_000_000)
	start  = 1000 * second
)

// TestLedger holds an owner to set aside no more than the limit has left (I3), whatever
// nodes say and however many votes it has, and to answer an ask that comes again as before,
// for nothing (I5).
func TestLedger(t *testing.T) {
	limits := []*weir.Limit{
		weir.MustParseLimit("100/s"), weir.MustParseLimit("10/s burst 3"), weir.MustParseLimit("50/s fixed-window"),
		weir.MustParseLimit("50/s sliding-log"), weir.MustParseLimit("50/s sliding-window 4"),
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		all, _ := limit.Standing(nil, 0)
		g := begin(limit, []charge{{0, all}})
		now, next, number := weir.Instant(0), uint64(0), rapid.Int64Range(0, 200)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += weir.Instant(rapid.Int64Range(0, 300_000).Draw(t, "since"))
			from := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "from")
			m := protocol.Message{
				Kind: protocol.Ask, Incarnation: uint64(rapid.IntRange(1, 3).Draw(t, "incarnation")), ID: uint64(rapid.IntRange(1, 50).Draw(t, "id")),
				Lease: rapid.Uint64Range(0, next).Draw(t, "lease"), Spent: number.Draw(t, "spent"), Closed: rapid.Bool().Draw(t, "closed"),
				Least: 1 + number.Draw(t, "least"), Demand: number.Draw(t, "demand"),
			}
			m.Want, m.Ahead = m.Least+number.Draw(t, "want"), number.Draw(t, "ahead")
			view := &member.View{Sure: 1 << 62, Prolongs: 1, Lent: now - weir.Instant(rapid.IntRange(0, 1_000_000).Draw(t, "quiet"))}
			if may := rapid.SampledFrom([]Entitlement{{1, 1}, {1, 1}, {2, 3}, {1, 5}, {0, 1}}).Draw(t, "entitlement"); may.less(g.may) || g.may.Of == 0 {
				g.enter(now, may)
			}
			answer, ok := g.Ask(now, view, from, &m, next+1)
			next = max(next, answer.Lease)
			outstanding, free := g.takes(0), g.free(now)
			if outstanding < 0 || outstanding > free {
				t.Fatalf("%d are needed for what is outstanding, and the limit has %d left", outstanding, free)
			}
			if !ok {
				continue
			}
			again, _ := g.Ask(now, view, from, &m, next+1)
			again.Words, again.At = answer.Words, answer.At // what it stands on is told once
			if diff := cmp.Diff(answer, again); diff != "" || g.free(now)-g.takes(0) != free-outstanding {
				t.Fatalf("asked again: %s, %d left and %d outstanding; before %d and %d", diff, g.free(now), g.takes(0), free, outstanding)
			}
		}
	})
}

// TestFewLeft holds a change of votes, that come back soon for nothing, to cost a limit nothing of which
// so few are left that one more or less is what matters.
func TestFewLeft(t *testing.T) {
	for _, text := range []string{"1 concurrent ttl 1h", "2 concurrent ttl 1h", "2/day fixed-window", "2/day", "2/day sliding-log"} {
		l := weir.MustParseLimit(text)
		v := member.Together("a", []member.Member{{Name: "a", Incarnation: 1}, {Name: "b", Incarnation: 1}, {Name: "c", Incarnation: 1}})
		all := member.Place{Version: 1, Owns: true, Count: 3, Voters: make([]member.Voter, 3)}
		g := &Ledger{Copy: Copy{kept: weir.Kept{Limit: l}, known: v.Lost.Of(false)}, place: &nowhere}
		if l.Spec().Count == 1 {
			g.known = 0 // what others had of it they can't have let pass: none was left
		}
		g.move(start, v, &all, Entitlement{1, 1})
		g.charge(start, 1)
		before := slices.Clone(g.kept.State)
		for range 4 {
			g.move(start, v, &all, Entitlement{2, 3})
			g.waits, g.has = 0, Entitlement{2, 3}
		}
		if diff := cmp.Diff(before, g.kept.State); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestTwoVersions holds an owner that is asked for two versions of a limit by turns not
// to forget what was used, and to count for each what the other lets pass.
func TestTwoVersions(t *testing.T) {
	large, small := weir.MustParseLimit("100/min"), weir.MustParseLimit("10/min")
	g := begin(large, []charge{{0, 90}})
	for range 5 {
		if g.Become(second, nil, small); g.kept.Limit != small || g.free(second) != 0 {
			t.Fatalf("the limit is %s, %d free; want %s, 0 free", g.kept.Limit, g.free(second), small)
		}
		if g.Become(second, nil, large); g.kept.Limit != large || g.free(second) != 11 {
			t.Fatalf("the limit is %s, %d free; want %s, 11 free", g.kept.Limit, g.free(second), large)
		}
	}
	g.Become(second, nil, small)
	g.pass(second, 6)
	if g.Become(second, nil, large); g.free(second) != 5 {
		t.Errorf("%d free of %s after 96, want 5", g.free(second), large)
	}
}

// TestLateHandoff is of a ledger that began with what a node could know, and let some pass, until
// that of the owner before came.
func TestLateHandoff(t *testing.T) {
	limit := weir.MustParseLimit("1/h burst 100")
	for _, row := range []struct {
		of         int64 // the part of the limit that the owner before had, and this one
		left, want int64 // of what the one before had left
	}{{1, 90, 60}, {1, 20, 10}, {2, 90, 90}} {
		g := begin(limit, []charge{{start, 60}})
		g.has = Entitlement{1, row.of}
		g.pass(start, 30)
		before := begin(limit, []charge{{start, 100 - row.left}})
		m := protocol.Message{At: start, Part: 1, Of: row.of}
		g.merge(start, &m, &Copy{kept: weir.Kept{Limit: limit, State: before.kept.State}, ahead: m.At - start}, true)
		if got := g.free(start); got != row.want {
			t.Errorf("with 10 left after 30 passed, 1/%d of %d left are taken over: %d left, want %d", row.of, row.left, got, row.want)
		}
	}
}
