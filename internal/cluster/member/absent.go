package member

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// A member is absent when most members have said for long enough that they don't hear it: then it has not heard most of them for a Quorum,
// and is the first of all members for no key. So the next in the rank is, before anybody is given up: docs/decisions/0082.

// unheard is a member that another does not reach, and since when that is known. It is another one where it was reached in between.
type unheard struct {
	member, order uint64
	since         weir.Instant
}

// unreached goes on with what is known of whom a process does not reach, by what it tells now.
func unreached(before []unheard, now weir.Instant, told []Other) (all []unheard) {
	for _, o := range told {
		if reaches(o.Stand) {
			continue
		}
		u := unheard{o.Member, o.Order, now}
		if i := slices.IndexFunc(before, func(b unheard) bool { return b.member == u.member && b.order == u.order }); i >= 0 {
			u.since = before[i].since
		}
		all = append(all, u)
	}
	return all
}

// quorum is for how long a process among n goes on without most of the members.
func quorum(n int64) weir.Instant { return max(bounds.Micros(Quorum), 4*silence(n)) }

// seesAbsent sees which members are absent, and is whether that has changed. One that this process reaches is not.
func (p *Peers) seesAbsent(now weir.Instant) (changed bool) {
	p.unheard = unreached(p.unheard, now, p.others())
	long := (quorum(p.count) + silence(p.count)) * 101 / 100 // its clock may be slow
	for _, x := range p.list {
		misses := func(all []unheard) bool {
			return slices.ContainsFunc(all, func(u unheard) bool { return u.member == x.id && now >= u.since+long })
		}
		absent := misses(p.unheard) && p.most(now, func(by *peer) bool { // I18
			return by == p.self || p.hears(now, by) && by.last.Members == p.digest && misses(by.unheard)
		})
		changed = changed || absent != x.absent
		x.absent = absent
	}
	return changed
}
