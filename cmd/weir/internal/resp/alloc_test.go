//go:build !race

package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// TestThrottleAllocates: a CL.THROTTLE about a key that comes again allocates nothing, from the client's bytes to those of
// the answer, wherever the buffer cuts the commands. Few keys of a thousand have the place of another.
func TestThrottleAllocates(t *testing.T) {
	for name, words := range map[string][]string{
		"usual": {"CL.THROTTLE", "user:%d", "99", "100000", "1"}, "with a quantity": {"cl.throttle", "user:%d", "99", "100000", "1", "2"},
		"denied": {"CL.THROTTLE", "user:%d", "0", "1", "86400"}, "a peek": {"CL.THROTTLE", "user:%d", "99", "100000", "1", "0"},
	} {
		for _, keys := range []int{1, 1000} {
			var text strings.Builder
			for i := range keys {
				words := append([]string(nil), words...)
				words[1] = fmt.Sprintf(words[1], i)
				text.WriteString(bulks(words...))
			}
			c := newServer(t, Options{Budget: new(overload.Budget)}).conn(&endless{text: []byte(text.String())})
			ask := func() {
				if err := c.read(); err != nil {
					t.Fatal(err)
				}
				c.observe(c.answer(t.Context()))
				if c.failed {
					t.Fatal("it failed")
				}
			}
			for range 10 * keys {
				ask() // the store makes memory for new keys, and for denials
			}
			if n := testing.AllocsPerRun(5, func() {
				for range 1000 {
					ask()
				}
			}); n > float64(keys/4) {
				t.Errorf("%s, %d keys: %v allocations of 1000 commands", name, keys, n)
			}
		}
	}
}
