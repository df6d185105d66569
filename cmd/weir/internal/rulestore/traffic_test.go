package rulestore

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// testTraffic: what nodes count is added up in each grain, by whatever order they tell it, each grain is kept for its time, and a chart
// takes the finest that is.
func testTraffic(t *testing.T, s *Store) {
	ctx := t.Context()
	now := time.Now().Truncate(time.Hour).Add(30 * time.Minute)
	user := Traffic{Domain: "shop", Rule: "shop/user"}
	var told []Traffic
	for minute := range 40 { // the last 40 minutes
		one := user
		one.At, one.Passed, one.Denied = now.Add(-time.Duration(minute)*time.Minute), 2, 1
		told = append(told, one)
	}
	for _, ago := range []time.Duration{5 * time.Hour, 3 * 24 * time.Hour, 29 * 24 * time.Hour, 40 * 24 * time.Hour} {
		one := user
		one.At, one.Passed = now.Add(-ago), 100
		told = append(told, one)
	}
	for i := range 1200 { // more than a batch
		told = append(told, Traffic{Domain: "many", Rule: fmt.Sprint("many/", i), Shadow: i%2 == 0, At: now, Passed: int64(i)})
	}
	const nodes = 3
	var all sync.WaitGroup
	for node := range nodes {
		all.Go(func() {
			mine := append([]Traffic(nil), told[node:]...)
			mine = append(mine, told[:node]...)
			if err := s.AddTraffic(ctx, mine); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	sum := func(of Traffic, span time.Duration) (step time.Duration, n int, passed, denied int64) {
		t.Helper()
		step, list, err := s.Traffic(ctx, of, span, now)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range list {
			if i > 0 && !x.At.After(list[i-1].At) || !x.At.Equal(x.At.Truncate(step)) {
				t.Error(x)
			}
			passed, denied = passed+x.Passed, denied+x.Denied
		}
		return step, len(list), passed, denied
	}
	check := func(when string) {
		t.Helper()
		for _, want := range []struct {
			span, step     time.Duration
			n              int
			passed, denied int64
		}{
			{15 * time.Minute, 10 * time.Second, 16, 16 * 2 * nodes, 16 * nodes},
			{time.Hour, 10 * time.Second, 40, 40 * 2 * nodes, 40 * nodes},
			{24 * time.Hour, 2 * time.Minute, 22, (40*2 + 100) * nodes, 40 * nodes},
			{7 * 24 * time.Hour, time.Hour, 4, (40*2 + 200) * nodes, 40 * nodes},
			{30 * 24 * time.Hour, time.Hour, 5, (40*2 + 300) * nodes, 40 * nodes},
		} {
			if step, n, passed, denied := sum(user, want.span); step != want.step || n != want.n || passed != want.passed || denied != want.denied {
				t.Errorf("%s, %v: %d of %v, %d passed, %d denied", when, want.span, n, step, passed, denied)
			}
		}
	}
	check("told")
	if err := s.ForgetTraffic(ctx, now); err != nil {
		t.Fatal(err)
	}
	check("and what is too old forgotten")
	if n, err := count(ctx, s.read, "traffic", " WHERE domain = 'shop'"); err != nil || n != 40+22+5 {
		t.Error(n, "rows", err)
	}
	if _, n, passed, _ := sum(Traffic{Domain: "many", Rule: "many/1199"}, time.Hour); n != 1 || passed != 1199*nodes {
		t.Error(n, passed)
	}
	if _, n, _, _ := sum(Traffic{Domain: "many", Rule: "many/1199", Shadow: true}, time.Hour); n != 0 {
		t.Error("what is in shadow is taken for what is enforced")
	}
	if err := s.ForgetTraffic(ctx, now.Add(32*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n, err := count(ctx, s.read, "traffic", ""); err != nil || n != 0 {
		t.Error(n, "rows after a month,", err)
	}
}
