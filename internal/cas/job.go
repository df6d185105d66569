package cas

import (
	"fmt"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// job is what is to be done to some items at one moment. It has its own copies of
// what its caller gave, for the caller may leave before it is done.
//
// A job is waiting, or claimed by the goroutine that works for its lane, or done. Only a waiting
// one can be taken back: a caller that leaves later hears that it may have been charged.
//
// The goroutine of the caller makes a job and hands it over under mu of the engine. From then on
// the goroutine of the lane has it, until it closes done; then the caller reads err and what apply
// has filled in. A caller that has left reads nothing of it any more.
type job struct {
	// apply changes the items, or not. It may be called several times, each on
	// items as they were read, and must forget the time before. Its error is this
	// job's answer alone.
	apply func(now weir.Instant, items []*item) error

	lanes []*lane // of its items; set by join
	room  [1]*lane
	order uint64 // of joining

	// The note by which the job works only once, in the first item or one of its own; kind is noNote when it may work again. The id is
	// drawn by the caller, or is that of a receipt: two jobs of one kind and id in one item are the
	// same job, sent twice.
	kind  noteKind
	id    uint64
	found *note // where that was noted in an item of its own

	// bad is why the item of its own that the note may be in can't be read.
	bad error

	// refused is that its last swap was, and nobody knows yet whether for one of its items.
	refused bool
	claimed bool // it is in the hands of a round, and leaves its lanes; mu of the engine guards it

	// tries counts refused swaps that stood on a look, up to maxTries. A swap by what was known
	// from before is no try: the process had not asked whether it still holds.
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

// find takes note of what the cell of the job's note holds. Its name may be another program's by
// chance: only a note of the same kind and id counts.
func (j *job) find(c Cell) {
	j.found, j.bad = nil, c.Err
	if c.Version.Number == 0 || c.Err != nil {
		return
	}
	d := decode(c.Value)
	if n := d.note(); !d.Bad && n.kind == j.kind && n.id == j.id {
		j.found = &n
	}
}

// takeJob decides the asks of t: at[i] is which of the job's items has the count of ask i. Nil: there is
// one item.
//
// A take with Once leaves its first answer as a note, with the charge and in the same write. It
// finds the note when it comes again, also where the answer to the write was lost: it then makes
// that answer again, and charges nothing.
func takeJob(t *record.Swap, at []int) *job {
	j := &job{done: make(chan struct{})}
	if j.id = t.Once(); j.id != 0 {
		j.kind = noteOnce
	}
	j.apply = func(now weir.Instant, items []*item) error {
		if n := j.noted(now, items[0]); n != nil {
			return t.Again(n.data)
		}
		of := func(i int) *item {
			if at == nil {
				return items[0]
			}
			return items[at[i]]
		}
		all := make([]record.Record, len(t.Asks))
		for i := range t.Asks {
			a := &t.Asks[i]
			var err error
			if all[i], err = of(i).record(label(a.State), a.Limit); err != nil {
				return fmt.Errorf("limit %q: %w", a.Limit, err)
			}
		}
		// Each job decides over the counts as the jobs before it left them: that is as if their
		// takes had come one after the other at this moment.
		write, first := t.Decide(now, all)
		for i := range all {
			if write {
				of(i).put(label(t.Asks[i].State), all[i], now)
			}
		}
		if first != nil {
			items[0].note(note{kind: noteOnce, id: j.id, until: now + instants(weir.OnceLife), data: first}, now)
		}
		return nil
	}
	return j
}

// settleJob settles receipts of one take and one item.
//
// A charge from before the item was made is gone: it was evicted, or flushed. A receipt from then
// must give nothing back, or the count would get back what it never held. Since says the same of a
// count that was reset. While settling the later of the two holds; only Since is kept, for the item
// tells the other by itself.
//
// A receipt that is renewed leaves no note, as it is settled again later. A refund of events
// without a receipt leaves none either: it stands for no take that could be settled twice.
func settleJob(all []weir.Settlement) *job {
	j := &job{done: make(chan struct{}), kind: noteSettled, id: all[0].Receipt.ID}
	j.apply = func(now weir.Instant, items []*item) error {
		it := items[0]
		if j.noted(now, it) != nil {
			return weir.ErrSettled
		}
		records := make([]record.Record, len(all))
		since := make([]weir.Instant, len(all))
		// It is a second at least, in microseconds.
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

// resetJob forgets what was used of keys of one item. The count stays, with the time of the reset:
// receipts from before it must give nothing back. That is the time of this process's last receipt,
// where its clock has stepped back behind it.
//
// A key without a count has nothing to forget, and gets none.
func resetJob(keys []weir.StateKey, given *record.Latest) *job {
	return &job{done: make(chan struct{}), apply: func(now weir.Instant, items []*item) error {
		it := items[0]
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
	return &job{done: make(chan struct{}), apply: func(now weir.Instant, items []*item) error {
		r, err := items[0].record(label(a.State), a.Limit)
		if err != nil {
			return err
		}
		*to = seen{now, r.View(a.Limit, now)}
		return nil
	}}, to
}
