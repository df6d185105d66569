package cluster

import (
	"context"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/internal/record"
)

// Take decides the asks: plain ones by leases, all others by the owners of their keys.
// Several plain ones go to the owners, too, unless leases that are held cover all.
//
// The evidence of a denial is what the owner said last. There is none of takes of several
// placements, of those that leases let pass, of what nodes decide by themselves, and where
// an owner is silent. To a caller that must not wait (package here) it answers only what leases that are held, and denials that
// owners have told, decide.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(asks) == 1 && len(out) == 1 && plain(&asks[0]) {
		if r := s.replica(asks[0].Policy.Sharing); r != nil {
			return r.take(asks, out)
		}
		key := s.led.known(&asks[0])
		hash, place := table.Hash(s.seed, key)
		if lent, err := s.shards[place%shards].take(ctx, hash, key, &asks[0], &out[0]); lent {
			if err == nil && asks[0].Evidence != nil && out[0].Outcome != weir.Allowed {
				s.shards[place%shards].witness(hash, key, asks[0].Evidence)
			}
			return err
		}
	}
	if len(asks) > 1 && s.spend(asks, out) {
		return nil
	}
	if here.Only(ctx) {
		return here.ErrWaits
	}
	if err := record.Check("cluster", fits, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if r := s.together(asks); r != nil {
		return r.take(asks, out)
	}
	if err := s.takeTogether(ctx, asks, out); err != nil || len(asks) == 1 {
		return err
	}
	// Leases asked for before the owners have decided would set aside what the asks need.
	if !slices.ContainsFunc(out, func(d weir.Decision) bool { return !d.Charged }) {
		s.expect(asks)
	}
	return nil
}

// takeTogether lets the owners of the keys decide.
func (s *Store) takeTogether(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if !record.Groups(asks) {
		return s.takeWhole(ctx, asks, out)
	}
	apart := record.Apart{
		Take: func(asks []weir.Ask, out []weir.Decision) error {
			if r := s.together(asks); r != nil {
				return r.take(asks, out)
			}
			return s.takeWhole(ctx, asks, out)
		},
		Settle: s.Settle,
	}
	return apart.TakeAll(ctx, asks, out)
}

// fits says of each limit that nodes can keep it: what leases don't suit goes whole.
func fits(*weir.Limit) string { return "" }

// plain is whether a lease can answer an ask, if it suits its limit.
func plain(a *weir.Ask) bool {
	return a.Limit != nil && a.Cost >= 1 && a.Cost <= weir.MaxCount && a.AtLeast == 0 && a.MaxHold == 0 && a.Receipt == 0 && !a.Peek && !a.After && !a.Once
}

// maxLimits is how many limits a shard remembers; then all are looked at anew.
const maxLimits = 1 << 10

// limits remembers how many events leases of limits can answer for at once.
type limits struct {
	last  *weir.Limit
	lends int64 // last
	known map[string]int64
}

// most is 0 for limits that leases don't suit.
func (l *limits) most(limit *weir.Limit) int64 {
	if limit == l.last {
		return l.lends
	}
	lends, ok := l.known[limit.String()]
	if !ok {
		if l.known == nil || len(l.known) >= maxLimits {
			l.known = map[string]int64{}
		}
		if protocol.Unfit(limit) == "" {
			lends, _ = limit.Standing(nil, 0)
		}
		l.known[limit.String()] = lends
	}
	l.last, l.lends = limit, lends
	return lends
}
