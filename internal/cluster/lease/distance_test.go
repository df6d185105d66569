package lease

import (
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// far runs a pair that is so far apart for ten seconds, at ten times the limit, and is
// how many requests pass in that time, and how many messages that took.
func far(t *testing.T, limit string, gap, oneWay weir.Instant, known bool) (passed, messages int) {
	p := newPair(t, limit)
	p.until(5 * second)
	if known {
		p.holder.Distances(map[string]protocol.Distance{ownerName: protocol.Distance((2 * oneWay).Duration())})
	}
	type letter struct {
		at weir.Instant
		to *process
		protocol.Message
	}
	var mail []letter
	var fx protocol.Effects
	deliver := func(from *process) {
		for _, m := range fx.Messages {
			to := p.owner
			if from == p.owner {
				to = p.holder
			}
			mail = append(mail, letter{p.now + oneWay, to, m.Message})
			messages++
		}
		for _, a := range fx.Answers {
			if a.Decision.Outcome == weir.Allowed {
				passed++
			}
		}
		fx = protocol.Effects{}
	}
	for end := p.now + 10*second; p.now < end; p.now += 1000 {
		if p.now%10_000 == 0 {
			p.pulse(p.now)
		}
		for len(mail) > 0 && mail[0].at <= p.now {
			m, from := mail[0], ownerName
			if mail = mail[1:]; m.to == p.owner {
				from = holderName
			}
			m.to.Receive(p.now, from, &m.Message, &fx)
			deliver(m.to)
		}
		p.holder.Tick(p.now, &fx)
		if p.now%gap == 0 {
			p.holder.Ask(p.now, p.request(messages*1000+int(p.now)), &fx)
		}
		deliver(p.holder)
	}
	return passed, messages
}

// TestFar holds a node that knows how far its owner is to let most pass, by fewer
// messages than one that does not.
func TestFar(t *testing.T) {
	for _, c := range []struct {
		limit          string
		gap, oneWay    weir.Instant
		least, percent int // what passes, and messages of those sent without knowing
	}{
		{"20/s", 5000, 1_000, 200, 100},
		{"20/s", 5000, 20_000, 200, 40},
		{"20/s", 5000, 100_000, 200, 10},
		{"20/s", 5000, 140_000, 190, 15},
		{"1000/s", 500, 1_000, 9_950, 100},
		{"1000/s", 500, 20_000, 9_900, 60},
		{"1000/s", 500, 100_000, 8_500, 15},
		{"1000/s", 500, 140_000, 6_000, 20},
	} {
		passed, messages := far(t, c.limit, c.gap, c.oneWay, true)
		before, more := far(t, c.limit, c.gap, c.oneWay, false)
		t.Logf("%s, %v µs each way: %d pass by %d messages; where it is not known %d by %d", c.limit, c.oneWay, passed, messages, before, more)
		if passed < c.least || messages*100 > more*c.percent {
			t.Errorf("%s, %v µs each way: %d pass by %d messages; want %d by %d", c.limit, c.oneWay, passed, messages, c.least, more*c.percent/100)
		}
	}
}
