package logstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/sleep"
)

const (
	// maxPoll is how many messages are taken in at a time.
	maxPoll = 4096
	// reopenEvery is how long to wait until a log that could not be opened is tried again.
	reopenEvery = 500 * time.Millisecond
	// behindMost is how old the last beat is at most that was read of each partition.
	behindMost = bounds.LogMost + bounds.LogBeat
)

var (
	errNotOpen = errors.New("the log was not reached yet")
	errReading = errors.New("the log is still being read back")
)

// reading is how far the reader is.
type reading struct {
	caught atomic.Bool  // all from before the start was read
	seen   atomic.Int64 // the age of the process at the last beat that was read of each partition, in nanoseconds

	mu    sync.Mutex
	why   error // what a broker said last that was no good
	parts []part
}

// part is how far the reader is in a partition.
type part struct {
	next int64         // offset of the message that is read next
	goal int64         // it has caught up when next is there
	high int64         // where the partition ends, as the broker said last
	seen time.Duration // the age of the process at the last of its beats that was read
	lag  time.Duration // how long that took
	at   weir.Instant  // of the latest message
}

// fail says why the log can't be read.
func (r *reading) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = err
}

// trouble is why the counts are too old to decide by, at an age of the process; nil: they are not.
func (r *reading) trouble(age time.Duration) error {
	behind := age - time.Duration(r.seen.Load())
	caught := r.caught.Load()
	if caught && behind <= behindMost {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case caught && r.why != nil:
		return fmt.Errorf("the log was read %v ago: %w", behind.Round(time.Millisecond), r.why)
	case caught:
		return fmt.Errorf("the log was read %v ago, and %v is allowed", behind.Round(time.Millisecond), behindMost)
	case r.parts != nil:
		return errReading
	}
	return r.why
}

// lag is how long it takes until an event is read, at an age of the process.
func (r *reading) lag(age time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := time.Duration(0)
	for i := range r.parts {
		longest = max(longest, r.parts[i].lag, age-r.parts[i].seen-bounds.LogBeat)
	}
	return longest
}

// behind is how many messages were not read yet.
func (r *reading) behind() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.parts {
		n += max(max(r.parts[i].high, r.parts[i].goal)-r.parts[i].next, 0)
	}
	return n
}

// read opens the log, and reads it until ctx ends; again, when it is another.
func (s *Store) read(ctx context.Context, back time.Duration) {
	for ctx.Err() == nil {
		log, parts, err := s.open(ctx, back)
		if err != nil {
			s.reading.fail(err)
			_ = sleep.For(ctx, reopenEvery)
			continue
		}
		s.reading.begin(parts)
		s.log.Store(log)
		s.hurry()
		s.follow(ctx, log)
		s.log.Store(nil)
		log.close()
	}
}

// begin is told where a log is read from.
func (r *reading) begin(parts []part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.caught.Store(false)
	r.why, r.parts = nil, parts
}

// follow takes in what comes, until the log is another or ctx ends.
func (s *Store) follow(ctx context.Context, log *opened) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.running.Go(func() {
		s.watch(ctx, log)
		stop()
	})
	for ctx.Err() == nil {
		batches, err := log.poll(ctx)
		if err != nil && ctx.Err() == nil {
			s.reading.fail(err)
		}
		for i := range batches {
			s.hear(log, &batches[i])
		}
		s.catch()
	}
}

// hear takes in messages of a partition, in their order.
func (s *Store) hear(log *opened, b *batch) {
	entries := make([]counter.Entry, len(b.messages))
	for i := range b.messages {
		var err error
		switch entries[i], err = counter.ParseEntry(b.messages[i].value); {
		case errors.Is(err, counter.ErrNewer):
			s.counts.newer.Add(1)
		case err != nil:
			s.counts.foreign.Add(1)
		}
	}
	s.counts.read.Add(int64(len(entries)))
	age := s.age()
	late := s.reading.trouble(age) != nil

	r := &s.reading
	r.mu.Lock()
	part := &r.parts[b.partition]
	part.high = max(part.high, b.end)
	next := part.next
	r.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		e, at, m := &entries[i], s.now(), &b.messages[i]
		if late {
			// What comes late is charged when it was appended, by the broker's clock.
			at = min(at, max(log.local(m.stamp), part.at))
		}
		part.at = at
		if e.Beat > 0 && e.Node == s.place.node && e.Incarnation == s.incarnation {
			s.sees(part, time.Duration(e.Beat)*time.Microsecond, age)
			if !late {
				log.compare(m.stamp, s.now())
			}
		}
		if e.Node != "" {
			s.replica.Hear(s.now(), at, e)
		}
		s.counts.lost.Add(max(m.offset-next, 0))
		next = m.offset + 1
	}
	r.mu.Lock()
	part.next = next
	r.mu.Unlock()
}

// sees takes in a beat of this process.
func (s *Store) sees(p *part, beat, age time.Duration) {
	r := &s.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	p.seen, p.lag = max(p.seen, beat), max(age-beat, 0)
	least := p.seen
	for i := range r.parts {
		least = min(least, r.parts[i].seen)
	}
	r.seen.Store(int64(least))
	if age-least <= behindMost {
		r.why = nil // a broker that said so does its work again
	}
}

// catch notices that all from before the start was read.
func (s *Store) catch() {
	r := &s.reading
	if r.caught.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.parts {
		if r.parts[i].next < r.parts[i].goal {
			return
		}
	}
	if s.age()-time.Duration(r.seen.Load()) > behindMost {
		return // it took long: until beats tell that the end was reached
	}
	r.caught.Store(true)
	s.first.Do(func() { close(s.caught) })
}
