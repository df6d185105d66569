package overload

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBudget: however requests begin, grow and end, they hold no more than the budget
// after each step, and nobody is cut off who holds less for a shorter time than
// somebody who stays.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type request struct {
			*Holding

			bytes int64
			cut   bool
		}
		var all []*request
		cuts := 0
		b := Budget{Most: 1000, Cut: func() { cuts++ }}
		now := time.Unix(1e9, 0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			switch i := rapid.IntRange(0, len(all)).Draw(t, "request"); {
			case i == len(all):
				r := new(request)
				r.Holding = b.Begin(now, func() { r.cut = true })
				all = append(all, r)
			case rapid.Bool().Draw(t, "ends"):
				all[i].End()
				all[i].bytes = 0
			default:
				all[i].bytes += rapid.Int64Range(0, 400).Draw(t, "bytes")
				all[i].Hold(now, all[i].bytes)
			}
			var held int64
			known := 0
			for _, r := range all {
				if _, ok := b.open[r.Holding]; ok {
					held += r.Holding.bytes
				}
				if r.cut != r.Gone() {
					t.Fatal("it was cut off, and not told")
				}
				if r.cut {
					known++
				}
			}
			if b.Held() != held || held > b.Most || known != cuts {
				t.Fatalf("%d bytes are held, %d counted; %d were cut off, %d counted", held, b.Held(), known, cuts)
			}
		}
	})
}

// TestSlowestGoFirst: of requests that hold the same, the one that has taken the
// longest; one that holds next to nothing stays, however slow it is.
func TestSlowestGoFirst(t *testing.T) {
	b := Budget{Most: 1000}
	start := time.Unix(1e9, 0)
	var cut []string
	begin := func(name string, after time.Duration, bytes int64) {
		b.Begin(start.Add(after), func() { cut = append(cut, name) }).Hold(start.Add(after), bytes)
	}
	begin("tiny", 0, 1)
	begin("old", time.Second, 300)
	begin("newer", 2*time.Second, 300)
	begin("new", 3*time.Second, 300)
	begin("newest", 4*time.Second, 300)
	if len(cut) != 2 || cut[0] != "old" || cut[1] != "newer" {
		t.Errorf("%v went, want the old and the newer one", cut)
	}
}
