package lesson

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/plot"
)

// TestLessons holds what the pictures say against what is known of the limits.
func TestLessons(t *testing.T) {
	const second = 1_000_000
	turns := func(p plot.Picture) []plot.Turn { return p.Drawing.(plot.Turns).Turns }
	// GCRA by hand, as textbooks have it: TAT, the time by which all that passed
	// would have at the pace.
	tat := int64(0)
	for i, turn := range turns(gcra()) {
		next := max(tat, turn.At) + second
		if turn.To != next || turn.From != next-3*second {
			t.Errorf("gcra, request %d: from %d to %d, want %d to %d", i+1, turn.From, turn.To, next-3*second, next)
		}
		if turn.Denied != (turn.At < turn.From) {
			t.Errorf("gcra, request %d at %d: denied %v, its bar begins at %d", i+1, turn.At, turn.Denied, turn.From)
		}
		if !turn.Denied {
			tat = next
		}
	}

	// A bucket by hand, in millionths of a token.
	b := bucket().Drawing.(plot.Lines)
	tokens, before, denials := int64(5*second), int64(0), 0
	for i, e := range b.Events {
		cost, err := strconv.ParseInt(e.Note, 10, 64)
		if err != nil {
			t.Fatalf("bucket, request %d: %v", i+1, err)
		}
		tokens = min(tokens+e.X-before, 5*second)
		before = e.X
		if denied := tokens < cost*second; denied != e.Denied {
			t.Errorf("bucket, request %d for %d: denied %v with %d/1000000 tokens", i+1, cost, e.Denied, tokens)
		}
		if e.Denied {
			denials++
		} else {
			tokens -= cost * second
		}
		if e.Y != tokens {
			t.Errorf("bucket, request %d: the level is %d, want %d", i+1, e.Y, tokens)
		}
	}
	if denials == 0 {
		t.Error("bucket: no request is denied")
	}

	w := subWindows().Drawing.(plot.Windows)
	sum := w.Bars[0].Count / 3
	for _, v := range w.Bars[1:] {
		sum += v.Count
	}
	if want := fmt.Sprintf("= %d of 100: %d more pass now", sum, 100-sum); !strings.HasSuffix(w.Sum, want) {
		t.Errorf("sub-windows: %q, want %q", w.Sum, want)
	}

	for i, want := range []int64{0, 1, 2, 3, -1, 4} {
		turn := turns(queue())[i]
		if turn.Denied != (want < 0) || want >= 0 && turn.To != want*second {
			t.Errorf("queue, request %d: goes at %d, denied %v; want %d s", i+1, turn.To, turn.Denied, want)
		}
	}
	for i, want := range []bool{false, false, true, false} {
		if got := turns(permits())[i].Denied; got != want {
			t.Errorf("permits, request %d: denied %v, want %v", i+1, got, want)
		}
	}
	cold := warmUp().Drawing.(plot.Lines).Lines[0].Points
	if first, last := cold[0].Y, cold[len(cold)-1].Y; first != 7 || last != 20 {
		t.Errorf("warm-up: %d in the first second, want a third of 20; %d in the last", first, last)
	}
}
