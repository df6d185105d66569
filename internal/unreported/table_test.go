package unreported_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/unreported"
)

// count is the usage of one key.
type count struct {
	unreported.Entry
	unreported.Usage
}

// store is what reports come to.
type store struct {
	table unreported.Table[*count]
	heard []string      // reports, each as its keys and costs
	slow  time.Duration // for so long it does not answer
	err   error
}

func newStore() *store {
	s := new(store)
	s.table.New = func() *count { return new(count) }
	s.table.Take = s.take
	s.table.Traits = func() weir.Traits { return weir.Traits{Atomic: true} }
	s.table.Begin = func(c *count, _ time.Time) (weir.Ask, bool) {
		if c.Pending == 0 {
			return weir.Ask{}, false
		}
		return weir.Ask{State: c.Key, Cost: c.Send(c.Pending)}, true
	}
	s.table.End = func(c *count, a unreported.Answer) {
		if a.Err != nil {
			c.Return()
		} else {
			c.Confirm()
		}
	}
	s.table.Init()
	return s
}

func (s *store) take(_ context.Context, asks []weir.Ask, _ []weir.Decision) error {
	text := ""
	for _, a := range asks {
		text += fmt.Sprintf("%s %d ", a.State.Key, a.Cost)
	}
	s.heard = append(s.heard, text)
	time.Sleep(s.slow)
	return s.err
}

// use lets events of keys pass.
func (s *store) use(t *testing.T, events int64, keys ...string) (all []*count) {
	t.Helper()
	for _, k := range keys {
		c, ok := s.table.Add(weir.StateKey{Key: k})
		if !ok {
			t.Fatalf("no room for %s", k)
		}
		c.Pending += events
		c.Unlock()
		all = append(all, c)
	}
	return all
}

func (s *store) wants(t *testing.T, heard ...string) {
	t.Helper()
	if !slices.Equal(s.heard, heard) {
		t.Errorf("the store heard %q, want %q", s.heard, heard)
	}
}

// TestReport: a report tells of many keys at once. What a failed one told is told again, with what
// passed meanwhile. A key without usage is dropped, and begins anew.
func TestReport(t *testing.T) {
	s := newStore()
	all := s.use(t, 3, "a", "b")
	s.err = errors.New("connection refused")
	if err := s.table.Report(t.Context(), all); !errors.Is(err, s.err) {
		t.Errorf("%v", err)
	}
	s.err = nil
	s.use(t, 2, "b")
	for range 2 {
		if err := s.table.Report(t.Context(), all); err != nil {
			t.Error(err)
		}
	}
	s.wants(t, "a 3 b 3 ", "a 3 b 5 ")
	if n := s.table.Len(); n != 0 || !all[0].Dropped() {
		t.Errorf("%d keys are kept without usage", n)
	}
	if again := s.use(t, 1, "a"); again[0] == all[0] {
		t.Error("an entry that was dropped is used")
	}
}

// TestReportsOfOneKey: a key is in one report at a time. Another that wants it waits for that, as
// long as its caller does, and so does whoever waits for the answer. What passes meanwhile is in
// the next report.
func TestReportsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.slow = time.Second
		all := s.use(t, 3, "a")
		all[0].Lock()
		answer := all[0].Answer()
		all[0].Unlock()
		go func() { _ = s.table.Report(context.Background(), all) }() // it is the one that is under way
		synctest.Wait()
		s.use(t, 4, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.table.Report(ctx, all); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: %v", err)
		}
		began := time.Now()
		if err := s.table.Report(t.Context(), all); err != nil || time.Since(began) != s.slow-time.Millisecond {
			t.Errorf("it waited for %v; %v", time.Since(began), err)
		}
		<-answer
		s.wants(t, "a 3 ")
		all[0].Lock()
		if n := all[0].Events(); n != 4 || all[0].Awaited() {
			t.Errorf("%d events are unreported, want 4", n)
		}
		all[0].Unlock()
		s.err = errors.New("connection refused")
		go func() { _ = s.table.Report(context.Background(), all) }() // fails
		synctest.Wait()
		if err := s.table.Report(t.Context(), all); !errors.Is(err, s.err) {
			t.Errorf("it waited for a report that failed: %v", err)
		}
		s.err = nil
		if err := s.table.Report(t.Context(), all); err != nil {
			t.Error(err)
		}
		s.wants(t, "a 3 ", "a 4 ", "a 4 ")
	})
}

// TestNewEntries: an entry that was just made is seen by others only when its maker has filled it in.
func TestNewEntries(t *testing.T) {
	s := newStore()
	for n := range 20_000 {
		k := weir.StateKey{Key: fmt.Sprint(n)}
		var g sync.WaitGroup
		g.Go(func() {
			for {
				if c, ok := s.table.Find(k); ok {
					if c.Pending == 0 {
						t.Errorf("%s is seen empty", k.Key)
					}
					c.Unlock()
					return
				}
			}
		})
		s.use(t, 1, k.Key)
		g.Wait()
	}
}

// TestMaxKeys: a full table has no room for another key, until one is dropped.
func TestMaxKeys(t *testing.T) {
	s := newStore()
	for n := range unreported.MaxKeys {
		s.use(t, 1, fmt.Sprint(n))
	}
	more := weir.StateKey{Key: "more"}
	if _, ok := s.table.Add(more); ok || s.table.Len() != unreported.MaxKeys {
		t.Errorf("there is room for %d", s.table.Len())
	}
	if near := s.table.Near(more, 16); len(near) != 16 {
		t.Errorf("%d keys are near", len(near))
	}
	c, ok := s.table.Find(weir.StateKey{Key: "7"})
	if !ok {
		t.Fatal("a key is not there")
	}
	s.table.Drop(c)
	c.Unlock()
	s.use(t, 1, "more")
	if all := s.table.All(func(*count) bool { return true }); len(all) != unreported.MaxKeys {
		t.Errorf("%d keys", len(all))
	}
}
