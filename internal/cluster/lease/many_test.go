package lease

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// TestManyKeys is I9: a million distinct keys at one of two nodes are answered each, with no
// more kept or sent than the bounds say; and when they are over, new keys pass again.
func TestManyKeys(t *testing.T) {
	const keys, most = 1_000_000, 500
	members, limit := named("a", "b"), weir.MustParseLimit("1/s")
	nodes := map[string]*Node{}
	for _, m := range members {
		n, err := NewNode(Settings{Name: m.Name, Incarnation: m.Incarnation, Keys: most})
		if err != nil {
			t.Fatal(err)
		}
		n.View(begin, member.Together(m.Name, members), &protocol.Effects{})
		nodes[m.Name] = n
	}
	passed, denied, sent := 0, 0, 0
	deliver := func(now weir.Instant, from string, fx *protocol.Effects) {
		for at := map[string]*protocol.Effects{from: fx}; len(at) > 0; {
			next := map[string]*protocol.Effects{}
			for sender, fx := range at {
				for i := range fx.Answers {
					if fx.Answers[i].Decision.Outcome == weir.Allowed {
						passed++
					} else {
						denied++
					}
				}
				for i := range fx.Messages {
					sent++
					to := fx.Messages[i].Peer
					if next[to] == nil {
						next[to] = &protocol.Effects{}
					}
					nodes[to].Receive(now, sender, &fx.Messages[i].Message, next[to])
				}
			}
			at = next
		}
	}
	ask := func(now weir.Instant, key string) {
		var fx protocol.Effects
		nodes["a"].Ask(now, &protocol.Request{ID: 1, State: weir.StateKey{Rule: "api", Key: key}, Limit: limit, Cost: 1}, &fx)
		deliver(now, "a", &fx)
	}
	now := begin
	for i := range keys {
		now += 10 // 100,000 a second
		ask(now, fmt.Sprint("k", i))
		if at, ok := nodes["a"].Next(); ok && at <= now {
			var fx protocol.Effects
			nodes["a"].Tick(now, &fx)
			deliver(now, "a", &fx)
		}
	}
	t.Logf("%d passed, %d were denied, %d messages", passed, denied, sent)
	for name, n := range nodes {
		if c := n.Count(now); c.Asked > most || c.Owned > most || n.timers.Len() > most || n.limits.Len() > 1 {
			t.Errorf("%s keeps %+v and %d timers; want at most %d of each", name, c, n.timers.Len(), most)
		}
	}
	if passed+denied != keys || passed < 10*most || sent > 4*keys {
		t.Errorf("%d passed and %d were denied, with %d messages; want %d in all, at least %d of them passed, and 4 messages each", passed, denied, sent, keys, 10*most)
	}
	now += 10 * bounds.Micros(table.MaxDeny)
	var fx protocol.Effects
	nodes["a"].Tick(now, &fx)
	deliver(now, "a", &fx)
	before := passed
	for i := range most {
		ask(now, fmt.Sprint("later", i))
	}
	if passed < before+most/2 {
		t.Errorf("ten seconds later %d of %d new keys pass", passed-before, most)
	}
}
