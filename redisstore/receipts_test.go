package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestFreedPermitsTakeNoKeys: a freed permit tells by itself that it was, and takes
// no key for as long as it would have lived.
func TestFreedPermitsTakeNoKeys(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	s := New(client, Options{Prefix: "permits:"})
	asks := asksOf("5 concurrent ttl 24h", "k")
	for id := range uint64(20) {
		asks[0].Receipt = id + 1
		one := []weir.Settlement{{Receipt: take(t, s, asks).Receipt}}
		if err := s.Settle(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), one); !errors.Is(err, weir.ErrSettled) {
			t.Fatalf("freed twice: %v", err)
		}
	}
	for key := range ttls(t, client, "permits:") {
		if strings.Contains(key, "settled") {
			t.Fatalf("%s is there", key)
		}
	}
}

// TestSettledFlood: a process settles only so many receipts of a rule, each of which
// takes a key in Redis, and gives out no more then. Other rules don't notice.
func TestSettledFlood(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	s := New(client, Options{Prefix: "flood:"})
	s.receipts.PerRule, s.receipts.InAll = 10, 100
	asks := asksOf("1000/day", "k")
	for id := range uint64(10) {
		asks[0].Receipt = id + 1
		if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: take(t, s, asks).Receipt}}); err != nil {
			t.Fatal(err)
		}
	}
	asks[0].Receipt = 100
	if err := s.Take(t.Context(), asks, make([]weir.Decision, 1)); !errors.Is(err, weir.ErrFull) {
		t.Errorf("an eleventh: %v", err)
	}
	if st := s.Stats(); st.Refused != 1 || st.Settled != 10 {
		t.Errorf("%+v", st)
	}
	asks[0].State.Rule = "other#1"
	if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: take(t, s, asks).Receipt}}); err != nil {
		t.Errorf("another rule: %v", err)
	}
}

// TestGivenBackInOneCall: a count of which something was given back costs one script call a take, as others do,
// but for the first: pace.lua leaves it alone.
func TestGivenBackInOneCall(t *testing.T) {
	s := New(connect(t, redistest.Start(t).Addr), Options{Prefix: "odd:"})
	asks := asksOf("1000/day", "k")
	asks[0].Cost, asks[0].Receipt = 50, 1
	if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: take(t, s, asks).Receipt, Used: 10}}); err != nil {
		t.Fatal(err)
	}
	asks[0].Cost, asks[0].Receipt = 1, 0
	before := s.Stats().Calls
	for n := range int64(20) {
		if d := take(t, s, asks); d.Remaining != 989-n {
			t.Fatalf("%+v after %d", d, n)
		}
	}
	if calls := s.Stats().Calls - before; calls != 21 {
		t.Errorf("%d calls", calls)
	}
}
