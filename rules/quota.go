package rules

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weir-limit/weir"
)

// Limits in Envoy's quota mode deny a request only when all quota limits of the
// request deny it. A store knows no such rule. A single quota limit is like any
// other; of several, each is asked without a say, and when all of them deny,
// what the others were charged is given back: for a moment they may deny
// somebody else too early, and they never let anybody through.

// loosenQuotas takes the say from quota limits, where there are several.
func (t *take) loosenQuotas() {
	if t.quota < 2 {
		return
	}
	back := t.id
	if back == 0 {
		back = rand.Uint64() | 1
	}
	for i := range t.asks {
		if t.rules[i].QuotaMode {
			t.asks[i].Shadow = true
		} else {
			t.asks[i].Receipt = back
		}
	}
}

// judgeQuotas gives the say back: to all quota limits when all of them deny,
// else to those that allow.
func (t *take) judgeQuotas(ctx context.Context, store weir.Store) error {
	if t.quota < 2 {
		return nil
	}
	deny := true
	for i, rule := range t.rules {
		if rule.QuotaMode {
			// Envoy takes one in shadow mode for one that allows.
			deny = deny && !rule.Shadow && t.out[i].Outcome != weir.Allowed
		}
	}
	for i, rule := range t.rules {
		if rule.QuotaMode && !rule.Shadow {
			t.asks[i].Shadow = !deny && t.out[i].Outcome != weir.Allowed
		}
	}
	var back []weir.Settlement
	for i := range t.out {
		d := &t.out[i]
		if d.Receipt == nil {
			continue
		}
		if deny {
			back = append(back, weir.Settlement{Receipt: d.Receipt})
			d.Charged = false
			d.Remaining += d.Cost
		}
		if deny || t.id == 0 {
			d.Receipt = nil
		}
	}
	if back == nil {
		return nil
	}
	if err := store.Settle(ctx, back); err != nil {
		return fmt.Errorf("give back what a request was charged that quotas deny: %w", err)
	}
	return nil
}
