package textbook_test

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
)

// Five events at once and one a second after that, told twice: as the books have
// it, and as one well-known text has it when it is taken at its word.
func Example() {
	burst := func(m textbook.Model, now weir.Instant, events int) (passed int) {
		for range events {
			if m.Take(now, 1) {
				passed++
			}
		}
		return passed
	}
	rate := textbook.Rate{Events: 1, Period: time.Second}
	right := &textbook.TokenBucket{Rate: rate, Burst: 5}
	literal := &textbook.LiteralGCRA{Interval: time.Second, Burst: 5}
	fmt.Println("20 at once:", burst(right, 0, 20), "and", burst(literal, 0, 20))

	right = &textbook.TokenBucket{Rate: rate, Burst: 5}
	literal = &textbook.LiteralGCRA{Interval: time.Second, Burst: 5}
	fmt.Println("one:", burst(right, 0, 1), "and", burst(literal, 0, 1))
	fmt.Println("500 after 100 s:", burst(right, 100_000_000, 500), "and", burst(literal, 100_000_000, 500))
	// Output:
	// 20 at once: 5 and 6
	// one: 1 and 1
	// 500 after 100 s: 5 and 105
}

// Two limits asked one after the other use each other up.
func ExampleOneByOne() {
	limits := textbook.OneByOne{
		&textbook.FixedWindow{Count: 60, Period: time.Minute},
		&textbook.FixedWindow{Count: 10, Period: time.Second},
	}
	passed := 0
	for second := range weir.Instant(60) {
		for range 20 {
			if limits.Take(second*1_000_000, 1) {
				passed++
			}
		}
	}
	fmt.Println(passed, "of the 60 that both allow")
	// Output: 30 of the 60 that both allow
}
