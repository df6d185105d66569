package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// limiter is a Limiter of its own store, for the examples.
func limiter(limit string) *weir.Limiter {
	return weir.NewLimiter(memstore.New(memstore.Options{}), "example", weir.MustParseLimit(limit))
}

func ExampleParseLimit() {
	limit, err := weir.ParseLimit("60/minute burst 10")
	fmt.Println(limit, err)

	_, err = weir.ParseLimit("60/minute queue 10")
	fmt.Println(err)
	// Output:
	// 60/min burst 10 <nil>
	// limit "60/minute queue 10": queue is for leaky-queue, not for gcra
}

func ExampleLimiter_Take() {
	store := memstore.New(memstore.Options{})
	logins := weir.NewLimiter(store, "logins", weir.MustParseLimit("2/day"))
	for range 3 {
		answer, err := logins.Take(context.Background(), "ann", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Outcome, answer.Remaining, answer.RetryAfter.Round(time.Minute))
	}
	// Output:
	// allowed 1 0s
	// allowed 0 0s
	// denied 0 12h0m0s
}

// Limits of one limiter decide together: what one denies, the others do not
// count.
func ExampleNewLimiter_several() {
	store := memstore.New(memstore.Options{})
	mails := weir.NewLimiter(store, "mails",
		weir.MustParseLimit("100/day"), weir.MustParseLimit("5/h"))
	for _, recipients := range []int64{3, 3, 2} {
		answer, err := mails.Take(context.Background(), "ann", recipients)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Outcome, answer.Each[0].Remaining, answer.Each[1].Remaining)
	}
	// Output:
	// allowed 97 2
	// denied 97 2
	// allowed 95 0
}

// A reservation is a place ahead, which can be given back.
func ExampleLimiter_Reserve() {
	ctx := context.Background()
	backups := limiter("1/h leaky-queue queue 5")
	for range 2 {
		place, err := backups.Reserve(ctx, "disk", 1, 12*time.Hour)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("goes in", place.Hold.Round(time.Minute))
	}

	place, err := backups.Reserve(ctx, "disk", 1, 90*time.Minute)
	fmt.Println(place.Outcome, err)

	place, err = backups.Reserve(ctx, "disk", 1, 12*time.Hour)
	fmt.Println("goes in", place.Hold.Round(time.Minute), err)
	fmt.Println("cancelled", place.Cancel(ctx))
	place, err = backups.Reserve(ctx, "disk", 1, 12*time.Hour)
	fmt.Println("goes in", place.Hold.Round(time.Minute), err)
	// Output:
	// goes in 0s
	// goes in 1h0m0s
	// denied <nil>
	// goes in 2h0m0s <nil>
	// cancelled <nil>
	// goes in 2h0m0s <nil>
}

// Wait turns away at once who would wait for longer than it has time.
func ExampleLimiter_Wait() {
	reports := limiter("1/h leaky-queue")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		_, err := reports.Wait(ctx, "ann", 1)
		if denied, ok := errors.AsType[*weir.DeniedError](err); ok {
			fmt.Println("come back in", denied.Answer.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("go", err)
	}
	// Output:
	// go <nil>
	// come back in 59m0s
}

// Do runs work when the limit lets it go: here one an hour, and nobody waits.
func ExampleLimiter_Do() {
	exports := limiter("1/h leaky-queue queue 0")
	work := func(context.Context) error {
		fmt.Println("exporting")
		return nil
	}
	fmt.Println(exports.Do(context.Background(), "ann", 1, work))
	err := exports.Do(context.Background(), "ann", 1, work)
	_, denied := errors.AsType[*weir.DeniedError](err)
	fmt.Println("denied:", denied)
	// Output:
	// exporting
	// <nil>
	// denied: true
}

// What work costs is often known only when it is done. Reserve the most, settle
// what it was.
func ExampleLimiter_Settle() {
	ctx := context.Background()
	tokens := limiter("1000/day")
	answer, err := tokens.Ask(ctx, weir.Request{Key: "ann", Cost: 200, Receipt: true})
	fmt.Println(answer.Outcome, answer.Remaining, err)

	fmt.Println(tokens.Settle(ctx, answer, 50))
	fmt.Println(tokens.Settle(ctx, answer, 50)) // a receipt works once

	now, err := tokens.Ask(ctx, weir.Request{Key: "ann", Peek: true})
	fmt.Println(now.Remaining, err)
	// Output:
	// allowed 800 <nil>
	// 50 <nil>
	// 0 receipt was used before
	// 950 <nil>
}

// The receipt of a permit frees it.
func ExampleLimiter_Settle_permits() {
	ctx := context.Background()
	streams := limiter("1 concurrent ttl 2h")
	first, err := streams.Ask(ctx, weir.Request{Key: "ann", Cost: 1, Receipt: true})
	fmt.Println(first.Outcome, err)
	second, err := streams.Ask(ctx, weir.Request{Key: "ann", Cost: 1, Receipt: true})
	fmt.Println(second.Outcome, err)

	_, err = streams.Settle(ctx, first, 1)
	fmt.Println("freed", err)
	second, err = streams.Ask(ctx, weir.Request{Key: "ann", Cost: 1, Receipt: true})
	fmt.Println(second.Outcome, err)
	// Output:
	// allowed <nil>
	// denied <nil>
	// freed <nil>
	// allowed <nil>
}

// Bound is the most that can pass in any interval, wherever it begins.
func ExampleLimit_Bound() {
	for _, text := range []string{
		"100/min",
		"100/min burst 10",
		"100/min fixed-window",
		"100/min sliding-window",
		"100/min sliding-log",
	} {
		limit := weir.MustParseLimit(text)
		fmt.Println(limit.Bound(time.Minute, 1), "in any minute by", limit)
	}
	// Output:
	// 199 in any minute by 100/min
	// 109 in any minute by 100/min burst 10
	// 200 in any minute by 100/min fixed-window
	// 199 in any minute by 100/min sliding-window
	// 100 in any minute by 100/min sliding-log
}

// Decide and Commit are pure: time is what the caller says it is.
func ExampleLimit_Decide() {
	limit := weir.MustParseLimit("1/s burst 2")
	var state weir.State
	for _, now := range []weir.Instant{0, 0, 0, 1_500_000} {
		asks := []weir.Ask{{Limit: limit, Cost: 1}}
		out := []weir.Decision{limit.Decide(state, now, &asks[0])}
		weir.Resolve(asks, out)
		state = limit.Commit(state, now, &asks[0], &out[0])
		fmt.Println(out[0].Outcome, out[0].Remaining, out[0].RetryAfter)
	}
	// Output:
	// allowed 1 0s
	// allowed 0 0s
	// denied 0 1s
	// allowed 0 0s
}
