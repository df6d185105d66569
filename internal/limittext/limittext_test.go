package limittext_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/limittext"
)

// TestGet: a text has the limit that it says, and the same one each time.
func TestGet(t *testing.T) {
	var c limittext.Cache
	for _, text := range []string{"5/s", "5/sec", "10/min burst 3"} {
		want := weir.MustParseLimit(text)
		first, err := c.Get(text)
		again, _ := c.Get(text)
		if err != nil || first.String() != want.String() || again != first {
			t.Errorf("%q is %v, then another one: %v, %v", text, first, again != first, err)
		}
	}
	if n := c.Len(); n != 3 {
		t.Errorf("it remembers %d texts, want 3", n)
	}
}

// TestNoLimit: a text that is none fails each time, and is not remembered.
func TestNoLimit(t *testing.T) {
	var c limittext.Cache
	for range 2 {
		if l, err := c.Get("5 apples"); err == nil || l != nil || c.Len() != 0 {
			t.Errorf("%v, %v, %d texts remembered", l, err, c.Len())
		}
	}
}

// TestFull: with one text more than Max, all are forgotten but that.
func TestFull(t *testing.T) {
	var c limittext.Cache
	first, _ := c.Get("1/h")
	for i := 2; i <= limittext.Max; i++ {
		if _, err := c.Get(fmt.Sprint(i, "/h")); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := c.Get("1/h"); again != first || c.Len() != limittext.Max {
		t.Errorf("%d texts remembered, want %d; the first is read anew: %v", c.Len(), limittext.Max, again != first)
	}
	if _, err := c.Get("1/s"); err != nil || c.Len() != 1 {
		t.Errorf("%d texts remembered after one too many, want 1; %v", c.Len(), err)
	}
	if again, _ := c.Get("1/h"); again == first || again.String() != "1/h" {
		t.Errorf("the first is %v, read anew: %v", again, again != first)
	}
}

// TestAtOnce: goroutines that read a text at once get the same limit, and leave no
// more than Max.
func TestAtOnce(t *testing.T) {
	var c limittext.Cache
	var wg sync.WaitGroup
	var got [8]*weir.Limit
	for i := range got {
		wg.Go(func() {
			for n := range limittext.Max / 2 {
				_, _ = c.Get(fmt.Sprint(1+n*(i+1), "/h"))
			}
			got[i], _ = c.Get("7/s")
		})
	}
	wg.Wait()
	if n := c.Len(); n < 1 || n > limittext.Max {
		t.Errorf("it remembers %d texts, want 1…%d", n, limittext.Max)
	}
	var one limittext.Cache
	for i := range got {
		wg.Go(func() { got[i], _ = one.Get("7/s") })
	}
	wg.Wait()
	for _, l := range got {
		if l == nil || l != got[0] {
			t.Fatalf("%p and %p for one text", got[0], l)
		}
	}
}
