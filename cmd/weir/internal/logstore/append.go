package logstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/sleep"
)

// maxInFlight is how many messages wait to be acknowledged. Counts that change meanwhile are added up,
// by its key, and waits for them.
const maxInFlight = 1 << 13

// hurry has the log told soon.
func (s *Store) hurry() {
	select {
	case s.wake <- struct{}{}:
	default: // it will be
	}
}

// append tells the log what this process lets pass, until ctx ends. What comes within a Gather travels
// together, and is one message for each key.
func (s *Store) append(ctx context.Context) {
	beat := time.NewTicker(bounds.LogBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			s.beat()
			s.tell() // also what was refused
		case <-s.wake:
			if sleep.For(ctx, counter.Gather) != nil {
				return
			}
			s.tell()
		}
	}
}

// tell appends what the log has not been told, as far as there is room in flight.
func (s *Store) tell() {
	log := s.log.Load()
	if log == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	room := maxInFlight - int(s.inFlight.Load())
	if room <= 0 {
		return
	}
	s.mu.Lock()
	entries := s.resets[:min(room, len(s.resets))]
	s.resets = append([]counter.Entry(nil), s.resets[len(entries):]...)
	entries = s.replica.Entries(room-len(entries), entries[:len(entries):len(entries)])
	s.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		s.inFlight.Add(1)
		key := keyOf(e.Key)
		log.send(partitionOf(key, log.shape.partitions), key, e.Line(), func(err error) { s.told(e, err) })
	}
}

// told hears what became of a message.
func (s *Store) told(e *counter.Entry, err error) {
	if s.inFlight.Add(-1) == maxInFlight/2 {
		s.hurry()
	}
	if err == nil {
		s.counts.appended.Add(1)
		return
	}
	s.counts.refused.Add(1)
	s.reading.fail(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.Reset {
		s.replica.Missed(s.now(), e)
	} else if len(s.resets) < maxResets {
		s.resets = append(s.resets, *e)
	}
}

// beat appends to each partition that this process lives, and how old it is then: it measures the lag
// by the time until it reads that. A partition that has not acknowledged the last beat gets no other.
func (s *Store) beat() {
	log := s.log.Load()
	if log == nil {
		return
	}
	e := s.beatNow()
	for p := range log.beating {
		if !log.beating[p].CompareAndSwap(false, true) {
			continue
		}
		log.send(p, nil, e.Line(), func(err error) {
			log.beating[p].Store(false)
			if err != nil {
				s.reading.fail(err)
			}
		})
	}
}

// beatNow is a beat: its number is the age of the process, in microseconds.
func (s *Store) beatNow() counter.Entry {
	return counter.Entry{Node: s.place.node, Incarnation: s.incarnation, Beat: max(s.age().Microseconds(), 1)}
}

// keyOf is the key of a message, by which people find it: the rule's place and the key.
func keyOf(k weir.StateKey) []byte { return []byte(k.Rule + "\x00" + k.Key) }

// partitionOf is where the messages of a key are. Any other would do: those that are elsewhere, because
// the log has got more partitions, count as well.
func partitionOf(key []byte, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return int(h.Sum32() % uint32(partitions))
}

// flush appends all that is to be told, until ctx ends; then it fails with how much is lost.
func (s *Store) flush(ctx context.Context) error {
	for {
		s.tell()
		stats := s.Stats()
		left := int64(stats.Waiting) + stats.InFlight
		if left == 0 {
			return nil
		}
		if sleep.For(ctx, counter.Gather) != nil || s.log.Load() == nil {
			return fmt.Errorf("logstore: what this process let pass of %d keys was not appended: %w", left, weir.ErrAway)
		}
	}
}
