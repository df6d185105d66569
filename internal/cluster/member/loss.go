package member

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/record"
)

// MaxLosses is how many processes are remembered that went without a word, and took their
// ledgers along. The two that went first become one that may have owned every key.
const MaxLosses = 8

// toldWithin is how soon all members know of a loss, and its backups are with the next owners.
const toldWithin = 10 * time.Second

// loss is a process that is gone, and what it may have let pass that nobody knows of: all of
// the keys that it owned, and of others as much as its own vote is worth, where nobody but
// it was cut off before.
type loss struct {
	name        string // of its node; empty: one that may have owned every key
	incarnation uint64
	at          weir.Instant // what it let pass was before
	alone       bool         // nobody else was cut off
	saved       bool         // what it granted of slow keys is in backups at others
	of          int64        // how many votes there were
}

// Loss is a loss as heartbeats tell it.
type Loss struct {
	Member      string
	Incarnation uint64
	Ago         time.Duration
	Alone       bool
	Of          int64
	Saved       bool // what it granted of slow keys is in backups at others
}

// remember adds a loss. A loss that is known already stays as it was: its time would grow each time
// that it is told.
func (p *Peers) remember(l loss) {
	for i := range p.losses {
		if k := &p.losses[i]; k.name == l.name && k.incarnation == l.incarnation {
			k.saved = k.saved && l.saved // one that knows better
			return
		}
	}
	all := append(slices.Clone(p.losses), l)
	p.together(all)
	slices.SortFunc(all, func(a, b loss) int { return cmp.Compare(a.at, b.at) })
	if len(all) > MaxLosses {
		all[1].name, all[1].alone, all[1].saved = "", false, false
		all = all[1:]
	}
	p.losses = all
}

// together sees to it that of several processes that are gone since all was well last none is taken to have left all in backups: one
// may have kept those of another.
func (p *Peers) together(all []loss) {
	since := func(l loss) bool { return l.at > p.lastConverged.At }
	first := slices.IndexFunc(all, since)
	if !p.known || first < 0 || !slices.ContainsFunc(all[first+1:], since) {
		return
	}
	for i := range all {
		all[i].saved = all[i].saved && !since(all[i])
	}
}

// hear remembers what another has told.
func (p *Peers) hear(now weir.Instant, told []Loss) {
	for _, l := range told {
		if x := p.peer(l.Member); x != nil && x.incarnation == l.Incarnation && !x.saved {
			l.Saved = false // as this process knows
		}
		p.remember(loss{name: l.Member, incarnation: l.Incarnation, at: now - bounds.Micros(l.Ago), alone: l.Alone, saved: l.Saved, of: max(l.Of, 1)})
	}
}

// Digests tell losses from others: of the members lost, not of when. They are never 0.
type Digests struct {
	all     uint64
	unsaved uint64 // of those that count where backups are believed
}

func digestsOf(losses []loss) Digests {
	all, unsaved := uint64(1), uint64(1)
	for _, l := range losses {
		one := nameHash(l.name) ^ record.Mix(l.incarnation+1)
		if all += one; !l.alone || !l.saved {
			unsaved += one
		}
	}
	return Digests{max(all, 1), max(unsaved, 1)}
}

// Of is the digest of the losses that count; forgives leaves out those whose backups are believed.
func (d Digests) Of(forgives bool) uint64 {
	if forgives {
		return d.unsaved
	}
	return d.all
}

// tell is the losses as they go with heartbeats.
func (p *Peers) tell(now weir.Instant) (told []Loss) {
	told = slices.Grow(told, len(p.losses))
	for _, l := range p.losses {
		told = append(told, Loss{l.name, l.incarnation, max((now - l.at).Duration(), 0), l.alone, l.of, l.saved})
	}
	return told
}

// Lost is the processes that are known by name to have gone without a word, and to have taken
// their ledgers along.
func (p *Peers) Lost(now weir.Instant) []Loss {
	return slices.DeleteFunc(p.tell(now), func(l Loss) bool { return l.Member == "" })
}

// suspect narrows down who is cut off since all was well last: each pair of members that are
// not settled with each other has one of them. known tells whether it can be said.
func (p *Peers) suspect() {
	pair := func(a, b string) {
		if !p.trouble {
			p.trouble, p.suspects = true, []string{a, b}
			return
		}
		p.suspects = slices.DeleteFunc(p.suspects, func(s string) bool { return s != a && s != b })
	}
	for _, x := range p.list {
		if x == p.self {
			continue
		}
		if x.shown != Settled {
			pair(p.name, x.name)
		}
		for _, o := range x.last.Others {
			other := slices.IndexFunc(p.list, func(y *peer) bool { return y.id == o.Member })
			if other < 0 {
				continue // who has left
			}
			if p.list[other] != x {
				pair(x.name, p.list[other].name)
			}
		}
	}
}

// forget remembers what went with a member that is none any more, unless it left in order. If it
// was cut off and lives, it may have let pass until now.
func (p *Peers) forget(now weir.Instant, x *peer) {
	if !x.gone && x.counts && x.stamp > 0 { // others may have had its votes
		x.gone, x.of = true, p.count
	}
	starts := x.stamp > 0 && !x.last.Active // it has had no vote yet
	if x.gone && !starts && !x.handed() {
		p.lose(loss{name: x.name, incarnation: x.incarnation, at: now, alone: p.suspected(x.name), saved: x.saved, of: max(x.of, 1)})
	}
}

// lose remembers an unclean departure that this process has noticed itself, and counts it.
func (p *Peers) lose(l loss) {
	p.unclean++
	for i := range p.losses {
		if k := &p.losses[i]; k.name == l.name && k.incarnation == l.incarnation { // it was back, and is gone again
			k.at = max(k.at, l.at)
		}
	}
	p.remember(l)
}

// Unclean is how many unclean departures this process has noticed itself. It only grows: those that
// others have told of are not in it, and those that are remembered no more still are.
func (p *Peers) Unclean() int64 { return p.unclean }

// settled forgets who was suspected, and who was given up and is back with its ledgers: all is
// well.
func (p *Peers) settled() {
	p.known, p.lapsed, p.trouble, p.suspects = true, p.minority, false, nil
	p.losses = slices.DeleteFunc(p.losses, func(l loss) bool {
		x := p.peer(l.name)
		return x != nil && x.incarnation == l.incarnation
	})
	for _, x := range p.list {
		x.converged = [2]uint64{x.incarnation, x.last.Run}
	}
}

// suspected is whether nobody but a member can have been cut off.
func (p *Peers) suspected(name string) bool {
	return !p.trouble || slices.Contains(p.suspects, name)
}

// Unknown is votes of which nobody knows what was let pass by them until a time.
type Unknown struct {
	At        weir.Instant
	Votes, Of int64 // 0 of 0: all of the key, by whoever owned it
}

// Unknown is what may have been let pass of a key that nothing is known of, the earliest first. guess is whether more
// will be known soon. forgives tells that what is in no backup counts for nothing, but for the vote of one that is gone.
//
// The node that is the first of all members, and has been since all was well last, knows of all that was
// let pass until then. Since then others had only votes that are not this node's, or that have
// moved.
func (v *View) Unknown(now weir.Instant, key weir.StateKey, forgives bool) (all []Unknown, guess bool) {
	for _, l := range v.losses {
		u, owned := Unknown{At: l.at}, !l.alone || v.owned(key, &l)
		switch {
		case forgives && l.alone && (l.saved && (v.converged || l.at < v.LastConverged.At) || !owned): // I20
			continue
		case l.alone && !owned:
			u.Votes, u.Of = 1, l.of
		}
		all, guess = append(all, u), guess || forgives && l.alone && l.saved && now < l.at+bounds.Micros(toldWithin)
	}
	u := Unknown{At: v.changed}
	switch {
	case v.converged, v.allClear && v.Place(now, key, nil).Owns, forgives && v.Delivered: // I20, I21
	case forgives && v.quiet != "" && !v.leads(key):
		all, guess = append(all, u), true
	case !v.known || v.lapsed || !v.leads(key):
		all, guess = append(all, u), v.passing
	default:
		at := v.Place(now, key, nil)
		for _, by := range at.Voters {
			u.Votes += int64(frame.Flag(v.members[by.member].moved))
		}
		if u.Of = max(at.Count, u.Votes); u.Votes > 0 {
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(a, b Unknown) int { return cmp.Compare(a.At, b.At) })
	return all, guess
}

// leads is whether this node comes first in the rank of the key, whichever nodes are heard, but for those that have left in
// order and are clear, where no other may have got something of them.
func (v *View) leads(key weir.StateKey) bool {
	if v.self < 0 {
		return false
	}
	own, name := rank.Score(v.members[v.self].name, key), v.members[v.self].name
	return !slices.ContainsFunc(v.members, func(m seen) bool {
		s := rank.Score(m.name, key)
		return (s > own || s == own && m.name < name) && !(m.leaves && m.clear && v.tidy) // I21
	})
}

// owned is whether the lost process may have owned the key: no member that was one then comes
// before it in the rank of the key.
func (v *View) owned(key weir.StateKey, l *loss) bool {
	if l.name == "" {
		return true
	}
	lost, since := rank.Score(l.name, key), l.at
	if l.at > v.LastConverged.At { // one that came later may never have got its keys
		since = v.LastConverged.At
	}
	return !slices.ContainsFunc(v.members, func(m seen) bool {
		s := rank.Score(m.name, key)
		return m.name != l.name && m.since > 0 && m.since < since && (s > lost || s == lost && m.name < l.name)
	})
}
