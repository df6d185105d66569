package pgstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOverdue: calls wait for one of their kind that is under way, and when it is overdue go with another line.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gather
		g.init()
		join := func() {
			if err := g.join(&call{kind: kindLook, names: []string{"n"}}); err != nil {
				t.Fatal(err)
			}
		}
		join()
		g.next()
		time.AfterFunc(overdue, g.wake)
		left, began := make(chan time.Duration), time.Now()
		go func() {
			g.next()
			left <- time.Since(began)
		}()
		time.Sleep(overdue / 2)
		join()
		if after := <-left; after != overdue {
			t.Errorf("the second call left after %v, want %v", after, overdue)
		}
	})
}

// TestHeld: calls whose rows are held travel alone, one at a time, and keep no others waiting.
func TestHeld(t *testing.T) {
	var g gather
	g.init()
	held := []*call{{kind: kindSwap}, {kind: kindSwap}}
	for _, k := range held {
		if err := g.join(k); err != nil {
			t.Fatal(err)
		}
	}
	of, calls := g.next()
	for _, k := range calls {
		k.again = true
	}
	g.land(of, calls)
	if of, calls = g.next(); of != kindHeld || len(calls) != 1 {
		t.Fatalf("%d calls of kind %d leave", len(calls), of)
	}
	g.left[kindHeld] = time.Now().Add(-overdue)
	if g.may(kindHeld) {
		t.Error("a second call would leave beside the first")
	}
	if err := g.join(&call{kind: kindSwap}); err != nil || !g.may(kindSwap) {
		t.Errorf("a call of another row waits; %v", err)
	}
	g.land(of, calls)
	if <-held[0].done; !g.may(kindHeld) {
		t.Error("the second does not leave when the first has landed")
	}
}

// TestTurns: a line that always finds many calls of two kinds serves the one call of a third all the same.
func TestTurns(t *testing.T) {
	var g gather
	g.init()
	join := func(of kind, calls int) {
		for range calls {
			if err := g.join(&call{kind: of}); err != nil {
				t.Fatal(err)
			}
		}
	}
	join(kindGroup, 1)
	for range kinds {
		join(kindLook, 10)
		join(kindSwap, 10)
		of, calls := g.next()
		g.land(of, calls)
		if of == kindGroup {
			return
		}
	}
	t.Error("one call never had its turn")
}
