package rls

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
	"github.com/weir-limit/weir/memstore"
)

// lend serves a store in memory.
func lend(t *testing.T, token func([]byte) bool) (store *memstore.Store, conn *grpc.ClientConn, refused *atomic.Int64) {
	t.Helper()
	store, refused = memstore.New(memstore.Options{}), new(atomic.Int64)
	_, conn = open(t, newLimiter(t), Options{Store: &Lending{
		Store: store, Token: token, Refused: func() { refused.Add(1) },
		Rules: func(_ int, beyond bool) {
			if beyond {
				refused.Add(1)
			}
		},
	}})
	return store, conn, refused
}

// wire is the codec of a client of the store.
type wire struct{}

func (wire) Marshal(v any) ([]byte, error)      { return v.(storewire.Written).Append(nil), nil }
func (wire) Unmarshal(data []byte, v any) error { return v.(storewire.Read).Parse(data) }
func (wire) Name() string                       { return "proto" }

func takeOver(ctx context.Context, conn *grpc.ClientConn, asks ...weir.Ask) (storewire.Answer, error) {
	r := storewire.TakeResponse{Limits: weir.ParseLimit}
	err := conn.Invoke(ctx, storewire.Take, storewire.Batch{storewire.AppendTake(nil, asks)}, &r, grpc.ForceCodec(wire{}))
	if err != nil {
		return storewire.Answer{}, err
	}
	return r.Answers[0], nil
}

// TestLentApart: what programs use is not the daemon's, whatever they call it.
func TestLentApart(t *testing.T) {
	store, conn, _ := lend(t, nil)
	a := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("1/day"), Cost: 1, Receipt: 3}
	first, err := takeOver(t.Context(), conn, a)
	if err != nil || first.Err != nil || !first.Decisions[0].Charged || first.Decisions[0].Receipt.State != a.State {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := takeOver(t.Context(), conn, a); err != nil || again.Decisions[0].Outcome != weir.Denied {
		t.Errorf("%+v, %v", again, err)
	}
	own := make([]weir.Decision, 1)
	if err := store.Take(t.Context(), []weir.Ask{a}, own); err != nil || !own[0].Charged {
		t.Errorf("the daemon's own count was used: %+v, %v", own[0], err)
	}
}

// TestLentToken: without a token that opens, nothing is answered.
func TestLentToken(t *testing.T) {
	_, conn, refused := lend(t, func(token []byte) bool { return string(token) == "right" })
	a := weir.Ask{State: weir.StateKey{Rule: "r"}, Limit: weir.MustParseLimit("1/day"), Cost: 1}
	for shown, want := range map[string]codes.Code{"": codes.Unauthenticated, "right": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated, "Bearer right": codes.OK} {
		_, err := takeOver(metadata.AppendToOutgoingContext(t.Context(), "authorization", shown), conn, a)
		if status.Code(err) != want {
			t.Errorf("%q: %v", shown, err)
		}
	}
	if refused.Load() != 3 {
		t.Errorf("%d refusals were counted", refused.Load())
	}
}

// TestNotLent: without Options.Store there is no such service.
func TestNotLent(t *testing.T) {
	_, conn := open(t, newLimiter(t), Options{})
	if _, err := takeOver(t.Context(), conn, weir.Ask{Limit: weir.MustParseLimit("1/s")}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// TestLentMisuse: what no program in process may ask is refused, and charges nothing.
func TestLentMisuse(t *testing.T) {
	_, conn, _ := lend(t, nil)
	limit := weir.MustParseLimit("10/day")
	good := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}
	negative, huge, more := good, good, good
	negative.Cost, huge.Cost, more.AtLeast = -5, math.MaxInt64, 2
	for _, asks := range [][]weir.Ask{{negative}, {huge}, {more}, {good, good}} {
		answer, err := takeOver(t.Context(), conn, asks...)
		if _, ok := errors.AsType[*record.AskError](answer.Err); err != nil || !ok {
			t.Errorf("%+v: %+v, %v", asks, answer, err)
		}
	}
	raws := grpc.ForceCodec(raw{})
	for _, method := range []string{storewire.Take, storewire.Settle, storewire.Reset, storewire.Describe} {
		if err := conn.Invoke(t.Context(), method, []byte{0xff, 0xff}, nil, raws); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s of garbage: %v", method, err)
		}
		if err := conn.Invoke(t.Context(), method, make([]byte, MaxMessage+1), nil, raws); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s of too much: %v", method, err)
		}
	}
	if answer, err := takeOver(t.Context(), conn, good); err != nil || answer.Err != nil || answer.Decisions[0].Remaining != 9 {
		t.Errorf("afterwards: %+v, %v", answer, err)
	}
}

// TestLentForged: receipts that nobody made do no more than a reset would, and the
// count goes on.
func TestLentForged(t *testing.T) {
	_, conn, _ := lend(t, nil)
	numbers := []uint64{0, 1, 1 << 31, 1 << 52, 1<<63 - 1, 1 << 63, math.MaxUint64}
	for _, text := range []string{"10/day", "10/day leaky-queue", "10/day fixed-window", "10/day sliding-log", "10/day sliding-window 4", "10 concurrent", "10/s warm-up 5s"} {
		limit, id := weir.MustParseLimit(text), uint64(0)
		a := weir.Ask{State: weir.StateKey{Rule: text, Key: "k"}, Limit: limit, Cost: 1}
		for _, x := range numbers {
			for _, y := range numbers {
				if _, err := takeOver(t.Context(), conn, a); err != nil {
					t.Fatal(err)
				}
				id++
				s := weir.Settlement{Used: int64(x & 1), Receipt: &weir.Receipt{
					ID: id, State: a.State, Limit: limit, Cost: int64(1 + x&3), Taken: weir.Instant(x), Expires: weir.Instant(1<<63 - 1), Mark: [2]uint64{x, y},
				}}
				var r storewire.FaultResponse
				q := &storewire.SettleRequest{Settlements: []weir.Settlement{s}}
				if err := conn.Invoke(t.Context(), storewire.Settle, q, &r, grpc.ForceCodec(wire{})); err != nil {
					t.Fatalf("%s, %d, %d: %v", text, x, y, err)
				}
			}
		}
		passed := 0
		for range 40 {
			answer, err := takeOver(t.Context(), conn, a)
			if err != nil || answer.Err != nil {
				t.Fatalf("%s: %+v, %v", text, answer, err)
			}
			if answer.Decisions[0].Charged {
				passed++
			}
		}
		if passed > 11 { // a queue has one event beside those that wait
			t.Errorf("%s: %d passed at once", text, passed)
		}
	}
}

// TestLentRules: beyond the most, a rule is refused so that fallbacks decide, and
// those before go on.
func TestLentRules(t *testing.T) {
	_, conn, refused := lend(t, nil)
	a := weir.Ask{Limit: weir.MustParseLimit("1000000/day"), Cost: 1}
	for i := range MaxLentRules + 1 {
		a.State.Rule = fmt.Sprint(i)
		answer, err := takeOver(t.Context(), conn, a)
		if err != nil || errors.Is(answer.Err, weir.ErrFull) != (i == MaxLentRules) {
			t.Fatalf("rule %d: %+v, %v", i, answer, err)
		}
	}
	var reset storewire.FaultResponse
	q := &storewire.ResetRequest{Keys: []weir.StateKey{a.State}}
	if err := conn.Invoke(t.Context(), storewire.Reset, q, &reset, grpc.ForceCodec(wire{})); err != nil || !errors.Is(reset.Err, weir.ErrFull) {
		t.Errorf("a reset of one more: %v, %v", reset.Err, err)
	}
	a.State.Rule = "0"
	if answer, err := takeOver(t.Context(), conn, a); err != nil || answer.Err != nil || refused.Load() != 2 {
		t.Errorf("%+v, %v; %d refused", answer, err, refused.Load())
	}
}

// TestLentRulesMakePlace: a rule has its place while its counts may say something and
// a while longer, and no longer.
func TestLentRulesMakePlace(t *testing.T) {
	const second = 1_000_000
	var rules lentRules
	rules.seed = maphash.MakeSeed()
	start := weir.InstantOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i := range MaxLentRules {
		is, known, changed := rules.admit(fmt.Sprint(i), start)
		if is == nil || known != i+1 || !changed {
			t.Fatalf("rule %d: %v, %d known, %t", i, is, known, changed)
		}
		if i%4 == 0 {
			is.keep(start, 24*time.Hour)
			is.keep(start, time.Second) // a later ask, which has less to say
		}
	}
	later := start + weir.Instant(lentLeast/time.Microsecond) - 1
	if is, known, _ := rules.admit("more", later); is != nil || known != MaxLentRules {
		t.Errorf("%v, %d known, before any is over", is, known)
	}
	if is, _, _ := rules.admit("1", later); is == nil {
		t.Error("one that is there has no place")
	}
	later += 61 * second
	if is, known, changed := rules.admit("more", later); is == nil || known != MaxLentRules/4+2 || !changed {
		t.Errorf("%v, %d known, %t: want those of a day, the one asked for again, and this", is, known, changed)
	}
	later += weir.Instant((25 * time.Hour) / time.Microsecond)
	if is, known, changed := rules.admit("more", later); is == nil || known != 1 || !changed || rules.bytes != len("more") {
		t.Errorf("%v, %d known, %t, %d bytes", is, known, changed, rules.bytes)
	}
}
