package ledger

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Copy is what messages carry of a ledger: to its next owner, and to the member that keeps a backup.
type Copy struct {
	kept   weir.Kept    // what was charged, by each version of the limit
	ahead  weir.Instant // the clock of the owner that began it is so much ahead
	policy protocol.Policy
	has    Entitlement // that nobody else can use
	known  uint64      // the losses that were known of when all that has passed was in it; 0: it may not be
}

// Idle is whether it may be forgotten: all of it has recovered.
func (c *Copy) Idle(now weir.Instant) bool { return c.kept.FreshAfter(c.At(now)) == 0 }

// At is the time by the clock that the state goes by.
func (c *Copy) At(now weir.Instant) weir.Instant { return now + c.ahead }

// charge counts events that have passed.
func (c *Copy) charge(now weir.Instant, events int64) {
	if events <= 0 {
		return
	}
	c.kept.Charge(c.At(now), events)
}

func (c *Copy) free(now weir.Instant) int64 {
	free, _ := c.kept.Limit.Standing(c.kept.State, c.At(now))
	return free
}

func (c *Copy) pace() int64 { return protocol.Pace(c.kept.Limit) }

// passes is how long until so many events pass, 0 where that is not known.
func (c *Copy) passes(now weir.Instant, events int64) time.Duration {
	return c.kept.Limit.Decide(c.kept.State, c.At(now), &weir.Ask{Limit: c.kept.Limit, Cost: events, Peek: true}).RetryAfter
}

// cover charges events that will be granted, as if they were used when the last lease of them may be, and is until when they may be
// granted. A bucket can be charged late: that costs no more than it fills in that time. A window counts its events until its end.
func (c *Copy) cover(now weir.Instant, events int64) (until weir.Instant) {
	const life = member.Life + member.Margin
	until = now + bounds.Micros(fresh)
	switch {
	case c.large():
		until = now + bounds.Micros(protocol.Lasting/2)
		c.charge(until+bounds.Micros(protocol.Lasting+protocol.Lasting/100+life), events)
		return until
	case c.kept.Limit.Algorithm() == weir.FixedWindow:
		used := Copy{kept: c.kept.Clone(), ahead: c.ahead}
		used.charge(now, max(events, 1))
		if _, ends := used.kept.Limit.Standing(used.kept.State, used.At(now)); ends > fresh+2*life && len(c.kept.Earlier) == 0 {
			c.charge(now, events)
			return now + bounds.Micros(ends-2*life)
		}
	}
	c.charge(until+bounds.Micros(life), events)
	return until
}

// large is whether a limit is a bucket of which a minute's pace is little: leases of it may last, though it has backups.
func (c *Copy) large() bool {
	all, _ := c.kept.Limit.Standing(nil, 0)
	return c.kept.Limit.Algorithm() == weir.GCRA && all >= 64
}

// apart is how far clocks of nodes may be apart, and a ledger be on its way, for its windows to go
// by the clock of the next owner.
const apart = 10 * weir.Instant(time.Second/time.Microsecond)

// keepTime makes windows go by this node's clock, where it is about that of the owner
// before: else each move would shift them. The events left do not grow by that.
func (c *Copy) keepTime(now weir.Instant) {
	left := c.free(now)
	c.ahead = 0
	c.charge(now, c.free(now)-left)
}

// Carried is what a message has of a ledger, whose limits are the ones of their texts.
func Carried(now weir.Instant, m *protocol.Message, limits func(text string) *weir.Limit) (c Copy, ok bool) {
	kept, ok := m.Carried(limits)
	if !ok {
		return Copy{}, false
	}
	c = Copy{kept: kept, ahead: m.At - now, policy: m.Policy, known: m.Known, has: Entitlement{m.Part, m.Of}}
	if m.Part == 0 && m.Words == "" && (m.Kind == protocol.Backup || m.Lost != "") { // the state was too long: all counts as used
		all, _ := kept.Limit.Standing(nil, now)
		c.charge(now, all)
	}
	return c, true
}

// Forward is a backup as the next owner gets it, of a process that is gone.
func (c *Copy) Forward(now weir.Instant, key weir.StateKey, lost string, run uint64) protocol.Message {
	m := protocol.Message{
		Kind: protocol.Handoff, State: key, Limit: c.kept.Limit.String(), Policy: c.policy, Part: c.has.Part, Of: c.has.Of, Known: c.known, At: c.At(now),
		Lost: lost, LostRun: run,
	}
	m.Carry(&c.kept)
	return m
}
