package record

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// Apart is a store that decides asks of one placement and key at one moment, but
// no others.
type Apart struct {
	// Take decides asks of one placement and key, as weir.Store does.
	Take func(asks []weir.Ask, out []weir.Decision) error
	// Settle settles receipts of one take, for what is given back.
	Settle func(ctx context.Context, settlements []weir.Settlement) error
}

// giveBackTime is how long it may take to give back what one placement and key
// has charged. The caller waits for it, unless it has left already.
const giveBackTime = 50 * time.Millisecond

var errOnce = &AskError{errors.New("this store charges a take once only when all of it is of one descriptor and key; ask for each by itself")}

// group is the asks of one placement and key, by their index in the take.
type group struct {
	at   []int           // of each of its asks, the index in the take
	asks []weir.Ask      // copies
	out  []weir.Decision // by its asks; nil before it was taken
}

// Groups says whether asks are of more than one placement or key.
func Groups(asks []weir.Ask) bool {
	return slices.ContainsFunc(asks, func(a weir.Ask) bool { return !together(asks[0].State, a.State) })
}

func together(a, b weir.StateKey) bool { return Place(a) == Place(b) }

// Place is what counts that are decided together have alike.
func Place(k weir.StateKey) weir.StateKey { return weir.StateKey{Rule: k.Placement(), Key: k.Key} }

// Cut takes those off that are of the same part as the first.
func Cut[T any, P comparable](all []T, part func(T) P) (first, rest []T) {
	of := part(all[0])
	for _, t := range all {
		if part(t) == of {
			first = append(first, t)
		} else {
			rest = append(rest, t)
		}
	}
	return first, rest
}

// PlaceOf is the Place of a settlement's receipt.
func PlaceOf(s weir.Settlement) weir.StateKey { return Place(s.Receipt.State) }

// SettleApart settles receipts of one take part by part, as part tells those apart that settle can settle
// together. It is done when some of them were settled now, and the others before; else it says why
// none was. A failure of the store ends it: asked again, it goes on where it was. Charged is filled in of
// those that were settled now, also where it fails then, and settle must do the same.
func SettleApart[P comparable](all []weir.Settlement, part func(weir.Settlement) P, settle func([]weir.Settlement) error) error {
	done, refused := false, error(nil)
	for rest := all; len(rest) > 0; {
		var first []weir.Settlement
		first, rest = Cut(rest, part)
		err := settle(first)
		tellCharged(all, first)
		switch {
		case err == nil:
			done = true
		case !Answers(err):
			return err
		case refused == nil || errors.Is(err, weir.ErrExpired):
			refused = err // an expired permit says more than a limit that has none
		}
	}
	if done {
		return nil
	}
	return refused
}

// SettleCopy settles a copy, and fills in Charged only if that was done: a store may work on what it was
// given before it fails, and longer than its caller waits.
func SettleCopy(part []weir.Settlement, settle func([]weir.Settlement) error) error {
	own := slices.Clone(part)
	if err := settle(own); err != nil {
		return err
	}
	copy(part, own)
	return nil
}

// Answers is whether an error answers a settlement, and is no failure of the store.
func Answers(err error) bool {
	return errors.Is(err, weir.ErrSettled) || errors.Is(err, weir.ErrExpired) || errors.Is(err, weir.ErrNoPermit)
}

// tellCharged fills in what was charged for a part that Cut took off all.
func tellCharged(all, part []weir.Settlement) {
	for i := range part {
		for j := range all {
			if all[j].Receipt == part[i].Receipt {
				all[j].Charged = part[i].Charged
			}
		}
	}
}

// TakeAll takes asks of several placements so that never more passes than any
// limit lets: it looks first whether all pass, charges one placement after the
// other, and gives back what it has charged when one of them denies after all.
// Other takes may be denied meanwhile, for events that are then given back. A take that wants to
// charge once is refused: each part remembers its own first answer, and would give it again though
// what it charged went back.
func (s Apart) TakeAll(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if slices.ContainsFunc(asks, func(a weir.Ask) bool { return a.ChargesOnce() }) {
		return errOnce
	}
	own := slices.Clone(asks)
	for i := range own {
		own[i].Evidence = nil // they are decided at several moments, and some twice
	}
	if asks[0].Receipt != 0 {
		return s.takeAll(ctx, asks, own, out, asks[0].Receipt)
	}
	err := s.takeAll(ctx, asks, own, out, rand.Uint64()|1)
	for i := range out {
		out[i].Receipt = nil
	}
	return err
}

// takeAll works on a copy of what was asked: look decides about quotas, and leaves them out.
func (s Apart) takeAll(ctx context.Context, asked, asks []weir.Ask, out []weir.Decision, id uint64) error {
	pass, err := s.look(asks, out)
	if err != nil {
		return err
	}
	for i := range asks {
		if !asks[i].After {
			asks[i].Receipt = id
		}
	}
	groups := gather(asks, func(i int) bool { return !asks[i].Peek && out[i].Charged })
	// Reports of work that is done come first: they are charged in any case, and only then
	// is it known whether a next event would pass.
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.reports(), a.reports()) })
	done := groups[:0:0]
	for g := range groups {
		if !pass && groups[g].reports() == 0 {
			break
		}
		if err := s.take(&groups[g]); err != nil {
			return s.giveBack(ctx, done, out, err)
		}
		done = append(done, groups[g])
		groups[g].tell(out)
		if groups[g].passes() || groups[g].spares(asked, out) {
			continue
		}
		groups[g].denyQuotas(asked, out)
		pass = false
		if err := s.giveBack(ctx, done, out, nil); err != nil {
			return err
		}
	}
	if !pass {
		if err := s.refuse(ctx, asks, out); err != nil {
			return err
		}
	}
	return nil
}

// look fills out with what each limit says, and Charged with what would be
// charged.
func (s Apart) look(asks []weir.Ask, out []weir.Decision) (pass bool, err error) {
	groups := gather(asks, func(int) bool { return true })
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for g := range groups {
		wg.Go(func() {
			for i := range groups[g].asks {
				a := &groups[g].asks[i]
				a.Once, a.Receipt = false, 0
				a.Peek = true
			}
			errs[g] = s.take(&groups[g])
		})
	}
	wg.Wait()
	for g := range groups {
		if errs[g] != nil {
			return false, errs[g]
		}
		groups[g].tell(out)
	}
	pass = weir.Resolve(asks, out)
	for i := range asks {
		// Quota and AtLeast have been decided: an ask now costs as much as it was granted.
		a := &asks[i]
		a.Quota = false
		if a.AtLeast > 0 && out[i].Charged {
			a.Cost, a.AtLeast = out[i].Cost, 0
		}
	}
	return pass, nil
}

func gather(asks []weir.Ask, wanted func(i int) bool) []group {
	var groups []group
	for i := range asks {
		if !wanted(i) {
			continue
		}
		g := slices.IndexFunc(groups, func(g group) bool { return together(g.asks[0].State, asks[i].State) })
		if g < 0 {
			g = len(groups)
			groups = append(groups, group{})
		}
		groups[g].at, groups[g].asks = append(groups[g].at, i), append(groups[g].asks, asks[i])
	}
	return groups
}

func (s Apart) take(g *group) error {
	g.out = make([]weir.Decision, len(g.asks))
	return s.Take(g.asks, g.out)
}

func (g *group) tell(out []weir.Decision) {
	for i, at := range g.at {
		out[at] = g.out[i]
	}
}

// reports is 1 for a group with a report of work that is done, else 0.
func (g *group) reports() int {
	if slices.ContainsFunc(g.asks, func(a weir.Ask) bool { return a.After }) {
		return 1
	}
	return 0
}

// passes is whether all that the group asked for with a say allows.
func (g *group) passes() bool {
	for i := range g.asks {
		if a := &g.asks[i]; !a.Shadow && g.out[i].Outcome != weir.Allowed {
			return false
		}
	}
	return true
}

// spares is whether others can do without a group that denies after all: it is of quotas, and another quota allows.
func (g *group) spares(asks []weir.Ask, out []weir.Decision) bool {
	if slices.ContainsFunc(g.at, func(at int) bool { return !asks[at].Quota }) {
		return false
	}
	for _, at := range g.at {
		g.deny(&out[at]) // nothing of the group is charged
	}
	return weir.QuotaPasses(asks, out)
}

// denyQuotas has no quota allow what is not charged, as the group denies.
func (g *group) denyQuotas(asks []weir.Ask, out []weir.Decision) {
	for i := range asks {
		if asks[i].Quota {
			g.deny(&out[i])
		}
	}
}

// deny has a decision deny for as long as the group does.
func (g *group) deny(d *weir.Decision) {
	if d.Outcome != weir.Allowed {
		return
	}
	d.Outcome = weir.Denied
	for i := range g.out {
		d.RetryAfter = max(d.RetryAfter, g.out[i].RetryAfter)
	}
}

// giveBack gives back what the groups have charged. It returns failed, or why
// that could not be done.
func (s Apart) giveBack(ctx context.Context, groups []group, out []weir.Decision, failed error) error {
	for _, g := range groups {
		var all []weir.Settlement
		for i, at := range g.at {
			if d := &out[at]; d.Charged && d.Receipt != nil && !g.asks[i].After {
				all = append(all, weir.Settlement{Receipt: d.Receipt})
				d.Charged, d.Receipt = false, nil
				d.Remaining += d.Cost
			}
		}
		if len(all) == 0 {
			continue
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		if err := s.Settle(within, all); err != nil && failed == nil {
			failed = err
		}
		cancel()
	}
	return failed
}

// refuse lets limits that count what they deny know of it.
func (s Apart) refuse(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		out[i].Charged = out[i].Charged && asks[i].After
		if !asks[i].Limit.DenialCounts() || asks[i].Peek || out[i].Outcome != weir.Denied || asks[i].After {
			continue
		}
		denied := out[i]
		g := group{at: []int{i}, asks: asks[i : i+1]}
		if err := s.take(&g); err != nil {
			return err
		}
		g.tell(out)
		if err := s.giveBack(ctx, []group{g}, out, nil); err != nil {
			return err
		}
		if out[i].Outcome == weir.Allowed && asks[i].AtLeast > 0 {
			out[i] = denied // by what others were granted, not by its limit
		}
	}
	return nil
}
