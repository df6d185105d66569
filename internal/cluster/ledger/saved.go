package ledger

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// fresh is how long events are granted by a backup. It has them charged as if they were used at the end of that and of a lease's
// life: that is before the next owner has the votes of one that is gone.
const fresh = member.Silence

// forgives is whether a key that is in no backup is new. By other policies more than its vote may belong to the first of the
// members, which may pass all of that while it hears nobody who could keep a backup.
func forgives(l *weir.Limit, p protocol.Policy) bool {
	return p == protocol.Proportional && bounds.BackedUp(l)
}

// saves is whether a ledger has a backup: by any policy, for the rule may have another one soon.
func (g *Ledger) saves() bool {
	if g.judged != g.kept.Limit {
		g.judged, g.slow = g.kept.Limit, bounds.BackedUp(g.kept.Limit)
	}
	return g.slow
}

// forgives is whether what a member that is gone may have let pass by its own share counts for nothing.
func (g *Ledger) forgives() bool { return g.policy == protocol.Proportional && g.saves() }

// BackedUp is whether what it grants has to be in a backup.
func (g *Ledger) BackedUp() bool { return g.place.Backup != "" && g.saves() }

// saved is what an owner knows of the backup of a ledger.
type saved struct {
	at     string              // the member that keeps it
	run    [2]uint64           // of its process, and of the votes that it lends
	first  sending             // that has had no answer
	last   sending             // the same; zero: all have
	covers int64               // of ledger.set, what has arrived
	until  weir.Instant        // more is granted by that until then
	again  weir.Instant        // when it is to be sent again
	tries  int                 // how often it was sent since there was an answer
	before string              // who kept it before, until it has arrived
	thanks []protocol.Envelope // to be sent when it has arrived
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
func (g *Ledger) covered(now weir.Instant) int64 {
	s := g.saved
	switch {
	case !g.BackedUp():
		return weir.MaxCount
	case !s.isOf(g.place) || now >= s.until:
		return 0
	}
	return max(s.covers-g.set, 0)
}

// Saves is whether the backup has so many more events, and what was granted before. Else late tells whether it is to be
// sent: by Backup, to the Keeper.
func (g *Ledger) Saves(now weir.Instant, events int64) (has, late bool) {
	if !g.BackedUp() {
		return true, false
	}
	s := g.saved
	if !s.isOf(g.place) {
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
		return true, false
	}
	under := s.last
	return false, need > under.has || now >= under.until && events > 0 || now >= s.again
}

// Keeper is the member that keeps the backup, as far as it was sent; empty: none.
func (g *Ledger) Keeper() string {
	if g.saved == nil {
		return ""
	}
	return g.saved.at
}

// Backup is what the backup is to have: what is charged, with all that is outstanding, so many events more, and some ahead: as if
// all was used when the last lease of it may be used. Without an answer it is sent again after a while.
func (g *Ledger) Backup(now weir.Instant, key weir.StateKey, events int64, id uint64, far protocol.Distance) protocol.Message {
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
	copied := Copy{kept: g.kept.Clone(), ahead: g.ahead}
	until := copied.cover(now, g.takes(events))
	s.last, s.until = sending{id, g.set + events, until}, min(s.until, until)
	if s.first.id == 0 {
		s.first = s.last
	}
	wait := far.Retry()
	if events == 0 {
		wait <<= min(s.tries, 6) // nobody waits
	}
	s.tries++
	s.again = now + bounds.Micros(wait)
	m := protocol.Message{
		Kind: protocol.Backup, State: key, Epoch: s.run[0], ID: id, Limit: g.kept.Limit.String(),
		Policy: g.policy, At: copied.At(now), Part: g.may.Part, Of: max(g.may.Of, 1), Known: g.known,
	}
	m.Carry(&copied.kept)
	return m
}

// Hold keeps an ask that has to wait until the backup has what it wants, and is how many events that is; 0: it need not.
func (g *Ledger) Hold(now weir.Instant, from string, m *protocol.Message) (events int64) {
	if !g.BackedUp() {
		return 0
	}
	g.report(now, from, m)
	a := g.open(now, from)
	if a.held = nil; m.Incarnation < a.incarnation || m.Incarnation == a.incarnation && m.ID <= a.answered.id {
		return 0 // nobody waits for it, or it is answered as before
	}
	room := g.room(g.free(now))
	if room < m.Least || g.resets {
		return 0
	}
	held := *m
	a.held = &held
	return min(m.Want+m.Ahead, room)
}

// Unhold lets an ask go on that was held.
func (g *Ledger) Unhold(from string) {
	if a := g.account(from); a != nil {
		a.held = nil
	}
}

// News is what a ledger has to send when a backup of it has arrived.
type News struct {
	Before string              // who kept the one before, and need not any more; empty: nobody
	Thanks []protocol.Envelope // that waited for it
	Held   []protocol.Envelope // asks that waited for it
}

// Stored hears that a backup has arrived. ok is false if that is no news.
func (g *Ledger) Stored(from string, m *protocol.Message) (news News, ok bool) {
	s := g.saved
	if s == nil || s.at != from || s.run[0] != m.Epoch || m.ID < s.first.id || m.ID > s.last.id || s.first.id == 0 {
		return News{}, false
	}
	has := s.first // or more: an answer that is late
	if m.ID == s.last.id {
		has = s.last
	}
	s.covers, s.until, s.tries = max(s.covers, has.has), min(has.until, s.last.until), 0
	if m.ID == s.last.id {
		s.first = sending{}
		news.Before, s.before = s.before, ""
	}
	news.Thanks, s.thanks = s.thanks, nil
	for i := range g.accounts {
		if a := &g.accounts[i]; a.held != nil {
			news.Held = append(news.Held, protocol.Envelope{Peer: a.name, Message: *a.held})
			a.held = nil
		}
	}
	return news, true
}

// Owes is whether the backup lacks something, as far as it has to have it.
func (g *Ledger) Owes() bool {
	return g.set > 0 && g.BackedUp() && !(g.saved.isOf(g.place) && g.set <= g.saved.covers)
}

// Late is whether the member that keeps the backup has not answered for some time.
func (g *Ledger) Late() bool { return g.saved != nil && g.saved.tries > 3 }

// Thank has a message wait until the backup has arrived.
func (g *Ledger) Thank(e *protocol.Envelope) {
	s := g.saved
	if !slices.ContainsFunc(s.thanks, func(o protocol.Envelope) bool { return o.Peer == e.Peer && o.Message.ID == e.Message.ID }) {
		s.thanks = append(s.thanks, *e)
	}
}
