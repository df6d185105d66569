package storewire

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// same compares what has limits, by their text.
var same = cmp.Comparer(func(a, b *weir.Limit) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

func drawKey(t *rapid.T) weir.StateKey {
	some := rapid.SampledFrom([]string{"", "r", "r#1", "\x00\xff", strings.Repeat("x", 300)})
	return weir.StateKey{Rule: some.Draw(t, "rule"), Key: some.Draw(t, "key")}
}

func drawLimit(t *rapid.T) *weir.Limit {
	return weir.MustParseLimit(rapid.SampledFrom([]string{"1/s", "20 concurrent", "1000/day fixed-window zone Asia/Tokyo"}).Draw(t, "limit"))
}

func drawTime(t *rapid.T, what string) time.Duration {
	return time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, what)) * time.Microsecond
}

func drawAsk(t *rapid.T) weir.Ask {
	yes := rapid.Bool()
	return weir.Ask{
		State: drawKey(t), Limit: drawLimit(t), Cost: rapid.Int64Range(0, 1<<40).Draw(t, "cost"), AtLeast: rapid.Int64Range(0, 1<<40).Draw(t, "at least"),
		MaxHold: drawTime(t, "hold"), Peek: yes.Draw(t, "peek"), Shadow: yes.Draw(t, "shadow"), Quota: yes.Draw(t, "quota"),
		After: yes.Draw(t, "after"), Receipt: rapid.Uint64().Draw(t, "receipt"), Once: yes.Draw(t, "once"),
	}
}

func drawReceipt(t *rapid.T) *weir.Receipt {
	n := rapid.Uint64()
	return &weir.Receipt{
		ID: n.Draw(t, "id"), State: drawKey(t), Limit: drawLimit(t), Cost: rapid.Int64().Draw(t, "cost"), Taken: weir.Instant(rapid.Int64().Draw(t, "taken")),
		Expires: weir.Instant(rapid.Int64().Draw(t, "expires")), Mark: [2]uint64{n.Draw(t, "mark"), n.Draw(t, "mark2")},
	}
}

func drawDecision(t *rapid.T) weir.Decision {
	d := weir.Decision{
		Outcome: rapid.SampledFrom([]weir.Outcome{weir.Denied, weir.Allowed, weir.Impossible}).Draw(t, "outcome"), Charged: rapid.Bool().Draw(t, "charged"),
		Cost: rapid.Int64().Draw(t, "cost"), Remaining: rapid.Int64().Draw(t, "remaining"), RetryAfter: drawTime(t, "retry"),
		NextAfter: drawTime(t, "next"), ResetAfter: drawTime(t, "reset"), Hold: drawTime(t, "hold"),
	}
	if rapid.Bool().Draw(t, "has a receipt") {
		d.Receipt = drawReceipt(t)
	}
	return d
}

// newer adds a field of each kind that this version does not know.
func newer(b []byte) []byte {
	b = appendNumber(b, 1000, 7)
	b = binary.LittleEndian.AppendUint64(appendTag(b, 1001, fixed64), 7)
	b = binary.LittleEndian.AppendUint32(appendTag(b, 1002, fixed32), 7)
	return appendText(b, 1003, "new")
}

// TestBytes: a message is written as protocol buffers write it.
func TestBytes(t *testing.T) {
	const want = "\x0a\x0e\x08\xac\x02\x12\x00\x18\x01\x22\x05weird" // 300, "", true and "weird" in a message
	got := appendMessage(nil, 1, func(b []byte) []byte {
		b = appendText(appendNumber(b, 1, 300), 2, "")
		return appendText(appendNumber(b, 3, 1), 4, "weird")
	})
	if string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMalformed: what no message begins with is refused.
func TestMalformed(t *testing.T) {
	for what, b := range map[string]string{
		"a tag that is cut":           "\x80",
		"field 0":                     "\x00\x01",
		"a field that is too high":    "\x80\x80\x80\x80\x10\x01",
		"a number that is cut":        "\x08\x80",
		"a number beyond 64 bits":     "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"a text that is cut":          "\x0a\x02x",
		"a length beyond all":         "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"64 bits that are cut":        "\x09\x01\x02\x03\x04\x05\x06\x07",
		"32 bits that are cut":        "\x0d\x01\x02\x03",
		"a group":                     "\x0b\x0c",
		"a kind that there never was": "\x0f",
	} {
		if err := eachField([]byte(b), func(int, value) error { return nil }); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRoundTrip: what is read is what was written, by this version or a newer one.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		takes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []weir.Ask { return rapid.SliceOfN(rapid.Custom(drawAsk), 1, 4).Draw(t, "asks") }), 1, 4).Draw(t, "takes")
		var batch Batch
		for _, asks := range takes {
			batch = append(batch, AppendTake(nil, asks))
		}
		q := TakeRequest{Limits: weir.ParseLimit}
		if err := q.Parse(newer(batch.Append(nil))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(takes, q.Takes, same); diff != "" {
			t.Error(diff)
		}

		r, got := TakeResponse{}, TakeResponse{Limits: weir.ParseLimit}
		for range takes {
			word := rapid.SliceOfN(rapid.Uint64(), 1, 8)
			r.Answers = append(r.Answers, Answer{
				Decisions: rapid.SliceOfN(rapid.Custom(drawDecision), 1, 4).Draw(t, "decisions"),
				Now:       weir.Instant(rapid.Int64().Draw(t, "now")),
				States:    rapid.SliceOfN(rapid.Custom(func(t *rapid.T) weir.State { return word.Draw(t, "state") }), 1, 4).Draw(t, "states"),
			})
		}
		if err := got.Parse(newer(r.Append(nil))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Answers, got.Answers, same); diff != "" {
			t.Error(diff)
		}

		s, read := SettleRequest{}, SettleRequest{Limits: weir.ParseLimit}
		s.Settlements = []weir.Settlement{{Receipt: drawReceipt(t), Used: rapid.Int64().Draw(t, "used"), Renew: rapid.Bool().Draw(t, "renew")}}
		if err := read.Parse(newer(s.Append(nil))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Settlements, read.Settlements, same); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFaults: an error is the same error on the other side, with its text.
func TestFaults(t *testing.T) {
	for _, err := range []error{weir.ErrAway, weir.ErrSettled, weir.ErrExpired, weir.ErrNoPermit, weir.ErrFull, weir.ErrBusy} {
		var r FaultResponse
		if bad := r.Parse((&FaultResponse{Err: errors.Join(errors.New("why"), err)}).Append(nil)); bad != nil {
			t.Fatal(bad)
		}
		if !errors.Is(r.Err, err) || !strings.HasPrefix(r.Err.Error(), "why") {
			t.Errorf("%v became %v", err, r.Err)
		}
	}
	var ask, count, other, future FaultResponse
	err := errors.Join(
		ask.Parse((&FaultResponse{Err: &record.AskError{Err: errors.New("a")}}).Append(nil)),
		count.Parse((&FaultResponse{Err: &record.CountError{Err: errors.New("c")}}).Append(nil)),
		other.Parse((&FaultResponse{Err: errors.New("o")}).Append(nil)),
		future.Parse(appendMessage(nil, 1, func(b []byte) []byte { return appendNumber(b, 1, 99) })),
	)
	_, isAsk := errors.AsType[*record.AskError](ask.Err)
	_, isCount := errors.AsType[*record.CountError](count.Err)
	if err != nil || !isAsk || !isCount || !errors.Is(other.Err, weir.ErrAway) || !errors.Is(future.Err, weir.ErrAway) {
		t.Error(err, ask, count, other, future)
	}
}

// TestGarbage: bytes that are no message are an error or nothing, never a panic.
func TestGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		good := slices.Concat(AppendTake(nil, []weir.Ask{drawAsk(t)}), newer(nil))
		bad := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "damaged") {
			bad = slices.Clone(good)
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			bad = bad[:rapid.IntRange(0, len(bad)).Draw(t, "cut")]
		}
		take := TakeRequest{Limits: weir.ParseLimit}
		for _, m := range []Read{
			&take, &TakeResponse{Limits: weir.ParseLimit}, &SettleRequest{Limits: weir.ParseLimit}, new(ResetRequest),
			new(DescribeRequest), new(DescribeResponse), new(FaultResponse),
		} {
			_ = m.Parse(bad) // that it returns is what is tested
		}
		if len(take.Takes) != len(take.Errs) {
			t.Errorf("%d takes and %d errors", len(take.Takes), len(take.Errs))
		}
	})
}

// TestTooMany: a message of more than its parts is refused.
func TestTooMany(t *testing.T) {
	var b []byte
	for range MaxParts {
		b = AppendTake(b, nil)
	}
	if err := (&TakeRequest{}).Parse(b); err != nil {
		t.Error(err)
	}
	if err := (&TakeRequest{}).Parse(AppendTake(b, nil)); err == nil {
		t.Error("one more is taken")
	}
	keys := ResetRequest{Keys: make([]weir.StateKey, MaxParts+1)}
	if err := new(ResetRequest).Parse(keys.Append(nil)); err == nil {
		t.Error("one more key is taken")
	}
}
