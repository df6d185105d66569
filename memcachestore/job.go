package memcachestore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// job is what is to be done to one item at one moment. It has its own copies of
// what its caller gave, for the caller may leave before it is done.
type job struct {
	// apply changes the item, or not. It may be called several times, each on an
	// item as it was read, and must forget the time before. Its error is this
	// job's answer alone.
	apply func(now weir.Instant, it *item) error

	// The note by which the job works only once; kind is noNote when it may work again.
	kind  noteKind
	id    uint64
	found *note // where that was noted in an item of its own

	tries int
	err   error
	done  chan struct{} // closed with err
}

// noted is the note of what the job works once for.
func (j *job) noted(now weir.Instant, it *item) *note {
	if j.kind == noNote {
		return nil
	}
	if n := it.noted(j.kind, j.id, now); n != nil {
		return n
	}
	if j.found != nil && now < j.found.until {
		return j.found
	}
	return nil
}

// taking is a take of one item, and what it stood on.
type taking struct {
	asks []weir.Ask
	out  []weir.Decision
	look bool // note the states before in any case

	at weir.Instant
	// before are the states that it was decided on. Without look they are noted
	// only when they stay: when nothing was written.
	before []weir.State
}

// job decides the asks.
func (t *taking) job() *job {
	j := &job{done: make(chan struct{})}
	if a := &t.asks[0]; a.ChargesOnce() {
		j.kind, j.id = noteOnce, a.Receipt
	}
	j.apply = func(now weir.Instant, it *item) error {
		t.at, t.before = now, nil
		if n := j.noted(now, it); n != nil {
			return again(n, t.asks, t.out)
		}
		all, err := recordsOf(it, t.asks)
		if err != nil {
			return err
		}
		var first []byte
		if j.kind == noteOnce {
			first = firstAnswer(now, all)
		}
		if t.look {
			t.before = t.states(now, all)
		}
		if record.Take(now, t.asks, all, t.out) {
			for i := range all {
				it.put(label(t.asks[i].State), all[i], now)
			}
		} else if !t.look {
			t.before = t.states(now, all)
		}
		if j.kind == noteOnce && charged(t.out) {
			it.note(note{kind: noteOnce, id: j.id, until: now + instants(weir.OnceLife), data: first}, now)
		}
		return nil
	}
	return j
}

func charged(out []weir.Decision) bool {
	return slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged })
}

// states are copies of the states, as their limits would be given them.
func (t *taking) states(now weir.Instant, all []record.Record) []weir.State {
	states := make([]weir.State, len(all))
	for i := range all {
		states[i] = all[i].View(t.asks[i].Limit, now)
	}
	return states
}

// tell fills in the evidence of a take, once it is done and its caller is there.
func (t *taking) tell() {
	if !weir.WantsEvidence(t.asks, weir.Resolve(t.asks, slices.Clone(t.out))) {
		return
	}
	for i, state := range t.before {
		t.asks[i].Evidence.Tell(t.at, state)
	}
}

func recordsOf(it *item, asks []weir.Ask) ([]record.Record, error) {
	all := make([]record.Record, len(asks))
	for i := range asks {
		var err error
		if all[i], err = it.record(label(asks[i].State), asks[i].Limit); err != nil {
			return nil, fmt.Errorf("limit %q: %w", asks[i].Limit, err)
		}
	}
	return all, nil
}

// firstAnswer is what the first answer to a take was made of: when, and what the
// counts were.
func firstAnswer(now weir.Instant, all []record.Record) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(now))
	for i := range all {
		var raw []byte
		if all[i].Limit != nil {
			raw = all[i].Append(nil)
		}
		b = appendBytes(b, string(raw))
	}
	return b
}

// again makes the first answer once more.
func again(n *note, asks []weir.Ask, out []weir.Decision) error {
	d := decoder{b: n.data}
	now := d.instant()
	all := make([]record.Record, len(asks))
	for i := range asks {
		var err error
		if all[i], err = record.Parse(d.bytes(), asks[i].Limit); err != nil {
			return fmt.Errorf("the first take of this id: %w", err)
		}
	}
	if d.bad || len(d.b) > 0 {
		return &record.CountError{Err: fmt.Errorf("the first take of this id was not of %d limits", len(asks))}
	}
	record.Take(now, asks, all, out)
	return nil
}

// settleJob settles receipts of one take and one item.
func settleJob(all []weir.Settlement) *job {
	j := &job{done: make(chan struct{}), kind: noteSettled, id: all[0].Receipt.ID}
	j.apply = func(now weir.Instant, it *item) error {
		if j.noted(now, it) != nil {
			return weir.ErrSettled
		}
		records := make([]record.Record, len(all))
		since := make([]weir.Instant, len(all))
		until := now + 1_000_000
		for i := range all {
			r := all[i].Receipt
			var err error
			if records[i], err = it.record(label(r.State), r.Limit); err != nil {
				return err
			}
			since[i], until = records[i].Since, max(until, r.Expires)
			records[i].Since = max(since[i], it.born)
		}
		failed := record.Settle(now, all, records)
		for i := range records {
			if failed == nil {
				records[i].Since = since[i]
				it.put(label(all[i].Receipt.State), records[i], now)
			}
		}
		if !all[0].Renew && !all[0].Receipt.IsRefund() {
			it.note(note{kind: noteSettled, id: j.id, until: until}, now)
		}
		return failed
	}
	return j
}

// resetJob forgets what was used of keys of one item.
func resetJob(keys []weir.StateKey, given *record.Latest) *job {
	return &job{done: make(chan struct{}), apply: func(now weir.Instant, it *item) error {
		for _, k := range keys {
			r, err := it.record(label(k), nil)
			if err != nil {
				return err
			}
			if r.Limit != nil {
				r.Reset(given.Or(now))
				it.put(label(k), r, now)
			}
		}
		return nil
	}}
}

// seen is the state of a count, and when it was seen.
type seen struct {
	at    weir.Instant
	state weir.State
}

// lookJob looks at the state of an ask.
func lookJob(a weir.Ask) (*job, *seen) {
	to := new(seen)
	return &job{done: make(chan struct{}), apply: func(now weir.Instant, it *item) error {
		r, err := it.record(label(a.State), a.Limit)
		if err != nil {
			return err
		}
		*to = seen{now, r.View(a.Limit, now)}
		return nil
	}}, to
}
