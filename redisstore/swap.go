package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// kept is what a key is to hold, and for how long; nothing where it stays as it
// was. A key lives until its count says no more than its absence would, so that Redis needs no
// cleaning.
//
// Times are rounded so that a key never ends before its count: see swapArgs.
type kept struct {
	value []byte // a record of a count, or a note of what works once
	life  time.Duration
}

// change says what keys are to hold, given what they hold at now. It may be
// called several times, and must forget the time before.
//
// It runs on the caller's goroutine. The values that it fills in for the caller, such as
// decisions, are meant only once swap has returned without an error.
type change func(now weir.Instant, values []string, next []kept) error

// swap changes keys as one: it looks, works out what they shall hold, and writes
// that if nobody else has written meanwhile.
//
// Each step is one script, so Redis runs nothing between the comparison of the values and the
// write. That a value is the same as before is enough: what is decided depends on the values and
// the time alone, not on how they came about. A swap that finds other values writes nothing and
// brings them back, so a try costs one round trip after the first two.
//
// When the answer to a write is lost, it may have been written. Then the caller hears an error, and
// a take that asked for Once can be asked again: its note was written with the charge, or neither
// was.
func (s *Store) swap(ctx context.Context, keys []string, c change) error {
	// The time of a try is the time that came with the values. A write is then dated a round trip
	// before it happens, which is sound: had anything happened to the keys in between, the values
	// would differ and nothing would be written.
	args := []string{s.now, "look"} // first; then "swap", with what the look or the swap before has brought
	for range maxTries {
		answer, err := s.exec(ctx, s.swapper, false, keys, args)
		if err == nil && len(answer) != len(keys)+2 {
			err = fmt.Errorf("redisstore: %d values of %d keys", len(answer), len(keys))
		}
		if err != nil {
			return err
		}
		if answer[1] == "1" { // all was written; what c has filled in for its caller holds
			return nil
		}
		if args[1] == "swap" {
			s.counts.tries.Add(1)
		}
		// The script has compared and not written, so what it brings is a look like the first one.
		values, next := answer[2:], make([]kept, len(keys))
		if err := c(parseInstant(answer[0]), values, next); err != nil {
			return err
		}
		if args = swapArgs(s.now, values, next); args == nil {
			return nil
		}
	}
	s.counts.busy.Add(1)
	return fmt.Errorf("redisstore: %d tries: %w", maxTries, weir.ErrBusy)
}

// swapArgs is nil when there is nothing to write. Keys that stay as they were are compared, too:
// what was decided depends on them. A key lives 2 ms longer than its count: parts of a millisecond
// are left out, and the clock goes on between the script's time and its write.
//
// Nothing to write needs no second trip: what was decided was true at the moment of the look, and
// that is as good as a moment later.
func swapArgs(now string, values []string, next []kept) []string {
	args := []string{now, "swap"}
	some, longer := false, int64(2)
	if now != "" {
		longer = 3_600_000 // as in take.lua
	}
	for i := range next {
		ms := int64(0)
		if next[i].value != nil {
			ms, some = int64(next[i].life/time.Millisecond)+longer, true
		}
		args = append(args, values[i], string(next[i].value), strconv.FormatInt(ms, 10))
	}
	if !some {
		return nil
	}
	return args
}

// records reads what keys hold; the last ones, beyond limits, are no records. It fails with a
// CountError for what another program wrote: a count must not begin anew because of that.
//
// A limit of nil has the record's own limit read from its text.
func records(keys, values []string, limits []*weir.Limit) ([]record.Record, error) {
	all := make([]record.Record, len(limits))
	for i := range all {
		var err error
		if all[i], err = record.Parse([]byte(values[i]), limits[i]); err != nil {
			return nil, inKey(keys[i], err)
		}
	}
	return all, nil
}

// inKey says of which descriptor an error is.
func inKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisstore: a key of %q: %w", placeOf(key), err)
}

// write fills next with the records, where they are not what they were. A count that was never
// there and need not be kept is left out: a denied or empty take of many keys then leaves nothing
// in Redis.
func write(now weir.Instant, values []string, all []record.Record, next []kept) {
	for i := range all {
		if all[i].Limit == nil {
			continue
		}
		value := all[i].Append(nil)
		if string(value) == values[i] || values[i] == "" && all[i].Keep(now) == 0 {
			continue
		}
		next[i] = kept{value, all[i].Keep(now)}
	}
}

func (s *Store) places(asks []weir.Ask) (keys []string, limits []*weir.Limit) {
	for i := range asks {
		keys, limits = append(keys, s.key(asks[i].State)), append(limits, asks[i].Limit)
	}
	return keys, limits
}

// takeBySwap takes what the script can't decide.
func (s *Store) takeBySwap(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	keys, limits := s.places(asks)
	n := len(keys)
	t := record.NewSwap(asks, out)
	// A take with Once has one key more, for its first answer. It is under the tag of the counts,
	// so one script on one node compares and writes them all: the answer is noted with the charge,
	// or neither is. A take that comes again finds the note, decides nothing, and makes the first
	// answer again of what was noted.
	once := t.Once() != 0
	if once {
		keys = append(keys, s.tag(asks[0].State)+":once:"+strconv.FormatUint(t.Once(), 16))
	}
	err := s.swap(ctx, keys, func(now weir.Instant, values []string, next []kept) error {
		if once && values[n] != "" {
			return inKey(keys[n], t.Again([]byte(values[n])))
		}
		all, err := records(keys, values, limits)
		if err != nil {
			return err
		}
		changed, first := t.Decide(now, all)
		if changed {
			write(now, values, all, next)
		}
		if first != nil {
			next[n] = kept{first, weir.OnceLife}
		}
		return nil
	})
	if err != nil {
		for i := range asks {
			// The take may have been written, and what was remembered of its keys may be old.
			s.denials.Forget(asks[i].State)
		}
		return err
	}
	// The decisions hold from here on: End notes receipts and denials only of what was written.
	t.End(s.denials, &s.given)
	return nil
}

// Settle settles receipts of one take. On a Cluster those of different descriptors are settled one
// after the other.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	together := func(part []weir.Settlement) error {
		return record.SettleCopy(part, func(part []weir.Settlement) error { return s.settleTogether(ctx, part) })
	}
	switch {
	case s.cluster:
		return record.SettleApart(settlements, record.PlaceOf, together)
	case len(settlements) > 0:
		return together(settlements)
	}
	return nil
}

// settleTogether settles receipts whose keys are on one node.
//
// A key of its own says that receipts of this take were settled. It is written together with what
// they give back, and lives until the receipts have expired: from then on they give nothing back
// anyway. Permits need no such key, as a permit is either held or was freed. A receipt that is
// renewed can be settled later, so it leaves no key either. A settlement that can give nothing back
// writes the key all the same, so that it answers alike when it is asked again.
func (s *Store) settleTogether(ctx context.Context, all []weir.Settlement) error {
	var keys []string
	var limits []*weir.Limit
	var until weir.Instant // while it has to be known that all but permits are settled
	for i := range all {
		r := all[i].Receipt
		// It is forgotten after the write. Were it forgotten before, a take on another goroutine
		// could learn anew a denial that the giving back ends. A take whose answer is on its way
		// can still do so; its denial lives for a second.
		defer s.denials.Forget(r.State)
		keys, limits = append(keys, s.key(r.State)), append(limits, r.Limit)
		if r.Limit.Algorithm() != weir.Concurrent {
			until = max(until, r.Expires)
		}
	}
	n := len(keys)
	if until > 0 {
		keys = append(keys, s.tag(all[0].Receipt.State)+":settled:"+strconv.FormatUint(all[0].Receipt.ID, 16))
	}
	var settled error
	err := s.swap(ctx, keys, func(now weir.Instant, values []string, next []kept) error {
		if until > 0 && values[n] != "" {
			return weir.ErrSettled
		}
		counts, err := records(keys, values, limits)
		if err != nil {
			return err
		}
		if settled = record.Settle(now, all, counts); settled == nil {
			write(now, values, counts, next)
		}
		// Where the receipt has just expired, the key still lives for a second.
		if until > 0 && !all[0].Renew {
			next[n] = kept{[]byte{1}, max((until - now).Duration(), time.Second)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_ = s.receipts.Settle(s.serverNow(), all) // the server knows whether they were; this counts them
	return settled
}

// Reset forgets what was used of the keys. Receipts of them from before then give nothing back.
// Keys are reset one after the other; when one fails, those before it were reset.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	for _, k := range keys {
		defer s.denials.Forget(k)
		names := []string{s.key(k)}
		err := s.swap(ctx, names, func(now weir.Instant, values []string, next []kept) error {
			all, err := records(names, values, []*weir.Limit{nil})
			if err != nil || all[0].Limit == nil {
				return err
			}
			all[0].Reset(s.given.Or(now))
			write(now, values, all, next)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var _ weir.Looker = (*Store)(nil)

// Look is the states of asks by the server's clock. On a Cluster those of
// different descriptors are of different moments.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	var at weir.Instant
	// A look goes by swap, whose change fills in nothing to write: so it is one round trip, and
	// leaves no trace.
	states := make([]weir.State, len(asks))
	look := func(asks []weir.Ask, to []weir.State) error {
		keys, limits := s.places(asks)
		return s.swap(ctx, keys, func(now weir.Instant, values []string, _ []kept) error {
			all, err := records(keys, values, limits)
			for i := range all {
				to[i] = all[i].View(limits[i], now)
			}
			at = now
			return err
		})
	}
	if !s.cluster || len(asks) == 0 {
		err := look(asks, states)
		return at, states, err
	}
	for i := range asks {
		if err := look(asks[i:i+1], states[i:i+1]); err != nil {
			return 0, nil, err
		}
	}
	return at, states, nil
}
