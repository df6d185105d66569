package member

import "slices"

// A member that says that all it has granted of slow keys is in backups is believed when it is gone, where nobody
// else is cut off: docs/decisions/0078.

// Fate is what becomes of a backup.
type Fate int

// The fates.
const (
	Kept    Fate = iota // its owner has not lost the key
	Waits               // its owner may be gone
	Due                 // it is for the next owner
	Useless             // its owner left in order, or others don't believe that it is the last
)

// Fate is that of what a process has told.
func (v *View) Fate(name string, run uint64) Fate {
	if i := v.find(name); i >= 0 && v.members[i].run[0] <= run {
		switch {
		case v.Leaving || name != v.quiet || v.members[i].run[0] < run:
			return Kept
		case name == v.gone:
			return Due
		}
		return Waits
	}
	for _, l := range v.losses {
		if l.name == name && l.incarnation == run && l.alone && l.saved {
			return Due
		}
	}
	return Useless
}

// trust sees which members are believed to have all in backups, and is whether that has changed.
func (p *Peers) trust() (changed bool) {
	leaving := p.leaving || slices.ContainsFunc(p.list, func(x *peer) bool { return x.leaves > 0 })
	for _, x := range p.list {
		if x == p.self || !x.member {
			continue
		}
		before := x.saved
		x.saved = x.last.Saved && !leaving && x.last.Voters == p.voters && p.suspected(x.name)
		changed = changed || x.saved != before && x.shown != Settled
	}
	return changed
}

// BackedUp is whether heartbeats say that other members have all in backups that this process has granted of slow keys.
func (p *Peers) BackedUp() bool { return p.saves }

// allBack is whether all members keep backups, hear each other, and stay.
func (p *Peers) allBack() bool {
	return p.view.Sure > 0 && !slices.ContainsFunc(p.list, func(x *peer) bool { return x != p.self && (!x.last.Backs || x.leaves > 0) })
}

// releases is whether x says that it lends of nothing, and that all of it is in backups; of no other member it says anything. It may
// have given of up already.
func (x *peer) releases(of *peer) bool {
	if o := x.last.Others; len(o) > 0 {
		return len(o) == 1 && o[0].Member == of.id && o[0].Stand == Out && o[0].Saved
	}
	return tells(&x.last, of.name, of.incarnation)
}

// alone is the only member that is not settled, if it had all in backups: quiet. gone is the same, where it has no
// votes any more, and all others say so. delivered is whether these have handed over their backups.
func (p *Peers) alone() (quiet, gone string, delivered bool) {
	var of *peer
	for _, x := range p.list {
		switch {
		case x == p.self || x.shown == Settled:
		case of != nil || !x.saved:
			return "", "", false
		default:
			of = x
		}
	}
	if of == nil || p.leaving || p.self == nil {
		return "", "", false
	}
	if of.shown != Out {
		return of.name, "", false
	}
	delivered = p.clean && p.last == p.versions && p.known
	for _, x := range p.list {
		if x == p.self || x == of {
			continue
		}
		if !x.releases(of) {
			return of.name, "", false
		}
		delivered = delivered && x.last.Clean
	}
	return of.name, of.name, delivered
}
