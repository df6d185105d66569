package logstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/storetest"
)

// alone is a store without a log, whose clock the suite sets.
type alone struct {
	*Store

	mu   *sync.Mutex
	when **weir.Instant
}

func (a alone) at(now weir.Instant, do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.when = &now
	defer func() { *a.when = nil }()
	return do()
}

func (a alone) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	return a.at(now, func() error { return a.Take(context.Background(), asks, out) })
}

func (a alone) SettleAt(now weir.Instant, all []weir.Settlement) error {
	return a.at(now, func() error { return a.Settle(context.Background(), all) })
}

func (a alone) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	return a.at(now, func() error { return a.Reset(context.Background(), keys) })
}

// TestStore: one process keeps the contract of weir.Store. Its marks of receipts are coarser than others', because
// its buckets have room for what other processes let pass beyond the burst.
func TestStore(t *testing.T) {
	stores := map[string]alone{}
	storetest.Run(t, "../../../../testdata/vectors", func(t testing.TB, name string) storetest.Clocked {
		if s, ok := stores[name]; ok {
			return s
		}
		s, err := Dial("kafka://nobody:1/weir?node=a")
		if err != nil {
			t.Fatal(err)
		}
		s.reading.caught.Store(true)
		s.began = s.began.Add(time.Hour) // as if beats came
		when := new(*weir.Instant)
		real := s.now
		s.now = func() weir.Instant {
			if at := *when; at != nil {
				return *at
			}
			return real()
		}
		stores[name] = alone{s, new(sync.Mutex), when}
		return stores[name]
	}, storetest.Options{Coarse: true})
}
