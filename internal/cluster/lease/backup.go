package lease

import (
	"errors"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/record"
)

// An owner grants events of a slow key only when another member, which lends it its vote, keeps a backup that has
// them. When the owner is gone, that member hands the backup over to the next owner. Nobody has granted a key
// then that is in no backup, but for the vote of the one that is gone: docs/decisions/0078.

// The bounds of backups.
const (
	// MaxSaving is how many ledgers of a node are on their way to backups, beside those that requests wait for.
	MaxSaving = 64
	// fresh is how long events are granted by a backup. It has them charged as if they were used at the end of that and of a lease's
	// life: that is before the next owner has the votes of one that is gone.
	fresh = member.Silence
	// maxCopies is how many owners a key may have had of which a member keeps backups.
	maxCopies = 4
)

// ErrUnsaved is returned by an owner that can't decide yet: it has asked a member to keep a backup, and has no answer.
var ErrUnsaved = errors.New("the backup of the key is on its way")

// forgives is whether a key that is in no backup is new. By other policies more than its vote may belong to the first of the
// members, which may pass all of that while it hears nobody who could keep a backup.
func forgives(l *weir.Limit, p Policy) bool { return p == Proportional && bounds.BackedUp(l) }

// saves is whether a ledger has a backup: by any policy, for the rule may have another one soon.
func (g *ledger) saves() bool {
	if g.judged != g.kept.Limit {
		g.judged, g.slow = g.kept.Limit, bounds.BackedUp(g.kept.Limit)
	}
	return g.slow
}

// forgives is whether what a member that is gone may have let pass by its own share counts for nothing.
func (g *ledger) forgives() bool { return g.policy == Proportional && g.saves() }

// backedUp is whether what it grants has to be in a backup.
func (g *ledger) backedUp() bool { return g.place.Backup != "" && g.saves() }

// saved is what an owner knows of the backup of a ledger.
type saved struct {
	at     string       // the member that keeps it
	run    [2]uint64    // of its process, and of the votes that it lends
	first  sending      // that has had no answer
	last   sending      // the same; zero: all have
	covers int64        // of ledger.set, what has arrived
	until  weir.Instant // more is granted by that until then
	again  weir.Instant // when it is to be sent again
	tries  int          // how often it was sent since there was an answer
	before string       // who kept it before, until it has arrived
	thanks []Envelope   // to be sent when it has arrived
}

// sending is what a message to the backup has: as much of ledger.set, which is granted until then.
type sending struct {
	id    uint64
	has   int64
	until weir.Instant
}

// isOf is whether the member keeps it that is to, by that place, and has kept it since it was sent.
func (s *saved) isOf(p *member.Place) bool { return s != nil && s.at == p.Backup && s.run == p.Keeper }

// lose forgets what the backup had.
func (s *saved) lose() { s.first, s.last, s.covers, s.until = sending{}, sending{}, 0, 0 }

// covered is how many more events may be granted by what the backup has.
func (g *ledger) covered(now weir.Instant) int64 {
	s := g.saved
	switch {
	case !g.backedUp():
		return weir.MaxCount
	case !s.isOf(&g.place) || now >= s.until:
		return 0
	}
	return max(s.covers-g.set, 0)
}

// save is whether the backup has so many more events, and what was granted before. Else it is sent.
func (n *Node) save(now weir.Instant, key weir.StateKey, g *ledger, events int64, fx *Effects) bool {
	if !g.backedUp() {
		return true
	}
	s := g.saved
	if !s.isOf(&g.place) {
		s = &saved{at: g.place.Backup, run: g.place.Keeper}
		if g.saved != nil {
			if s.thanks = g.saved.thanks; g.saved.at != s.at {
				s.before = g.saved.at
			}
		}
		g.saved = s
	}
	need := g.set + events
	if need <= s.covers && (events == 0 || now < s.until) {
		return true
	}
	if under := s.last; need > under.has || now >= under.until && events > 0 || now >= s.again {
		n.backUp(now, key, g, events, fx)
	}
	return false
}

// backUp sends what is charged, with all that is outstanding, so many events more, and some ahead: as if all was used when
// the last lease of it may be used.
func (n *Node) backUp(now weir.Instant, key weir.StateKey, g *ledger, events int64, fx *Effects) {
	if events > 0 {
		all, _ := g.kept.Limit.Standing(nil, now)
		events = max(min(events+all/32, g.room(g.free(now))), events)
	}
	s := g.saved
	if s.first.id == 0 && now >= s.until { // nothing more is granted by the one before
		s.covers = min(s.covers, g.set)
		s.last.has = s.covers
	}
	events = max(events, s.covers-g.set, s.last.has-g.set) // this one takes the place of those
	copied := ledger{kept: g.kept.Clone(), ahead: g.ahead}
	until := copied.cover(now, g.takes(events))
	n.saves++
	s.last, s.until = sending{n.saves, g.set + events, until}, min(s.until, until)
	if s.first.id == 0 {
		s.first = s.last
	}
	wait := n.far[s.at].Retry()
	if events == 0 {
		wait <<= min(s.tries, 6) // nobody waits
	}
	s.tries++
	s.again = now + bounds.Micros(wait)
	m := Message{
		Kind: Backup, State: key, Incarnation: n.settings.Incarnation, Epoch: s.run[0], ID: s.last.id, Shard: n.settings.Shard, Limit: g.kept.Limit.String(),
		Policy: g.policy, At: copied.at(now), Part: g.may.part, Of: max(g.may.of, 1), Known: g.known,
	}
	m.carry(&copied.kept)
	fx.send(s.at, m)
}

// cover charges events that will be granted, as if they were used when the last lease of them may be, and is until when they may be
// granted. A bucket can be charged late: that costs no more than it fills in that time. A window counts its events until its end.
func (g *ledger) cover(now weir.Instant, events int64) (until weir.Instant) {
	const life = member.Life + member.Margin
	until = now + bounds.Micros(fresh)
	switch {
	case g.large():
		until = now + bounds.Micros(Lasting/2)
		g.charge(until+bounds.Micros(Lasting+Lasting/100+life), events)
		return until
	case g.kept.Limit.Algorithm() == weir.FixedWindow:
		used := ledger{kept: g.kept.Clone(), ahead: g.ahead}
		used.charge(now, max(events, 1))
		if _, ends := used.kept.Limit.Standing(used.kept.State, used.at(now)); ends > fresh+2*life && len(g.kept.Earlier) == 0 {
			g.charge(now, events)
			return now + bounds.Micros(ends-2*life)
		}
	}
	g.charge(until+bounds.Micros(life), events)
	return until
}

// large is whether a limit is a bucket of which a minute's pace is little: leases of it may last, though it has backups.
func (g *ledger) large() bool {
	all, _ := g.kept.Limit.Standing(nil, 0)
	return g.kept.Limit.Algorithm() == weir.GCRA && all >= 64
}

// drop tells a member that it need not keep a backup any more. It may not hear: then it keeps one that is out of date, and the
// one by which less is left counts.
func (n *Node) drop(key weir.StateKey, keeper string, fx *Effects) {
	if keeper != "" && n.view.Has(keeper) {
		n.saves++
		fx.send(keeper, Message{Kind: Backup, State: key, Incarnation: n.settings.Incarnation, ID: n.saves, Of: 1, Closed: true})
	}
}

// holds is whether an ask waits until the backup has what it wants.
func (n *Node) holds(now weir.Instant, from string, m *Message, g *ledger, fx *Effects) bool {
	if !g.backedUp() {
		return false
	}
	g.report(now, from, m)
	a := g.open(now, from)
	if a.held = nil; m.Incarnation < a.incarnation || m.Incarnation == a.incarnation && m.ID <= a.answered.id {
		return false // nobody waits for it, or it is answered as before
	}
	room := g.room(g.free(now))
	if room < m.Least || g.resets {
		return false
	}
	held := *m
	if a.held = &held; n.save(now, m.State, g, min(m.Want+m.Ahead, room), fx) {
		a.held = nil
	}
	return a.held != nil
}

// saveAll is save for all that asks will charge.
func (n *Node) saveAll(now, at weir.Instant, asks []weir.Ask, ledgers []*ledger, records []record.Record, fx *Effects) bool {
	if !slices.ContainsFunc(ledgers, (*ledger).backedUp) {
		return true
	}
	tries, would, all := slices.Clone(asks), make([]weir.Decision, len(asks)), true
	for i := range tries {
		tries[i].Peek, tries[i].Evidence = true, nil
	}
	record.Take(at, tries, records, would)
	for i, g := range ledgers {
		events := int64(0)
		switch a := &asks[i]; {
		case !a.Charges():
		case a.After:
			events = a.Cost
		case would[i].Outcome == weir.Allowed:
			events = would[i].Cost
		}
		all = n.save(now, asks[i].State, g, events, fx) && all
	}
	return all
}

// stored hears that a backup has arrived, and answers the asks that have waited for it.
func (n *Node) stored(now weir.Instant, from string, m *Message, fx *Effects) {
	g, ok := n.ledgers.Get(m.State)
	if !ok || g.saved == nil || m.Incarnation != n.settings.Incarnation {
		return
	}
	s := g.saved
	if s.at != from || s.run[0] != m.Epoch || m.ID < s.first.id || m.ID > s.last.id || s.first.id == 0 {
		return
	}
	has := s.first // or more: an answer that is late
	if m.ID == s.last.id {
		has = s.last
	}
	s.covers, s.until, s.tries = max(s.covers, has.has), min(has.until, s.last.until), 0
	if m.ID == s.last.id {
		s.first = sending{}
		n.drop(m.State, s.before, fx)
		s.before = ""
	}
	fx.Messages = append(fx.Messages, s.thanks...)
	s.thanks = nil
	if g.owed && n.handing > 0 {
		n.handing = min(n.handing, now) // there is room for more
	}
	var held []Envelope
	for i := range g.accounts {
		if a := &g.accounts[i]; a.held != nil {
			held = append(held, Envelope{a.name, *a.held})
			a.held = nil
		}
	}
	for i := range held {
		e := &held[i]
		if answer, ok := n.serve(now, e.Peer, &e.Message, fx); ok {
			n.answer(now, e.Peer, &answer, fx)
		}
	}
}

// owes notes a ledger whose backup lacks something, though no request waits for it.
func (n *Node) owes(now weir.Instant, key weir.StateKey, g *ledger) {
	if g.owed || g.set == 0 || !g.backedUp() || g.saved.isOf(&g.place) && g.set <= g.saved.covers {
		return
	}
	g.owed = true
	n.owing = append(n.owing, key)
	if n.handing == 0 {
		n.handing = now
	}
}

// owe sends backups that lack something, some at a time, and is whether there are any.
func (n *Node) owe(now weir.Instant, fx *Effects) bool {
	var left, late []weir.StateKey
	for i, key := range n.owing {
		g, ok := n.ledgers.Get(key)
		switch {
		case !ok:
		case len(left) >= MaxSaving:
			n.owing = append(append(n.owing[i:], left...), late...) // these come first the next time
			return true
		default:
			n.see(now, key, g, g.policy)
			if g.owed = !g.Idle(now) && (g.resets || !n.save(now, key, g, 0, fx)); !g.owed {
				continue
			}
			if g.saved != nil && g.saved.tries > 3 {
				late = append(late, key)
			} else {
				left = append(left, key)
			}
		}
	}
	n.owing = append(left, late...)
	return len(n.owing) > 0
}

// thank tells the owner before that a ledger has arrived: once its backup has, so that it is not lost.
func (n *Node) thank(now weir.Instant, key weir.StateKey, to string, m *Message, fx *Effects) {
	e := Envelope{to, Message{Kind: Taken, State: key, Incarnation: m.Incarnation, ID: m.ID}}
	g, ok := n.ledgers.Get(key)
	if ok {
		n.owes(now, key, g)
	}
	if !ok || !g.owed || n.save(now, key, g, 0, fx) {
		fx.Messages = append(fx.Messages, e)
	} else if s := g.saved; !slices.ContainsFunc(s.thanks, func(o Envelope) bool { return o.Peer == to && o.Message.ID == m.ID }) {
		s.thanks = append(s.thanks, e)
	}
}

// Saved is whether backups have all that the node has granted of slow keys.
func (n *Node) Saved() bool {
	return len(n.owing) == 0 && !n.moving()
}

// backup is what a member keeps of a key that others own, or have owned.
type backup struct{ copies []replica }

// replica is the last that one owner has told.
type replica struct {
	from string
	run  uint64 // its process
	id   uint64
	of   ledger // as it would be
}

// Idle is whether it may be forgotten: all of it has recovered.
func (b *backup) Idle(now weir.Instant) bool {
	return !slices.ContainsFunc(b.copies, func(r replica) bool { return !r.of.Idle(now) })
}

// keep keeps a backup for an owner. Where there is no room it gives no answer, and the owner denies the key.
func (n *Node) keep(now weir.Instant, from string, m *Message, fx *Effects) {
	if m.Closed {
		n.dropped(from, m)
		return
	}
	theirs, ok := n.theirs(now, m)
	if !ok || !n.view.Has(from) || n.view.Incarnation(from) != m.Incarnation || m.Epoch != n.settings.Incarnation {
		return
	}
	b, ok := n.backups.Get(m.State)
	if !ok {
		if !n.backups.Room(now) {
			return
		}
		b = &backup{}
		n.backups.Add(weir.StateKey{Rule: n.rules.Clone(m.State.Rule), Key: m.State.Key}, b)
	}
	b.copies = slices.DeleteFunc(b.copies, func(r replica) bool {
		return n.view.Fate(r.from, r.run) == member.Useless || r.of.Idle(now) && r.from != from
	})
	at := slices.IndexFunc(b.copies, func(r replica) bool { return r.from == from && r.run == m.Incarnation })
	switch {
	case at < 0 && len(b.copies) >= maxCopies:
		return
	case at < 0:
		b.copies = append(b.copies, replica{from: from, run: m.Incarnation})
		at = len(b.copies) - 1
	}
	if r := &b.copies[at]; m.ID > r.id {
		r.id, r.of = m.ID, theirs
	}
	fx.send(from, Message{Kind: Stored, State: m.State, Incarnation: m.Incarnation, Epoch: m.Epoch, ID: m.ID})
}

// dropped forgets a backup that its owner needs no more.
func (n *Node) dropped(from string, m *Message) {
	if b, ok := n.backups.Get(m.State); ok {
		b.copies = slices.DeleteFunc(b.copies, func(r replica) bool { return r.from == from && r.run == m.Incarnation && r.id < m.ID })
	}
}

// deliver hands over backups of members that are gone, and is whether too many are on their way.
func (n *Node) deliver(now weir.Instant, fx *Effects) (full bool) {
	for range scanned {
		if n.backups.Looked >= len(n.backups.Rows) {
			return false
		}
		row := n.backups.Rows[n.backups.Looked]
		row.Of.copies = slices.DeleteFunc(row.Of.copies, func(r replica) bool {
			switch n.view.Fate(r.from, r.run) {
			case member.Useless:
				return true
			case member.Waits:
				n.waits = true
			case member.Due:
				done := n.forward(now, row.Key, &r, fx)
				full = full || !done
				return done
			case member.Kept:
			}
			return false
		})
		switch {
		case len(row.Of.copies) == 0:
			n.backups.Remove(n.backups.Looked)
		case full:
			return true
		default:
			n.backups.Looked++
		}
	}
	return false
}

// forward gives a backup to the owner of its key, and is whether that is on its way.
func (n *Node) forward(now weir.Instant, key weir.StateKey, r *replica, fx *Effects) bool {
	if r.of.Idle(now) {
		return true
	}
	m := Message{
		Kind: Handoff, State: key, Limit: r.of.kept.Limit.String(), Policy: r.of.policy, Part: r.of.has.part, Of: r.of.has.of, Known: r.of.known, At: r.of.at(now),
		Lost: r.from, LostRun: r.run,
	}
	m.carry(&r.of.kept)
	switch to := n.view.Place(now, key, nil).Owner; to {
	case "":
		return false
	case n.settings.Name:
		return n.adopt(now, &m, &r.of)
	default:
		by := n.mover(to)
		if len(by.pending) > 0 && by.last-by.pending[0].message.ID >= MaxMoves-1 {
			return false
		}
		by.last++
		n.handed = max(n.handed, by.last)
		m.Incarnation, m.Shard, m.Epoch, m.ID = n.settings.Incarnation, n.settings.Shard, by.incarnation, by.last
		moved := *r
		mv := move{copied: &moved, message: m, began: now}
		mv.send(now, to, fx)
		by.pending = append(by.pending, mv)
		return true
	}
}

// putBack keeps a backup that no node has said to have taken.
func (n *Node) putBack(m *move) {
	b, ok := n.backups.Get(m.message.State)
	if !ok {
		b = &backup{}
		n.backups.Add(m.message.State, b)
	}
	b.copies = append(b.copies, *m.copied)
	n.backups.Looked = 0
}

// inherit takes over the backup of a member that is gone.
func (n *Node) inherit(now weir.Instant, from string, m *Message, theirs *ledger, fx *Effects) {
	if n.adopt(now, m, theirs) {
		n.thank(now, m.State, from, m, fx)
	}
}

// origin is the process whose backup a ledger began with; empty: none.
type origin struct {
	from string
	run  uint64
	all  bool // all backups of it have been delivered since: this is the newest
}

// unused is whether a ledger is the backup of a process that is heard again, and has not been needed: that one
// has its own.
func (g *ledger) unused(v *member.View, to string) bool {
	return g.adopted.from == to && g.adopted.run == v.Incarnation(to) && g.set == 1 && g.passed == 0
}

// adopt goes on with the backup of a member that is gone, and is whether nothing of it is needed any more. If others have kept older ones of the
// key, the one by which least is left counts: of what was charged, none has forgotten more.
func (n *Node) adopt(now weir.Instant, m *Message, theirs *ledger) bool {
	switch n.view.Fate(m.Lost, m.LostRun) {
	case member.Kept, member.Waits:
		return false
	case member.Useless:
		return true
	case member.Due:
	}
	p := n.view.Place(now, m.State, nil)
	if p.Owner != n.settings.Name {
		return false
	}
	gave := entitlement{m.Part, m.Of}
	g, ok := n.ledgers.Get(m.State)
	switch {
	case ok && g.adopted.from != "":
		g.expire(now, n.view)
		left := bounds.Part(theirs.free(now), gave.part, gave.of) - g.passed - g.outstanding()
		g.charge(now, g.free(now)-max(left, 0))
		g.bare = nil
		return true
	case ok:
		return true // the key was this node's before
	case !n.ledgers.Room(now):
		return false
	}
	g = &ledger{kept: theirs.kept, ahead: theirs.ahead, policy: m.Policy, adopted: origin{from: m.Lost, run: m.LostRun}, born: now + theirs.ahead, known: m.Known, set: 1, has: gave}
	g.stand(now, n.view, p, gave)
	n.ledgers.Add(m.State, g)
	n.owes(now, m.State, g)
	return true
}
