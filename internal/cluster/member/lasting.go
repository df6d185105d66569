package member

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// Leases that last are used for longer than a Life, while heartbeats of their owner prolong
// them: docs/decisions/0036.

// lasting is which leases of the process its heartbeats prolong: those granted on all votes, in
// views of one version, while no more than a Life passes between two heartbeats.
type lasting struct {
	number  uint64       // 0: there have been none
	version uint64       // of the views
	lent    weir.Instant // when the last heartbeats prolonged them
	ended   weir.Instant // when the last heartbeats prolonged those of the number before
}

// next is the number that heartbeats at now tell, by that view.
func (l *lasting) next(now weir.Instant, v *View) uint64 {
	if now >= v.Sure {
		return 0
	}
	if l.number == 0 || l.version != v.Version || now >= l.lent+bounds.Micros(Life) { // I16
		l.number, l.version, l.ended = l.number+1, v.Version, l.lent
	}
	l.lent = now
	return l.number
}

func (l *lasting) show(v *View) {
	if l.version == v.Version {
		v.Prolongs, v.Lent, v.ended = l.number, l.lent, l.ended
	} else {
		v.ended = l.lent
	}
}

// Lends is the number of leases that last, 0 where none can be granted.
func (v *View) Lends(now weir.Instant) uint64 {
	if now >= v.Sure {
		return 0
	}
	return v.Prolongs
}

// Prolonged is until when this process has to expect that leases of a number are used.
func (v *View) Prolonged(number uint64) weir.Instant {
	if number == v.Prolongs {
		return Over(v.Lent)
	}
	return Over(v.ended)
}

// Lasts is until when leases of a number may be used that a process of that name has granted.
func (v *View) Lasts(lender string, incarnation, number uint64) weir.Instant {
	if i := v.find(lender); i >= 0 && v.members[i].prolongs == number && v.members[i].run[0] == incarnation {
		return v.members[i].lasts
	}
	return 0
}
