package cluster

import (
	"context"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/sharing"
)

// Take decides the asks: plain ones by leases, all others by the owners of their keys.
// Several plain ones go to the owners, too, unless leases that are held cover all.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(asks) == 1 && len(out) == 1 && plain(&asks[0]) {
		if r := s.replica(asks[0].Sharing); r != nil {
			return r.take(asks, out)
		}
		key := short(asks[0].State)
		hash, place := sharing.Hash(s.seed, key)
		if lent, err := s.shards[place%shards].take(ctx, hash, key, &asks[0], &out[0]); lent {
			return err
		}
	}
	if len(asks) > 1 && s.spend(asks, out) {
		return nil
	}
	if err := record.Check("cluster", fits, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if r := s.together(asks); r != nil {
		return r.take(asks, out)
	}
	if len(asks) > 1 {
		s.expect(asks)
	}
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
	return a.Cost >= 1 && a.Cost <= weir.MaxCount && a.AtLeast == 0 && a.MaxHold == 0 && a.Receipt == 0 && !a.Peek && !a.After && !a.Once
}

// maxLimits is how many limits a shard remembers; then all are looked at anew.
const maxLimits = 1 << 10

// limits remembers which limits leases suit.
type limits struct {
	last  *weir.Limit
	lends bool // last
	known map[string]bool
}

func (l *limits) suit(limit *weir.Limit) bool {
	if limit == l.last {
		return l.lends
	}
	lends, ok := l.known[limit.String()]
	if !ok {
		if l.known == nil || len(l.known) >= maxLimits {
			l.known = map[string]bool{}
		}
		lends = sharing.Unfit(limit) == ""
		l.known[limit.String()] = lends
	}
	l.last, l.lends = limit, lends
	return lends
}
