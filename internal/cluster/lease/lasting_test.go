package lease

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// rare is a pair whose holder has a lease that lasts, with some events left, and was not asked
// for longer than a Life.
func rare(t *testing.T) *pair {
	p := newPair(t, "60/min burst 10000")
	p.owner.peers.Found()
	p.until(10 * second)
	for range 2 {
		p.exchange(p.ask(1))
		p.until(p.now + 3*second)
	}
	return p
}

// TestLasting holds a lease that lasts to pass what is left of it while the owner's heartbeats are
// heard, and to count as outstanding for as long.
func TestLasting(t *testing.T) {
	for _, quiet := range []weir.Instant{0, life - 2*bounds.Micros(member.Pulse), life + margin} {
		p := rare(t)
		p.now += quiet // without heartbeats
		hears := quiet < life
		if out, _ := p.outstanding(p.now); (out > 0) != hears {
			t.Errorf("%d after the last heartbeats: %d outstanding", quiet, out)
		}
		if n := p.passes(3); n != 3 && hears || n != 0 && !hears {
			t.Errorf("%d after the last heartbeats: %d pass", quiet, n)
		}
	}
}

// TestLastingEnds holds leases that last to end, and what is left of them to come back: when
// nobody uses them, when their limit is changed, and when another is denied.
func TestLastingEnds(t *testing.T) {
	for what, end := range map[string]func(*pair) protocol.Message{
		"unused": func(p *pair) protocol.Message {
			p.until(p.now + bounds.Micros(protocol.Lasting/2))
			var fx protocol.Effects
			p.holder.Tick(p.now, &fx)
			if len(fx.Messages) == 0 {
				t.Fatal("a lease that nobody uses is not given back")
			}
			return fx.Messages[0].Message
		},
		"changed": func(p *pair) protocol.Message {
			p.limit = weir.MustParseLimit("59/min burst 10000")
			return p.ask(1)
		},
		"called back": func(p *pair) protocol.Message {
			var fx protocol.Effects
			asks := []weir.Ask{{State: p.key, Limit: p.limit, Cost: 9999, MaxHold: time.Nanosecond}}
			if _, _, err := p.owner.Take(p.now, asks, make([]weir.Decision, 1), &fx); err != nil || len(fx.Messages) != 1 {
				t.Fatalf("where somebody is denied, %d leases are called back, %v", len(fx.Messages), err)
			}
			m := fx.Messages[0].Message
			fx = protocol.Effects{}
			p.holder.Receive(p.now, ownerName, &m, &fx)
			if n := p.passes(1); n != 0 || len(fx.Messages) != 1 {
				t.Fatalf("after its lease is called back, %d pass; %d answers", n, len(fx.Messages))
			}
			return fx.Messages[0].Message
		},
	} {
		p := rare(t)
		if m := end(p); !m.Closed || m.Spent != 1 {
			t.Errorf("%s: %+v; want the lease closed, with one event", what, m)
		} else {
			p.serve(m)
		}
		if out, _ := p.outstanding(p.now); what != "changed" && out != 0 {
			t.Errorf("%s: %d outstanding", what, out)
		}
	}
}
