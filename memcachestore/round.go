package memcachestore

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/sleep"
)

// round decides some of the waiting jobs, or has them wait for the next round.
//
// Where this process was the last to write the item, it knows what the item holds, and need not
// look: a round is then one trip. That is tried only while nobody else is known to write (alone),
// over the connection that the item was written by, and for as long as the server has to keep it.
// If it was wrong, the server refuses the swap, and the jobs wait for another round, which looks.
// So an old view costs a trip, and never a charge.
//
// A round is of one item at one moment: all of its jobs get the same now, and one write. It ends
// with each claimed job answered, or waiting again.
func (s *Store) round(l *lane) {
	noted := s.noted(l)
	if len(noted) == 0 && l.alone && l.known.conn != nil && l.known.conn.alive() && time.Now().Before(l.known.until) {
		if s.decide(l, l.known, nil, false) {
			return
		}
		// A denial is no write that would tell whether what we know still holds.
	}
	v, err := s.look(l, noted)
	if err != nil {
		s.finish(s.claim(l, noted), err)
		return
	}
	s.decide(l, v, noted, true)
}

// look reads the item, and after it notes that may have left it: one that leaves
// meanwhile is seen in the item, or in its own.
func (s *Store) look(l *lane, noted []*job) (view, error) {
	// Jobs are not claimed before the answer is there. While a server is slow, callers can take
	// them back, and know that nothing was charged.
	conn, err := l.line.open(s.ctx, &s.own)
	if err != nil {
		return view{}, l.line.server.explain(err)
	}
	k := newCall(command{verb: verbGet, key: l.name})
	for _, j := range noted {
		k.commands = append(k.commands, command{verb: verbGet, key: noteName(l.name, j.kind, j.id)})
	}
	k.answers = make([]answer, len(k.commands))
	if err := s.do(conn, k); err != nil {
		return view{}, l.line.server.explain(err)
	}
	for _, a := range k.answers {
		if a.outcome == outcomeFailed {
			return view{}, l.line.server.explain(said(a.text))
		}
		if a.outcome == outcomeDone && a.cas == 0 {
			return view{}, l.line.server.explain(errNoCAS)
		}
	}
	// A key may be another program's by chance: only a note of the same kind and id counts.
	for i, j := range noted {
		j.found = nil
		if a := k.answers[i+1]; a.outcome == outcomeDone {
			d := decode(a.value)
			if n := d.note(); !d.Bad && n.kind == j.kind && n.id == j.id {
				j.found = &n
			}
		}
	}
	v := view{conn: conn, cas: k.answers[0].cas, value: k.answers[0].value}
	s.compare(l, v)
	return v, nil
}

// compare notes whether other processes have written since, and whether the server has forgotten
// what it was to keep. It is for the next rounds and for Stats; what was read decides in any case.
//
// alone becomes false by a refused swap, or by a look that finds another number than the last. It
// becomes true again by a look that finds the same number as this process's last write or look:
// nobody has written in between.
func (s *Store) compare(l *lane, v view) {
	if s.seen.gone(l.name, time.Since(s.opened), v.cas != 0, bornOf(v.value)) {
		s.counts.forgotten.Add(1)
	}
	if l.known.conn == nil {
		return
	}
	l.alone = l.known.conn == v.conn && l.known.cas == v.cas
	l.known = view{}
}

func (s *Store) do(c *conn, k *call) error {
	s.counts.trips.Add(1)
	return c.do(k)
}

// decide decides jobs over what an item held, and writes what comes out. It is false when that
// can't be known without looking at the item: when nothing is to be written, no swap would tell
// that the view was old, and a denial could be one by what is long over.
//
// Jobs are decided one after the other, each over the item as those before it left it. One that
// fails by itself, such as a receipt that was settled before, leaves the item alone and the others
// to go on.
func (s *Store) decide(l *lane, v view, noted []*job, looked bool) bool {
	// There are none where all callers have left while the server was asked.
	jobs := s.claim(l, noted)
	if len(jobs) == 0 {
		return true
	}
	// The clock is read after the look, and once: jobs of a round are decided at one moment, and
	// none at a time before it came.
	now := s.now()
	it, err := decodeItem(v.value, now)
	if err != nil {
		s.finish(jobs, l.line.server.explain(err))
		return true
	}
	for _, j := range jobs {
		// A job's error is its own answer. An answer such as weir.ErrSettled goes to the caller as
		// it is; anything else is said with the server it is about.
		if j.err = j.apply(now, it); j.err != nil && !record.Answers(j.err) {
			j.err = l.line.server.explain(j.err)
		}
	}
	if !it.changed { // all were denied, or only looked
		if !looked {
			s.unclaim(l, jobs)
			return false
		}
		s.remember(l, v, now, it)
		s.finish(jobs, nil)
		return true
	}
	s.write(l, v, it, now, jobs, looked)
	return true
}

// write writes an item if it still is what was seen, and answers the jobs or has
// them wait for another try.
//
// An item that was there is swapped by its number, and one that was not is added: the server
// refuses both when another process has written meanwhile. Where the answer is lost, the jobs fail,
// and known is left as it was: the number in it is old if the write came through, so the next round
// finds out.
//
// There is no step between the server's write and the answer in which a crash could do harm. If
// this process dies before the write, nothing was charged, and nobody has heard that it was. If it
// dies after, the charge stays, for events that did not pass: that is the safe side.
func (s *Store) write(l *lane, v view, it *item, now weir.Instant, jobs []*job, looked bool) {
	it.prune(now)
	if err := s.spill(l, v.conn, it, now); err != nil {
		s.finish(jobs, l.line.server.explain(err))
		return
	}
	c := command{verb: verbSwap, key: l.name, value: it.encode(), cas: v.cas}
	if v.cas == 0 { // there was none; a plain set would write over one that came meanwhile
		c.verb = verbAdd
	}
	if len(c.value) > maxValue {
		s.finish(jobs, l.line.server.explain(errLarge))
		return
	}
	var life time.Duration
	c.ttl, life = s.ttl(it.keep(now))
	k := newCall(c)
	if err := s.do(v.conn, k); err != nil {
		s.finish(jobs, l.line.server.explainWrite(err))
		return
	}
	switch a := k.answers[0]; a.outcome {
	case outcomeFailed:
		s.finish(jobs, l.line.server.explain(said(a.text)))
	case outcomeDone:
		s.seen.see(l.name, sighting{it.born, time.Since(s.opened) + life})
		// The number of this write is what the next round may swap, without a look.
		l.known = view{}
		// A larger item is not remembered: maxLanes views of maxKnown bytes are 128 MiB already.
		if a.cas != 0 && len(c.value) <= maxKnown {
			l.known = view{v.conn, a.cas, c.value, time.Now().Add(life)}
		}
		s.finish(jobs, nil)
	default:
		s.again(l, jobs, looked)
	}
}

// remember keeps what was seen for the next round. Until then the server has to keep the item no
// longer than life; later it may be gone, and a swap over it would be refused as if another process
// had written.
func (s *Store) remember(l *lane, v view, now weir.Instant, it *item) {
	if v.cas == 0 {
		return
	}
	life := it.keep(now)
	s.seen.see(l.name, sighting{it.born, time.Since(s.opened) + life})
	if len(v.value) <= maxKnown {
		v.until = time.Now().Add(life)
		l.known = v
	}
}

// again has jobs wait for another try, for another process has written. A decision made without
// looking was no try. The pause before the next try is drawn from a longer time each time, so that
// processes that write the same item get out of step. All that wait go together in the next round,
// so of a process at most one swap is on its way for an item, and with each refused swap another
// process got on: never do all fail.
//
// Callers that have left are not told apart: their jobs go on, up to maxTries like all.
func (s *Store) again(l *lane, jobs []*job, looked bool) {
	l.known, l.alone = view{}, false
	s.counts.lost.Add(1)
	if !looked {
		s.unclaim(l, jobs)
		return
	}
	var rest, busy []*job
	most := 0
	for _, j := range jobs {
		if j.tries++; j.tries >= maxTries {
			busy = append(busy, j)
		} else {
			rest, most = append(rest, j), max(most, j.tries)
		}
	}
	s.counts.busy.Add(int64(len(busy)))
	s.finish(busy, fmt.Errorf("memcachestore: other processes wrote the count during all %d tries: %w", maxTries, weir.ErrBusy))
	s.unclaim(l, rest)
	if len(rest) > 0 {
		_ = sleep.For(s.ctx, rand.N(firstPause<<most)) // closed: the next try says so
	}
}

// firstPause is half of the longest pause before the second try; each further one
// may be twice as long. It is a few round trips: shorter ones left more jobs
// without an answer (BenchmarkTake, one key, many stores).
const firstPause = time.Millisecond
