package counter

import (
	"encoding/binary"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/packing"
)

// MaxPosts is how many messages a replica makes in a Sync of what has changed; what
// is left waits for the next.
const MaxPosts = 64

// pull is how far this node has come in asking another for all that it knows. Each
// answer is one message, and says where the next begins.
type pull struct {
	from uint64 // tallies before are still to come
	due  weir.Instant
	done bool
}

const (
	pullStart = 1 << 32
	pullAgain = 2 * Sync // when an ask without an answer is sent again
)

// Next is when Tick is to be called; ok is false if never, as long as nothing else
// happens.
func (p *Replica) Next() (at weir.Instant, ok bool) {
	if p.settings.Sharing == weir.SharingDivided || len(p.others) == 0 {
		return 0, false
	}
	at = p.swept + bounds.Micros(Sweep)
	ok = len(p.tallies.Rows) > 0
	if due, some := p.due(); some && (!ok || due < at) {
		at, ok = due, true
	}
	for _, id := range p.others {
		if q := &p.peers[id]; !q.silent && !q.pull.done && (!ok || q.pull.due < at) {
			at, ok = q.pull.due, true
		}
	}
	return at, ok
}

// due is when other nodes are to be told of what has changed.
func (p *Replica) due() (at weir.Instant, ok bool) {
	return max(p.synced+bounds.Micros(Sync), p.since+bounds.Micros(Gather)), len(p.changed) > 0
}

// Tick does what is due, and adds to posts what is to be sent.
func (p *Replica) Tick(now weir.Instant, posts *[]Post) {
	if p.settings.Sharing == weir.SharingDivided {
		return
	}
	p.view.to(now)
	for _, id := range p.others {
		if q := &p.peers[id]; !q.silent && !q.pull.done && q.pull.due <= now {
			p.ask(now, q, posts)
		}
	}
	if at, ok := p.due(); ok && at <= now {
		p.tellAll(now, posts)
	}
	if now >= p.swept+bounds.Micros(Sweep) && len(p.others) > 0 {
		p.swept = now
		to := p.others[p.random.IntN(len(p.others))]
		var pack *packer
		if pack, p.sweep = p.some(now, to, p.sweep); len(pack.b) > 0 {
			p.post(posts, []string{p.peers[to].name}, pack.message(p.settings.Sharing, 0, 0))
		}
	}
}

// ask asks another for all that it knows.
func (p *Replica) ask(now weir.Instant, q *neighbor, posts *[]Post) {
	q.pull.due = now + bounds.Micros(pullAgain)
	p.post(posts, []string{q.name}, binary.AppendUvarint(head(ask, p.settings.Sharing), q.pull.from))
}

func (p *Replica) post(posts *[]Post, to []string, message []byte) {
	if len(message) == 0 || len(to) == 0 {
		return
	}
	*posts = append(*posts, Post{to, message})
	p.stats.Sent += int64(len(to))
	p.stats.Bytes += int64(len(to)) * int64(len(message))
}

// tellAll tells those whose turn it is of what has changed.
func (p *Replica) tellAll(now weir.Instant, posts *[]Post) {
	p.synced = now
	turn, made, done := rounds{of: map[int32]*round{}}, 0, 0
	flush := func(to *round) {
		if len(to.pack.b) == 0 {
			return
		}
		message := to.pack.message(p.settings.Sharing, 0, 0)
		if to.reported {
			message[2] = reports
		}
		p.post(posts, to.to, message)
		to.pack, made = newPacker(), made+1
	}
	for ; done < len(p.changed) && made < MaxPosts; done++ {
		r := p.changed[done]
		to := turn.round(p, p.audience(r))
		if own, ok := r.find(itself, p.settings.Incarnation); ok && to.reported {
			r.echo.tells(now, &r.lines[own])
		}
		for i := 0; i < len(r.lines); {
			if i = to.pack.add(now, p.peers, r, i, func(l *line) bool { return l.left > 0 }); i < len(r.lines) {
				flush(to)
			}
		}
	}
	for _, to := range turn.all {
		flush(to)
	}
	told := p.changed[:done]
	rest := append([]*tally(nil), p.changed[done:]...)
	for _, r := range told {
		if r.queued = r.told(); r.queued {
			rest = append(rest, r)
		}
	}
	p.changed, p.since = rest, now
}

// told counts a turn, and is whether some line is to be told again.
func (r *tally) told() bool {
	again := false
	for i := range r.lines {
		if l := &r.lines[i]; l.left > 0 {
			l.left--
			again = again || l.left > 0
		}
	}
	return again
}

// next are those whose turn it is to be told: with gossip some, round and round, else
// all.
func (p *Replica) next() []string {
	n := len(p.others)
	if p.settings.Sharing == weir.SharingGossip {
		n = min(n, bounds.TellSome)
	}
	var names []string
	for range n {
		if p.turn >= len(p.others) {
			p.turn = 0
		}
		names = append(names, p.peers[p.others[p.turn]].name)
		p.turn++
	}
	return names
}

// sweeps is how many tallies are looked at for one message of them.
const sweeps = 1024

// some packs tallies before the end-th, the last first, as one who knows nothing of
// them wants to hear it: what this node has let pass, what that one did before it
// forgot, and what those did who can't tell it. next is where to go on; 0: these are
// all.
func (p *Replica) some(now weir.Instant, to int32, end int) (pack *packer, next int) {
	if end <= 0 || end > len(p.tallies.Rows) {
		end = len(p.tallies.Rows)
	}
	pack = newPacker()
	for next = end; next > 0 && end-next < sweeps; next-- {
		r := p.tallies.Rows[next-1].Of
		if !p.cold(now, r) && r.fresh(now) {
			continue
		}
		pick := func(l *line) bool {
			q := &p.peers[l.node]
			return l.count > 0 && (l.node == 0 || l.node == to || !q.member || q.silent) && now-l.changed < r.form.memory
		}
		before := pack.here()
		if i := pack.add(now, p.peers, r, 0, pick); i < len(r.lines) && before.b > 0 {
			pack.back(before)
			break
		}
	}
	return pack, next
}

// Receive hears a message of a peer, and adds to posts what is to be answered.
func (p *Replica) Receive(now weir.Instant, from string, message []byte, posts *[]Post) error {
	if way, ok := IsPost(message); !ok || way != p.settings.Sharing {
		return frame.ErrMessage
	}
	p.view.to(now)
	u := unpacker{Reader: packing.Reader{Rest: message[3:]}, now: now}
	switch message[1] {
	case charges:
		return p.hearAll(now, from, message[2] == reports, &u, posts)
	case ask:
		end := u.Below(pullStart + 1)
		to, known := p.ids[from]
		if u.Bad || len(u.Rest) > 0 || end == 0 {
			return frame.ErrMessage
		}
		if known {
			pack, next := p.some(now, to, int(end))
			p.post(posts, []string{from}, pack.message(p.settings.Sharing, end, uint64(next)))
		}
		return nil
	default:
		return frame.ErrMessage
	}
}

// hearAll hears of what nodes have let pass. The news before something bad is heard.
func (p *Replica) hearAll(now weir.Instant, from string, reported bool, u *unpacker, posts *[]Post) error {
	asked, next := u.Below(pullStart+1), u.Below(pullStart+1)
	var lines []told
	for {
		key, limit, some, ok := u.tally(lines[:0])
		if !ok {
			break
		}
		lines = some
		if r := p.tallyOf(now, key, limit); r != nil {
			for i := range lines {
				lines[i].reported = reported
				p.hear(now, r, &lines[i])
			}
		}
	}
	if u.Bad {
		return frame.ErrMessage
	}
	if id, known := p.ids[from]; known && asked > 0 {
		if q := &p.peers[id]; q.member && !q.pull.done && asked == q.pull.from {
			q.pull.from, q.pull.done = next, next == 0
			if !q.pull.done {
				p.ask(now, q, posts)
			}
		}
	}
	return nil
}

// tallyOf is the tally of a key that was heard of, or nil if it is not kept.
func (p *Replica) tallyOf(now weir.Instant, key weir.StateKey, limit string) *tally {
	if r, ok := p.tallies.Get(key); ok {
		return r
	}
	f := p.formOf(limit)
	if f == nil {
		return nil
	}
	r := p.keep(now, key, f.limit)
	if r == nil {
		p.stats.Dropped++
		p.lost = now
	}
	return r
}

// formOf is the form of a limit that was heard of, or nil if nodes can't share it.
func (p *Replica) formOf(limit string) *form {
	if f := p.forms[limit]; f != nil {
		return f
	}
	l, err := weir.ParseLimit(limit)
	if err != nil || bounds.Unfit(p.settings.Sharing, l, 0) != "" {
		p.stats.Dropped++
		return nil
	}
	return p.form(l)
}
