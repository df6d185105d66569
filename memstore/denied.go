package memstore

import (
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// deniedKeys is how many keys of a segment are denied without its lock at a time. A key
// puts out the one before it in its place. Which place a key has follows from its fingerprint, so
// a reader looks at one copy. Two keys of one place that are denied by turns take the lock.
const deniedKeys = 4

// denied are copies of states that deny, which takes read without the lock of their
// segment: a client that goes on asking makes nobody wait. Where one of several limits
// denies, there are copies for the others, too, though they would allow. Only the goroutine
// with the lock writes them, and it drops a key's copy before it releases a lock under which
// that key's state has changed. So a copy that is found is the state of the moment when it
// was read.
type denied struct {
	copies [deniedKeys]denial
}

// denial is a copy for one key. Its number is odd while it says nothing. A reader takes
// what it has read if the number is even and the same before and after.
//
// Go's atomic operations happen in one order that all goroutines see. The writer makes
// the number odd before it changes anything, and a new even one afterwards. So a reader
// that has seen the same even number twice has read nothing of a change in between.
// The reader never waits: where it can't be sure it takes the lock, as for any key.
//
// A number only grows, and no even one comes twice. So a copy that was dropped and made again
// between two looks, even with the same words, does not look the same.
type denial struct {
	number atomic.Uint64
	print  atomic.Uint64
	// limit is the one that denied. An ask by another one goes by the lock, for the
	// same state may let it pass.
	limit atomic.Pointer[weir.Limit]
	state [len(pair{})]atomic.Uint64
}

func (d *denied) of(f uint64) *denial { return &d.copies[f%deniedKeys] }

// read is the state of f that c has a copy of, for limit. It is f's state as long as c has
// this number.
func (c *denial) read(f uint64, limit *weir.Limit) (state pair, number uint64, ok bool) {
	number = c.number.Load()
	if number%2 != 0 || c.print.Load() != f || c.limit.Load() != limit {
		return pair{}, number, false
	}
	return pair{c.state[0].Load(), c.state[1].Load()}, number, true
}

// deny says whether f is denied by limit, and then fills in what it is told. A copy holds
// a state and no answer: Peek decides by now, so that a denial which is over is none.
func (d *denied) deny(f uint64, now weir.Instant, limit *weir.Limit, cost int64, told *weir.Decision) bool {
	c := d.of(f)
	state, number, ok := c.read(f, limit)
	return ok && c.number.Load() == number && limit.Peek(state, now, cost, told) && told.Outcome == weir.Denied
}

// note keeps a copy of f's state from the second denied take in a row on: most keys that
// are denied once are allowed next. "In a row" is among the takes of the segment: a denial of
// another key in between begins the row anew. Its caller has the lock, and the state is in a slot
// of two words that a denial by limit does not change.
func (sg *segment) note(f uint64, state pair) {
	if sg.refused != f {
		sg.refused = f
		return
	}
	all := sg.denied.Load()
	if all == nil {
		all = &denied{}
		for i := range all.copies {
			all.copies[i].number.Store(1)
		}
		sg.denied.Store(all)
	}
	c := all.of(f)
	number := c.number.Load() | 1
	c.number.Store(number)
	c.print.Store(f)
	c.limit.Store(sg.limit)
	c.state[0].Store(state[0])
	c.state[1].Store(state[1])
	c.number.Store(number + 1)
}

// changed drops the copy of f, whose state is not what it was. The goroutine with the lock
// calls it whenever a state is written or leaves its slot. It may come after the write, as long
// as the lock is still held: a reader in between sees the state from before, and so its take is
// one that came before.
func (sg *segment) changed(f uint64) {
	if sg.refused == f {
		sg.refused = 0
	}
	if all := sg.denied.Load(); all != nil {
		all.of(f).drop(f)
	}
}

func (c *denial) drop(f uint64) {
	if number := c.number.Load(); number%2 == 0 && c.print.Load() == f {
		c.number.Store(number + 1)
	}
}

// changedAll drops all copies. A segment that was split needs it: its parts have the states now, and
// know nothing of these copies.
func (sg *segment) changedAll() {
	sg.refused = 0
	if all := sg.denied.Load(); all != nil {
		for i := range all.copies {
			c := &all.copies[i]
			c.number.Store(c.number.Load() | 1)
		}
	}
}
