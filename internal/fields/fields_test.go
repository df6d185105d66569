package fields

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestSeconds: who waits as many seconds as are told has waited long enough, and
// not a second too long.
func TestSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		s := Seconds(d)
		if s > 0 && s-1 >= int64(d/time.Second)+1 || s < int64(d/time.Second) || s == int64(d/time.Second) && d%time.Second != 0 {
			t.Errorf("%d ns: %d s", d, s)
		}
	})
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, math.MaxInt64: 9223372037} {
		if got := Seconds(d); got != want {
			t.Errorf("%d ns: %d s, want %d", d, got, want)
		}
	}
	if RetryAfter(0) != 1 {
		t.Error("Retry-After is less than 1")
	}
}

// TestQuota: the largest limits have whole seconds too.
func TestQuota(t *testing.T) {
	for text, want := range map[string][2]int64{
		"100/min":                  {100, 60},
		"100/min burst 10":         {10, 6},
		"5/s burst 12":             {12, 3}, // 2.4 s
		"0/h":                      {0, 3600},
		"10/3s fixed-window":       {10, 3},
		"10/1500ms sliding-window": {10, 2},
		"3/s leaky-queue":          {3, 1},
		"1073741824/us":            {1 << 30, 1},
		"1073741824/407day":        {1 << 30, 407 * 86400},
		"1/407day burst 63":        {63, 63 * 407 * 86400},
		"1073741824/s burst 1":     {1, 1},
		"10000/400day sliding-log": {10_000, 400 * 86400},
	} {
		if q, w := Quota(weir.MustParseLimit(text)); [2]int64{q, w} != want {
			t.Errorf("%s: q=%d w=%d, want %v", text, q, w, want)
		}
	}
}

// TestItems: names are Strings of RFC 9651, and integers fit its Integer.
func TestItems(t *testing.T) {
	if got := string(AppendString(nil, "a\"b\\c\nü")); got != `"a\"b\\c%0A%C3%BC"` {
		t.Error(got)
	}
	if got := string(AppendInteger(nil, math.MaxInt64)); got != "999999999999999" {
		t.Error(got)
	}
	b := AppendPolicy(nil, "requests", weir.MustParseLimit("60/min"), "")
	b = AppendPolicy(b, "tokens", weir.MustParseLimit("1000/min"), "tokens")
	b = AppendPolicy(b, "streams", weir.MustParseLimit("3 concurrent"), "")
	if want := `"requests";q=60;w=60, "tokens";q=1000;w=60;qu="tokens", "streams";q=3;qu="concurrent-requests"`; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
}

func TestReset(t *testing.T) {
	for _, c := range []struct {
		d    weir.Decision
		want int64
	}{
		{weir.Decision{Outcome: weir.Allowed, ResetAfter: 1500 * time.Millisecond}, 2},
		{weir.Decision{Outcome: weir.Denied, RetryAfter: time.Millisecond, ResetAfter: time.Hour}, 1},
		{weir.Decision{Outcome: weir.Denied}, 1}, // a permit must come back first
		{weir.Decision{Outcome: weir.Impossible, ResetAfter: 3 * time.Second}, 3},
	} {
		if got := Reset(&c.d); got != c.want {
			t.Errorf("%+v: %d, want %d", c.d, got, c.want)
		}
	}
}
