package memcachestore

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
)

// spill moves notes to items of their own, before too many are in one. Only those that are kept
// already may go: a note and the charge it speaks of are written at once, so that a crash leaves
// both or neither. They are written to the items of their own before the write that takes them out
// of this one. If that write is refused, they are in both places, which says the same twice.
// Memcached may evict such an item before its time; then its receipt would work twice, as if it
// were lost with the server.
//
// All kept notes go at once, so that not every round spills. A note has its own end there, and
// slack: the item that it left may go before it. An error leaves the item as it was read: the jobs
// fail, and nothing was decided.
func (s *Store) spill(l *lane, c *conn, it *item, now weir.Instant) error {
	if len(it.notes) <= maxNotes {
		return nil
	}
	k := newCall()
	var fresh []note
	for _, n := range it.notes {
		if n.fresh {
			fresh = append(fresh, n)
			continue
		}
		ttl, _ := s.ttl((n.until - now).Duration())
		k.commands = append(k.commands, command{verb: verbSet, key: noteName(l.name, n.kind, n.id), value: n.append(nil), ttl: ttl})
	}
	k.answers = make([]answer, len(k.commands))
	if err := s.do(c, k); err != nil {
		return err
	}
	for _, a := range k.answers {
		if a.outcome != outcomeDone {
			return fmt.Errorf("a note can't be kept: %s", a.text)
		}
	}
	it.notes = fresh
	s.counts.spilled.Add(int64(len(k.commands)))
	return nil
}

const (
	// relative is the longest time that memcached takes as a number of seconds;
	// what is more it takes as Unix time.
	relative = 30 * 24 * 3600
	// lastSecond is the last Unix time that it takes: 2038-01-19.
	lastSecond = 1<<31 - 1
)

// ttl is how memcached is told to keep an item, and how long that is at least. Memcached's clock ticks in
// seconds, and an item may go up to one earlier than its time: life has one less than ttl. A time beyond
// 30 days is told by the clock of this process; when that is off, the item goes earlier or later by
// as much. slack is more than clocks may differ by.
//
// Beyond lastSecond an item would go too early: unfit refuses limits that need so long.
func (s *Store) ttl(keep time.Duration) (ttl int64, life time.Duration) {
	seconds := int64((keep+time.Second-1)/time.Second) + int64(slack/time.Second) + s.longer
	life = time.Duration(seconds-1) * time.Second
	if seconds <= relative {
		return seconds, life
	}
	return min(time.Now().Unix()+seconds, lastSecond), life
}
