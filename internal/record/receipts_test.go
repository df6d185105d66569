package record

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

const life = weir.Instant(15 * 60_000_000)

var plenty, slots = weir.MustParseLimit("1000000/day"), weir.MustParseLimit("100 concurrent ttl 24h")

func receiptOf(rule, key string, id uint64, now weir.Instant) *weir.Receipt {
	return &weir.Receipt{
		ID: id, State: weir.StateKey{Rule: rule, Key: key}, Limit: plenty, Cost: 1,
		Taken: now, Expires: now + life,
	}
}

func settle(r *Receipts, now weir.Instant, receipts ...*weir.Receipt) error {
	var all []weir.Settlement
	for _, receipt := range receipts {
		all = append(all, weir.Settlement{Receipt: receipt})
	}
	return r.Settle(now, all)
}

func wants(rule string) []weir.Ask {
	return []weir.Ask{{State: weir.StateKey{Rule: rule}, Limit: plenty, Cost: 1, Receipt: 1}}
}

// TestReceiptsOfOneRule: a rule of which too many receipts were settled gives out no
// new ones until they expire. Those that are out can be settled, none a second time,
// and other rules don't notice.
func TestReceiptsOfOneRule(t *testing.T) {
	const now = 1000 * minute
	r := &Receipts{PerRule: 100, InAll: 1000}
	for id := range uint64(150) { // 50 of them were out when it was full
		if err := r.Room(now, wants("flooded")); (err != nil) != (id >= 100) || err != nil && !errors.Is(err, weir.ErrFull) {
			t.Fatalf("after %d: %v", id, err)
		}
		if err := settle(r, now, receiptOf("flooded", "k", id, now)); err != nil {
			t.Fatalf("receipt %d: %v", id, err)
		}
	}
	for id := range uint64(150) {
		if err := settle(r, now+life-1, receiptOf("flooded", "k", id, now)); !errors.Is(err, weir.ErrSettled) {
			t.Fatalf("receipt %d once more: %v", id, err)
		}
	}
	if err := errors.Join(r.Room(now, wants("other")), settle(r, now, receiptOf("other", "k", 1, now))); err != nil {
		t.Errorf("another rule: %v", err)
	}
	if n, refused := r.Count(); n != 151 || refused != 50 {
		t.Errorf("%d are remembered, %d were refused, want 151 and 50", n, refused)
	}
	later := now + life + 2*minute
	_ = r.Room(later, wants("flooded")) // the clock has to say it twice
	if err := r.Room(later+minute, wants("flooded")); err != nil {
		t.Errorf("when all have expired: %v", err)
	}
	if n, _ := r.Count(); n != 0 || len(r.pages)+len(r.rules) != 0 {
		t.Errorf("%d are remembered when all have expired; %v, %v", n, r.pages, r.rules)
	}
}

// TestReceiptsHoarded: who takes more receipts than are remembered before settling
// them all can't settle one twice, nor make more be remembered.
func TestReceiptsHoarded(t *testing.T) {
	r := &Receipts{PerRule: 100, InAll: 1000}
	settled := 0
	var all []*weir.Receipt
	for id := range uint64(1000) {
		all = append(all, receiptOf("r", "k", id, 1000*minute+weir.Instant(id)*minute/100))
	}
	for range 2 {
		for _, receipt := range all {
			switch err := settle(r, 1011*minute, receipt); {
			case err == nil:
				settled++
			case !errors.Is(err, weir.ErrSettled) && !errors.Is(err, weir.ErrExpired):
				t.Fatal(err)
			}
		}
		if n, _ := r.Count(); n > 200 {
			t.Fatalf("%d are remembered", n)
		}
	}
	if settled > 1000 || settled < 200 {
		t.Errorf("%d settled of 1000", settled)
	}
}

// TestReceiptsInAll: when too many receipts are remembered, rules with fewer than
// their even part have room all the same.
func TestReceiptsInAll(t *testing.T) {
	const now = 1000 * minute
	r := &Receipts{PerRule: 100, InAll: 300}
	for id := range uint64(1000) {
		rule := fmt.Sprint("rule", id%5)
		if r.Room(now, wants(rule)) == nil {
			if err := settle(r, now, receiptOf(rule, "k", id, now)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, _ := r.Count(); n < 300 || n > 310 {
		t.Errorf("%d are remembered, want about 300", n)
	}
	if err := r.Room(now, wants("new")); err != nil {
		t.Errorf("a rule without any: %v", err)
	}
}

// TestReceiptsWorkOnce: whatever happens to clocks, and however full it is, no receipt
// is settled twice; a permit is never remembered.
func TestReceiptsWorkOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Receipts{PerRule: 10, InAll: 15}
		now, done := 1000*minute, map[weir.Receipt]bool{}
		var out []*weir.Receipt
		for id := range rapid.Uint64Range(1, 80).Draw(t, "steps") {
			steps := []weir.Instant{0, 1, minute / 2, minute, 20 * minute, -minute, -30 * minute}
			step := rapid.SampledFrom(steps).Draw(t, "step")
			now = max(now+step, 0)
			rule := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule")
			if r.Room(now, wants(rule)) == nil {
				out = append(out, receiptOf(rule, "x", id, now), receiptOf(rule, "y", id, now))
			}
			for range 3 {
				if len(out) == 0 {
					break
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "receipt")
				if err := settle(r, now, out[i]); err == nil && now < out[i].Expires {
					if done[*out[i]] {
						t.Fatalf("at %d, %+v is settled twice", now, *out[i])
					}
					done[*out[i]] = true
				}
			}
			permit := receiptOf(rule, "x", 1<<40, now)
			permit.Limit = slots
			before, _ := r.Count()
			if err := settle(r, now, permit); err != nil {
				t.Fatal(err)
			}
			if n, _ := r.Count(); n > 40 || n != before {
				t.Fatalf("%d are remembered, %d before", n, before)
			}
		}
	})
}

// TestReceiptTwiceInOneCall: a receipt works once in one call, too, and is counted once,
// so that the book is empty when all have expired.
func TestReceiptTwiceInOneCall(t *testing.T) {
	const now = 1000 * minute
	r := &Receipts{}
	a, b := receiptOf("r", "k", 1, now), receiptOf("r", "k", 2, now)
	if err := settle(r, now, a, b, a); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("twice in one call: %v, want ErrSettled", err)
	}
	if err := settle(r, now, a, b); err != nil {
		t.Error(err)
	}
	for _, at := range []weir.Instant{now + 2*life, now + 3*life} {
		if err := r.Room(at, wants("r")); err != nil {
			t.Error(err)
		}
	}
	if n, _ := r.Count(); n != 0 {
		t.Errorf("%d are remembered when all have expired", n)
	}
}

// TestReceiptsAndAClockAhead: a clock that is ahead for a moment forgets nothing, and
// receipts of afterwards can be settled.
func TestReceiptsAndAClockAhead(t *testing.T) {
	const now = 1000 * minute
	r, receipt := &Receipts{}, receiptOf("r", "k", 1, now)
	if err := settle(r, now, receipt); err != nil {
		t.Fatal(err)
	}
	if err := r.Room(now+1000*minute, wants("r")); err != nil {
		t.Fatal(err)
	}
	if err := settle(r, now+minute, receipt); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
	if err := settle(r, now+minute, receiptOf("r", "k", 2, now+minute)); err != nil {
		t.Errorf("a receipt of afterwards: %v", err)
	}
}
