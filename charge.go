package weir

import (
	"context"
	"fmt"
)

// Settler settles receipts as a Store does.
type Settler interface {
	Settle(ctx context.Context, settlements []Settlement) error
}

// Charge is what one request was charged: the receipts of a take, and where they are
// settled. A receipt works once, so a Charge ends with Settle or GiveBack. The zero Charge
// is of nothing.
type Charge struct {
	at       Settler    // the store of the take, or what stands before it
	receipts []*Receipt // of one take, all different; their order is that of Settle's used
}

// NewCharge makes a Charge of receipts of one take, each of them once.
func NewCharge(at Settler, receipts []*Receipt) Charge { return Charge{at, receipts} }

// UsedError says what is wrong with the costs that a charge was to be settled for: there is
// not one for each receipt, or one is out of range. The store was not asked.
type UsedError struct {
	Text string // goes on from the word used
}

func (e *UsedError) Error() string { return "used: " + e.Text }

// Settle says what the work behind the charge really cost: used[i] of the i-th receipt. Less
// than was charged gives back what is still outstanding, more is charged whole, even beyond
// the limit, and permits are freed. charged is what is then counted: see Settlement.Charged. It fails with a *UsedError,
// and as Store.Settle.
func (c Charge) Settle(ctx context.Context, used []int64) (charged []int64, err error) {
	if err := c.fits(used); err != nil {
		return nil, err
	}
	if len(used) == 0 {
		return nil, nil
	}
	all := make([]Settlement, len(c.receipts))
	for i, r := range c.receipts {
		all[i] = Settlement{Receipt: r, Used: used[i]}
	}
	if err := c.at.Settle(ctx, all); err != nil {
		return nil, err
	}
	charged = make([]int64, len(all))
	for i := range all {
		charged[i] = all[i].Charged
	}
	return charged, nil
}

// fits fails with a *UsedError when used can't be what the receipts cost.
func (c Charge) fits(used []int64) error {
	if len(used) != len(c.receipts) {
		return &UsedError{fmt.Sprintf("there are %d, for %d receipts", len(used), len(c.receipts))}
	}
	for _, n := range used {
		if n < 0 || n > MaxCost {
			return &UsedError{fmt.Sprintf("is %d; it must be 0…%d", n, int64(MaxCost))}
		}
	}
	return nil
}

// GiveBack settles the charge for nothing used, as for a request that was denied
// elsewhere or never sent. Events that are no longer outstanding stay charged, and that is no
// error.
func (c Charge) GiveBack(ctx context.Context) error {
	_, err := c.Settle(ctx, make([]int64, len(c.receipts)))
	return err
}

// Renew extends the permits among the receipts by their ttl; all receipts stay good. It
// fails with ErrNoPermit when there are none.
func (c Charge) Renew(ctx context.Context) error {
	permits := Charge{at: c.at}
	for _, r := range c.receipts {
		if r.Permit() {
			permits.receipts = append(permits.receipts, r)
		}
	}
	if len(permits.receipts) == 0 {
		return ErrNoPermit
	}
	return permits.renewAll(ctx)
}

// renewAll renews receipts of one placement, among which one is a permit. A store tells
// by the others that a charge was settled: a permit that was freed it has forgotten.
func (c Charge) renewAll(ctx context.Context) error {
	all := make([]Settlement, len(c.receipts))
	for i, r := range c.receipts {
		all[i] = Settlement{Receipt: r, Renew: true}
	}
	return c.at.Settle(ctx, all)
}
