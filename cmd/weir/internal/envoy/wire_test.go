package envoy

import (
	"context"
	"errors"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// scripted answers with what it was given, and keeps what it was asked.
type scripted struct {
	answer *rules.Answer
	err    error
	asked  []rules.Request
}

func (s *scripted) CheckInto(_ context.Context, r *rules.Request, to *rules.Answer) error {
	own := *r
	own.Descriptors = nil
	for _, d := range r.Descriptors {
		d.Entries = append([]rules.Entry(nil), d.Entries...)
		own.Descriptors = append(own.Descriptors, d)
	}
	s.asked = append(s.asked, own)
	if s.err == nil {
		*to = *s.answer
	}
	return s.err
}

// drawMessage draws a request as bytes: most are what clients send, some have what few have, and some are broken.
func drawMessage(t *rapid.T) []byte {
	q := &rls.RateLimitRequest{Domain: rapid.SampledFrom([]string{"d", "", "a longer domain", "\xff"}).Draw(t, "domain"), HitsAddend: rapid.SampledFrom([]uint32{0, 1, 300, 1<<32 - 1}).Draw(t, "hits")}
	text := rapid.SampledFrom([]string{"", "k", "user", "ключ", string(make([]byte, 200))})
	for range rapid.IntRange(0, 3).Draw(t, "descriptors") {
		d := &ratelimit.RateLimitDescriptor{IsNegativeHits: rapid.IntRange(0, 9).Draw(t, "back") == 0}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: text.Draw(t, "key"), Value: text.Draw(t, "value")})
		}
		if rapid.Bool().Draw(t, "own") {
			d.HitsAddend = wrapperspb.UInt64(rapid.SampledFrom([]uint64{0, 1, 1 << 50, 1<<64 - 1}).Draw(t, "cost"))
		}
		if rapid.IntRange(0, 9).Draw(t, "override") == 0 {
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 2}
		}
		q.Descriptors = append(q.Descriptors, d)
	}
	b, err := proto.Marshal(q)
	if err != nil {
		b = []byte("\x0a\x01\xff") // it is not UTF-8
	}
	switch rapid.IntRange(0, 5).Draw(t, "more") {
	case 0:
		b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(rapid.IntRange(1, 20).Draw(t, "number")), 0), 7)
	case 1:
		b = append(b, b...) // what is said twice
	case 2:
		b = append(b, rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "noise")...)
	case 3:
		if len(b) > 0 {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
		}
	}
	return b
}

// drawAnswer draws what a limiter may say of so many descriptors.
func drawAnswer(t *rapid.T, descriptors int) *rules.Answer {
	a := &rules.Answer{Allowed: rapid.Bool().Draw(t, "allowed"), Decisive: -1}
	all := []*rules.Rule{
		{Name: "a", Limit: weir.MustParseLimit("5/min")},
		{Name: string(make([]byte, 150)), Limit: weir.MustParseLimit("7/2h")},
		{Name: "c", Limit: weir.MustParseLimit("1/s"), Envoy: true, EnvoyName: "e"},
		{Name: "s", Limit: weir.MustParseLimit("1/s"), Shadow: true},
		{Name: "m", Limit: weir.MustParseLimit("1/s"), Metadata: map[string]any{"team": "x"}},
	}
	for i := range descriptors {
		for range rapid.IntRange(0, 2).Draw(t, "decisions") {
			a.Decisions = append(a.Decisions, rules.Decision{Descriptor: i, Rule: rapid.SampledFrom(all).Draw(t, "rule"), Decision: weir.Decision{
				Outcome:   rapid.SampledFrom([]weir.Outcome{weir.Allowed, weir.Denied}).Draw(t, "outcome"),
				Remaining: rapid.SampledFrom([]int64{0, 1, 200, 1 << 40}).Draw(t, "remaining"), ResetAfter: time.Duration(rapid.IntRange(0, 1e9).Draw(t, "reset")) * time.Microsecond,
			}})
		}
		if rapid.IntRange(0, 4).Draw(t, "unlimited") == 0 {
			a.Unlimited = append(a.Unlimited, i)
		}
	}
	return a
}

// TestWire holds what is read and written without the generated types to these, for any bytes: the same request
// is asked, the same response or mistake is the answer.
func TestWire(t *testing.T) {
	var w Wire
	rapid.Check(t, func(t *rapid.T) {
		message := drawMessage(t)
		var q rls.RateLimitRequest
		_ = proto.Unmarshal(message, &q) // of what is broken as much as is there
		a := drawAnswer(t, len(q.Descriptors))
		s, o := &scripted{answer: a}, &scripted{answer: a}
		if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			s.err = errors.New("the store is away")
			o.err = s.err
		}
		got, err := w.Answer(t.Context(), s, message, Options{}, []byte("before"))
		want, wantErr := answer(t.Context(), o, message, Options{}, []byte("before"))
		if (err == nil) != (wantErr == nil) || err == nil && !equal(got, want) {
			t.Fatalf("%x: %x %v, want %x %v", message, got, err, want, wantErr)
		}
		if diff := cmp.Diff(o.asked, s.asked, cmp.AllowUnexported(weir.Limit{}), cmp.Comparer(func(a, b *weir.Limit) bool { return (a == nil) == (b == nil) })); diff != "" {
			t.Fatalf("%x: %s", message, diff)
		}
	})
}

// equal is whether two responses say the same.
func equal(a, b []byte) bool {
	var one, other rls.RateLimitResponse
	return proto.Unmarshal(a[len("before"):], &one) == nil && proto.Unmarshal(b[len("before"):], &other) == nil && proto.Equal(&one, &other)
}

// TestWireAllocates: what clients usually ask is read and answered with little memory.
func TestWireAllocates(t *testing.T) {
	message, err := proto.Marshal(&rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var w Wire
	fixed := &rules.Answer{Allowed: true, Decisions: []rules.Decision{{Rule: &rules.Rule{Name: "a", Limit: weir.MustParseLimit("5/min")}}}}
	out, limiter := make([]byte, 0, 200), &always{fixed}
	n := testing.AllocsPerRun(100, func() {
		if _, err := w.Answer(t.Context(), limiter, message, Options{}, out); err != nil {
			t.Error(err)
		}
	})
	if n > 1 { // the texts of the message
		t.Errorf("%v allocations", n)
	}
}

type always struct{ answer *rules.Answer }

func (a *always) CheckInto(_ context.Context, _ *rules.Request, to *rules.Answer) error {
	*to = *a.answer
	return nil
}
