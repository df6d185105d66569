package unreported_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
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
	bad   string // a key that it refuses
	why   error
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

func (s *store) take(ctx context.Context, asks []weir.Ask, _ []weir.Decision) error {
	text, err := "", s.err
	for _, a := range asks {
		text += fmt.Sprintf("%s %d ", a.State.Key, a.Cost)
		if a.State.Key == s.bad {
			err = s.why
		}
	}
	s.heard = append(s.heard, text)
	select {
	case <-time.After(s.slow):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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

// background reports entries, in a goroutine.
func (s *store) background(ctx context.Context, entries []*count) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- s.table.Report(ctx, entries) }()
	synctest.Wait()
	return ended
}

// TestReportsOfOneKey: a key is in one report at a time. Another report waits for that, as long as
// its caller does, and so does whoever waits for the answer. It then tells what passed meanwhile.
func TestReportsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.slow = time.Second
		all := s.use(t, 3, "a")
		all[0].Lock()
		answer := all[0].Answer()
		all[0].Unlock()
		s.background(t.Context(), all)
		s.use(t, 4, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.table.Report(ctx, all); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: %v", err)
		}
		began := time.Now()
		if err := s.table.Report(t.Context(), all); err != nil || time.Since(began) != 2*s.slow-time.Millisecond {
			t.Errorf("it waited for %v; %v", time.Since(began), err)
		}
		<-answer
		s.wants(t, "a 3 ", "a 4 ")
		all[0].Lock()
		if n := all[0].Events(); n != 0 || all[0].Awaited() {
			t.Errorf("%d events are unreported", n)
		}
		all[0].Unlock()
	})
}

// TestReportsThatWait: of many callers that wait for a report of a key, one tells what that has left,
// or could not tell. The others end as that one does.
func TestReportsThatWait(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		first, then error
		heard       []string
	}{
		"heard":      {nil, nil, []string{"a 3 ", "a 4 "}},
		"failed":     {refused, nil, []string{"a 3 ", "a 7 "}},
		"both fail":  {refused, refused, []string{"a 3 ", "a 7 "}},
		"later only": {nil, refused, []string{"a 3 ", "a 4 "}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.slow, s.err = time.Second, c.first
				all := s.use(t, 3, "a")
				first := s.background(t.Context(), all)
				s.use(t, 4, "a")
				s.err = c.then
				var others []chan error
				for range 5 {
					others = append(others, s.background(t.Context(), all))
				}
				if err := <-first; !errors.Is(err, c.first) {
					t.Errorf("the first ended with %v", err)
				}
				for _, other := range others {
					if err := <-other; !errors.Is(err, c.then) {
						t.Errorf("one that waited ended with %v, want %v", err, c.then)
					}
				}
				s.wants(t, c.heard...)
			})
		})
	}
}

// TestCallersLeave: a report whose caller leaves fails none that waits for it.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.slow = time.Second
		all := s.use(t, 3, "a")
		ctx, leave := context.WithCancel(t.Context())
		first := s.background(ctx, all)
		other := s.background(t.Context(), all)
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left: %v", err)
		}
		if err := <-other; err != nil {
			t.Errorf("the caller that stayed: %v", err)
		}
		s.wants(t, "a 3 ", "a 3 ")
	})
}

// TestBadKey: a key that the store refuses fails no other in its report, and is the only one that is
// lost.
func TestBadKey(t *testing.T) {
	for _, why := range []error{
		&record.CountError{Err: errors.New("it holds no count")},
		&record.AskError{Err: errors.New("it keeps no such limit")},
	} {
		s := newStore()
		s.bad, s.why = "b", why
		all := s.use(t, 3, "a", "b", "c")
		if err := s.table.Report(t.Context(), all); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		s.wants(t, "a 3 b 3 c 3 ", "a 3 ", "b 3 ", "c 3 ")
		if err := s.table.ReportAll(t.Context(), s.left); !lost(err, 1) || !errors.Is(err, why) {
			t.Errorf("%v, want one lost key", err)
		}
	}
}

// left is the entries with usage.
func (s *store) left() []*count {
	return s.table.All(func(c *count) bool {
		c.Lock()
		defer c.Unlock()
		return c.Events() > 0
	})
}

// lost is whether err says that the usage of so many keys is lost.
func lost(err error, keys int) bool {
	return errors.Is(err, weir.ErrAway) && strings.Contains(err.Error(), fmt.Sprintf("is lost (keys: %d)", keys))
}

// TestUsageWhileReporting: what passes while a process reports the last time is lost, and it says so.
func TestUsageWhileReporting(t *testing.T) {
	s := newStore()
	s.use(t, 3, "a", "b")
	s.table.Take = func(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
		s.use(t, 1, "b")
		return s.take(ctx, asks, out)
	}
	if err := s.table.ReportAll(t.Context(), s.left); !lost(err, 1) {
		t.Errorf("%v, want one lost key", err)
	}
	s.table.Take = s.take
	if err := s.table.ReportAll(t.Context(), s.left); err != nil {
		t.Error(err)
	}
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
