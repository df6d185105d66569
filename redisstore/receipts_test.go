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
