package pacing

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

// TestBudget holds the budget against a list of all that happened: in no 9 seconds
// (of 10 counted in whole ones) are there more retries than it says, and none is
// refused that would fit into 10.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		var b budget
		var calls, retries []time.Duration
		in := func(all []time.Duration, now, last time.Duration) (n int) {
			for _, d := range all {
				if d > now-last {
					n++
				}
			}
			return n
		}
		now := time.Duration(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 500).Draw(t, "ms")) * time.Millisecond
			if rapid.Bool().Draw(t, "call") {
				b.call(at(now))
				calls = append(calls, now)
				continue
			}
			before := retries
			if b.retry(at(now), percent) {
				retries = append(retries, now)
			}
			passed := len(retries) > len(before)
			if most := freeRetries + in(calls, now, 10*time.Second)*percent/100; passed && in(before, now, 9*time.Second) >= most {
				t.Fatalf("at %v: a retry passes beside %v, with %d calls", now, before, len(calls))
			}
			if least := freeRetries + in(calls, now, 9*time.Second)*percent/100; !passed && in(before, now, 10*time.Second) < least {
				t.Fatalf("at %v: a retry is refused beside %v, with %d calls", now, before, len(calls))
			}
		}
	})
}

// TestBudgetClockStepsBack: no retry comes free by it.
func TestBudgetClockStepsBack(t *testing.T) {
	var b budget
	for i := range freeRetries {
		if !b.retry(at(time.Minute-time.Duration(i)*time.Second), 10) {
			t.Fatal(i)
		}
	}
	for _, d := range []time.Duration{time.Minute, 0, -time.Hour, 69 * time.Second} {
		if b.retry(at(d), 10) {
			t.Errorf("%v: one more", d)
		}
	}
	if !b.retry(at(70*time.Second), 10) {
		t.Error("the budget does not come back")
	}
}

// TestQueue holds the queue against its description, sorted.
func TestQueue(t *testing.T) {
	const patience, most = 10 * time.Second, 20
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var all []*Call
		for i := range rapid.IntRange(1, most+5).Draw(t, "calls") {
			c := &Call{
				Priority:  rapid.IntRange(-1, 1).Draw(t, "priority"),
				since:     at(time.Duration(i*rapid.IntRange(0, 800).Draw(t, "since")) * time.Millisecond),
				notBefore: at(time.Duration(rapid.IntRange(0, 20).Draw(t, "notBefore")) * time.Second),
			}
			if ok := q.add(c, most); ok != (len(all) < most) {
				t.Fatalf("call %d: %v", i, ok)
			} else if ok {
				all = append(all, c)
			}
		}
		for i := rapid.IntRange(0, len(all)).Draw(t, "leave"); i > 0; i-- {
			gone := rapid.IntRange(0, len(all)-1).Draw(t, "who")
			q.remove(all[gone])
			q.remove(all[gone]) // twice is once
			all = slices.Delete(all, gone, gone+1)
		}
		now := at(time.Duration(rapid.IntRange(0, 30).Draw(t, "now")) * time.Second)
		var ready []*Call
		standing := false
		for _, c := range all {
			if !c.notBefore.After(now) {
				ready = append(ready, c)
				standing = standing || now.Sub(c.since) > patience/2
			}
		}
		if standing {
			slices.Reverse(ready) // the last to come is the first
		}
		slices.SortStableFunc(ready, func(a, b *Call) int { return b.Priority - a.Priority })
		var want *Call
		if len(ready) > 0 {
			want = ready[0]
		}
		if got := q.first(now, patience); got != want {
			t.Fatalf("first is %p of %p, standing %v", got, ready, standing)
		}
	})
}

func TestPace(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		quota Quota
		want  time.Duration
	}{
		{Quota{Remaining: 26, Limit: 100, Reset: 60 * s}, 0},
		{Quota{Remaining: 25, Limit: 100, Reset: 52 * s}, 2 * s},
		{Quota{Remaining: 1, Limit: 100, Reset: 60 * s}, 30 * s},
		{Quota{Remaining: 0, Limit: 100, Reset: 60 * s}, 0}, // held, not paced
		{Quota{Remaining: 25, Limit: 100, Window: 50 * s}, s / 2},
		{Quota{Remaining: 25, Limit: 100}, 0},
		{Quota{Remaining: 1, Limit: 3, Reset: 60 * s}, 0},
		{Quota{Remaining: 1, Reset: 60 * s}, 0},
		{Quota{Remaining: 25, Limit: 100, Reset: 52 * s, Other: true}, 0},
		{Quota{Remaining: 1, Limit: 1 << 60, Reset: 1 << 62}, 1 << 61},
		{Quota{Remaining: 1<<63 - 1, Limit: 1<<63 - 1, Reset: s}, 0},
	} {
		if got := c.quota.pace(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.quota, got, c.want)
		}
	}
}

// TestKnown: what is learned says when the next call goes, and when it had better.
func TestKnown(t *testing.T) {
	const s, most = time.Second, time.Minute
	type times struct{ Must, Should time.Duration }
	check := func(t *testing.T, k *known, now time.Duration, flying int, want times) {
		t.Helper()
		must, should := k.next(at(now), flying)
		if diff := cmp.Diff(want, times{must.Sub(noon), should.Sub(noon)}); diff != "" {
			t.Errorf("at %v, %d flying: %s", now, flying, diff)
		}
	}

	t.Run("nothing", func(t *testing.T) {
		var k known
		k.send(at(0), 0)
		check(t, &k, 0, 100, times{})
		k.learn(at(0), 1, nil, 99, most)
		check(t, &k, 0, 100, times{})
	})
	t.Run("held, then one by one until there is an answer", func(t *testing.T) {
		var k known
		k.holdUntil(at(5 * s))
		k.holdUntil(at(3 * s))
		check(t, &k, 0, 0, times{5 * s, 5 * s})
		check(t, &k, 5*s, 0, times{5 * s, 5 * s})
		n := k.send(at(5*s), 0)
		check(t, &k, 5*s, 1, times{6 * s, 6 * s})
		check(t, &k, 6*s, 1, times{6 * s, 6 * s}) // the answer takes too long
		k.learn(at(6*s), n, nil, 0, most)
		k.passed(at(6 * s))
		check(t, &k, 5500*time.Millisecond, 1, times{5500 * time.Millisecond, 5500 * time.Millisecond})
		check(t, &k, 5500*time.Millisecond, 2, times{6 * s, 6 * s}) // two may be on their way
		for room := 2; room <= maxRoom; room *= 2 {
			if k.room != room {
				t.Errorf("there is room for %d, want %d", k.room, room)
			}
			for range room {
				k.passed(at(6 * s))
			}
		}
		check(t, &k, 5500*time.Millisecond, 1000, times{5500 * time.Millisecond, 5500 * time.Millisecond})
		k.holdUntil(at(9 * s))
		k.passed(at(8 * s)) // it was sent before
		check(t, &k, 9*s, 1, times{9 * s, 9 * s})
		k.send(at(9*s), 0)
		for i, room := range []int{2, 4, 8, 16, 32, 64, 0} { // nothing is heard
			now := time.Duration(10+i) * s
			k.send(at(now), max(k.room, 1))
			if k.room != room {
				t.Errorf("at %v there is room for %d, want %d", now, k.room, room)
			}
		}
	})
	t.Run("quotas say more than the end of a hold", func(t *testing.T) {
		var k known
		k.holdUntil(at(s))
		n := k.send(at(s), 0)
		k.learn(at(s), n, []Quota{{Remaining: 50, Limit: 100, Reset: 10 * s}}, 0, most)
		check(t, &k, s, 40, times{s, s})
	})
	t.Run("no more than remain", func(t *testing.T) {
		var k known
		n := k.send(at(0), 0)
		k.send(at(0), 0)
		k.learn(at(0), n, []Quota{{Remaining: 3, Reset: 10 * s}}, 1, most)
		k.send(at(0), 0) // two were left
		check(t, &k, 0, 2, times{})
		k.send(at(0), 0)
		check(t, &k, 0, 3, times{s, s}) // none is, until there is an answer
		check(t, &k, 0, 0, times{})     // there is: one may ask
		check(t, &k, s, 3, times{s, s})
		check(t, &k, 11*s, 3, times{11 * s, 11 * s}) // more has come
	})
	t.Run("answers that overtake each other", func(t *testing.T) {
		var k known
		for range 3 {
			k.send(at(0), 0)
		}
		k.learn(at(s), 3, []Quota{{Remaining: 5, Reset: 10 * s}}, 2, most)
		k.learn(at(s), 1, []Quota{{Remaining: 7, Reset: 10 * s}}, 1, most)
		if k.left != 3 {
			t.Errorf("%d are left, want 3", k.left)
		}
		k.learn(at(s), 2, []Quota{{Remaining: 2, Reset: 10 * s}}, 0, most)
		if k.left != 2 {
			t.Errorf("%d are left, want 2", k.left)
		}
		k.learn(at(12*s), 1, []Quota{{Remaining: 7}}, 0, most) // what was known is too old
		if k.left != 7 {
			t.Errorf("%d are left, want 7", k.left)
		}
	})
	t.Run("a later call that was decided earlier", func(t *testing.T) {
		var k known
		k.send(at(0), 0)
		late := k.send(at(0), 0)
		k.learn(at(s), 1, []Quota{{Remaining: 4, Reset: 10 * s}}, 1, most)
		k.learn(at(s), late, []Quota{{Remaining: 5, Reset: 10 * s}}, 0, most)
		if k.left != 3 {
			t.Errorf("%d are left, want 3", k.left)
		}
		next := k.send(at(s), 0) // went when all that is known was: it knows better
		k.learn(at(2*s), next, []Quota{{Remaining: 9, Reset: 10 * s}}, 0, most)
		if k.left != 9 {
			t.Errorf("%d are left, want 9", k.left)
		}
	})
	t.Run("paced", func(t *testing.T) {
		var k known
		n := k.send(at(0), 0)
		k.learn(at(0), n, []Quota{{Remaining: 3, Limit: 100, Reset: 8 * s}, {Remaining: 9, Limit: 10, Reset: 100 * s}}, 0, most)
		check(t, &k, 0, 0, times{0, 2 * s})
		check(t, &k, 3*s, 0, times{3 * s, 2 * s})
		check(t, &k, most, 0, times{most, most}) // believed no longer
	})
	t.Run("more passes than was told", func(t *testing.T) {
		var k known
		n := k.send(at(0), 0)
		k.learn(at(0), n, []Quota{{Remaining: 0, Reset: 50 * s}}, 0, most)
		n = k.send(at(0), 0)
		check(t, &k, 0, 1, times{s, s})
		k.learn(at(0), n, nil, 0, most)
		check(t, &k, 0, 9, times{})
	})
}
