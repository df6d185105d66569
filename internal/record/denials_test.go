package record_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// TestLongDenials: denials of long logs take a bounded memory.
func TestLongDenials(t *testing.T) {
	d, limit := record.NewDenials(), weir.MustParseLimit("10000/day sliding-log")
	state := make(weir.State, 10_001)
	state[0] = 10_000
	for i := range state[1:] {
		state[1+i] = 1000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out := make([]weir.Decision, 1)
	for n := range 4 * record.MaxLogDenials {
		asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(n)}, Limit: limit, Cost: 1}}
		out[0] = limit.Decide(state, 2000, &asks[0])
		d.Learn(2000, asks, []weir.State{state}, out)
		if !d.Answer(2001, asks, out) {
			t.Fatal("not at home")
		}
		if d.Forget(asks[0].State); n%2 == 0 {
			if d.Answer(2001, asks, out) {
				t.Fatal("it is not forgotten")
			}
			out[0] = limit.Decide(state, 2000, &asks[0])
			d.Learn(2000, asks, []weir.State{state}, out)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > record.MaxLogDenials*100_000 {
		t.Errorf("%d MB for long logs", grown>>20)
	}
	runtime.KeepAlive(d)
}
