package weir_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestLimitText quotes contract §1: how limits are written, and how they print.
func TestLimitText(t *testing.T) {
	for _, c := range []struct{ rule, text, printed string }{
		{"limit = quota { word }", "100/min", "100/min"},
		{`quota = count "/" [count] unit`, "100/15min", "100/15min"},
		{`count " concurrent"`, "20 concurrent", "20 concurrent"},
		{`unit = "us"|"ms"|"s"|"min"|"h"|"day"|"week"`, "1/us", "1/us"},
		{"", "1/ms", "1/ms"},
		{"", "1/s", "1/s"},
		{"", "1/h", "1/h"},
		{"", "1/day", "1/day"},
		{"", "1/week", "1/week"},
		{"month, year: fixed-window only", "1/month fixed-window", "1/month fixed-window"},
		{"", "1/year fixed-window", "1/year fixed-window"},
		{"none: gcra", "5/s gcra", "5/s"},
		{"also accepted: sec second minute hour and plurals", "5/sec", "5/s"},
		{"", "5/second", "5/s"},
		{"", "5/10seconds", "5/10s"},
		{"", "5/minute", "5/min"},
		{"", "5/hour", "5/h"},
		{"", "5/2hours", "5/2h"},
		{"", "5/2days", "5/2day"},
		{"", "5/weeks", "5/week"},
		{"", "5/month fixed-window", "5/month fixed-window"},
		{"", "5/years fixed-window", "5/year fixed-window"},
		{"Printed: largest exact unit", "5/1000ms", "5/s"},
		{"", "5/90s", "5/90s"},
		{"", "5/24h", "5/day"},
		{"", "5/14day", "5/2week"},
		{"", "5/1s", "5/s"},
		{"", "007/060s", "7/min"},
		{"algorithm, then words in the order of the grammar", "5/s debt 2 burst 3 token-bucket initial 1", "5/s token-bucket burst 3 initial 1 debt 2"},
		{"", "5/s count-denied conservative sliding-window 5", "5/s sliding-window 5 conservative count-denied"},
		{"defaults left out", "5/s burst 5 initial 5 debt 0", "5/s"},
		{"", "5/s leaky-queue queue 5", "5/s leaky-queue"},
		{"", "5/s sliding-window 1 strict", "5/s sliding-window"},
		{"", "5 concurrent ttl 1min", "5 concurrent"},
		{"", "5 concurrent ttl 60s", "5 concurrent"},
		{"", "5/day fixed-window zone UTC", "5/day fixed-window"},
		{"", "5/s warm-up 3s cold 3", "5/s warm-up 3s"},
		{"token-bucket and leaky-bucket print as written", "5/s token-bucket", "5/s token-bucket"},
		{"", "5/s leaky-bucket burst 9", "5/s leaky-bucket burst 9"},
		{"a period in h or less prints in h or less", "5/24h fixed-window", "5/24h fixed-window"},
		{"Envoy's day, week, month, year", "5/168h fixed-window", "5/168h fixed-window"},
		{"", "5/720h fixed-window", "5/720h fixed-window"},
		{"", "5/8760h fixed-window", "5/8760h fixed-window"},
		{"", "5/1440min fixed-window", "5/24h fixed-window"},
		{"there day week month year are civil", "5/day fixed-window zone Europe/Berlin", "5/day fixed-window zone Europe/Berlin"},
		{"burst N", "5/s burst 10", "5/s burst 10"},
		{"initial N", "5/s initial 0", "5/s initial 0"},
		{"debt N", "5/s debt 7", "5/s debt 7"},
		{"strict: gcra", "10/s strict burst 3", "10/s strict burst 3"},
		{"strict needs burst ≤ count; the default burst is the count", "10/s strict", "10/s strict"},
		{"strict, relaxed, conservative: sliding-window", "5/s relaxed sliding-window", "5/s sliding-window relaxed"},
		{"sliding-window N, 1…60", "5/min sliding-window 60", "5/min sliding-window 60"},
		{"queue N", "5/s leaky-queue queue 0", "5/s leaky-queue queue 0"},
		{"anchored: fixed-window of h or less", "5/h fixed-window anchored", "5/h fixed-window anchored"},
		{"or day, week as 24 h, 168 h", "5/day anchored fixed-window", "5/day fixed-window anchored"},
		{"", "5/24h anchored fixed-window", "5/24h fixed-window anchored"},
		{"", "5/week fixed-window anchored", "5/week fixed-window anchored"},
		{"count-denied", "5/s sliding-log count-denied", "5/s sliding-log count-denied"},
		{"", "5/s fixed-window count-denied", "5/s fixed-window count-denied"},
		{"ttl D", "5 concurrent ttl 2h", "5 concurrent ttl 2h"},
		{"", "5 concurrent ttl 1500ms", "5 concurrent ttl 1500ms"},
		{"warm-up D, cold N", "5/s cold 5 warm-up 10s", "5/s warm-up 10s cold 5"},
		{"0 denies all", "0/s", "0/s"},
		{"", "0 concurrent", "0 concurrent"},
		{"count ≤ 2^30", "1073741824/s", "1073741824/s"},
		{"fixed-window: count ≤ 2^32−1", "4294967295/s fixed-window", "4294967295/s fixed-window"},
		{"sliding-log: count ≤ 10,000", "10000/s sliding-log", "10000/s sliding-log"},
		{"period 1 µs … 407 days", "1/407day", "1/407day"},
		{"", "1/9768h fixed-window", "1/9768h fixed-window"},
		{"(burst + debt) × period / count ≤ 71 years", "1/8760h burst 70 debt 1", "1/365day burst 70 debt 1"},
	} {
		t.Run(c.rule+": "+c.text, func(t *testing.T) {
			l, err := weir.ParseLimit(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if l.String() != c.printed {
				t.Errorf("prints %q, want %q", l, c.printed)
			}
			if again, err := weir.ParseLimit(c.printed); err != nil || again.String() != c.printed {
				t.Errorf("%q reads back as %v, %v", c.printed, again, err)
			}
		})
	}
}

// TestLimitTextRefused: every refusal says what is wrong or what to write
// instead.
func TestLimitTextRefused(t *testing.T) {
	for text, reason := range map[string]string{
		"":                                    "write a limit such as 100/min",
		"   ":                                 "write a limit such as 100/min",
		"100":                                 "write 100/min, or 100 concurrent",
		"100 burst 5":                         "has no period",
		"/min":                                `"" is not a whole number`,
		"-5/s":                                "not a whole number",
		"+5/s":                                "not a whole number",
		"5.5/s":                               "not a whole number",
		"1e3/s":                               "not a whole number",
		"५/s":                                 "not a whole number",
		"5/":                                  "unknown unit",
		"5/fortnight":                         "unknown unit",
		"5/S":                                 "unknown unit",
		"5/ s":                                "unknown unit",
		"5/0s":                                "must be 1us…407day",
		"5/408day":                            "must be 1us…407day",
		"5/9769h":                             "must be 1us…407day",
		"5/99999999999999999999s":             "too large",
		"1073741825/s":                        "must be 0…1073741824",
		"9223372036854775807/s":               "too large",
		"4294967296/s fixed-window":           "must be 0…4294967295",
		"10001/s sliding-log":                 "take sliding-window for more",
		"1073741825 concurrent":               "must be 0…1073741824",
		"5/s gcra gcra":                       "at most one algorithm",
		"5/s gcra token-bucket":               "at most one algorithm",
		"5/s warm-up 3s gcra":                 "at most one algorithm",
		"5/s burst 3 burst 3":                 "twice",
		"5/s burst":                           "write burst and a count",
		"5/s burst 0":                         "at least 1",
		"5/s burst 1073741825":                "must be 1…1073741824",
		"5/s burst -1":                        "not a whole number",
		"5/s initial 6":                       "0…5, the burst",
		"5/s debt 1073741825":                 "must be 0…1073741824",
		"1/365day burst 71 debt 1":            "over 71 years",
		"1/365day leaky-queue queue 71":       "over 71 years",
		"1/365day burst 1000000 strict":       "burst of at most the count",
		"1000/365day burst 999 strict":        "over 71 years",
		"5/s strict burst 6":                  "burst of at most the count",
		"5/s strict debt 1":                   "strict excludes debt and initial",
		"5/s strict debt 0":                   "strict excludes debt and initial",
		"5/s strict initial 5":                "strict excludes debt and initial",
		"5/s strict relaxed sliding-window":   "exclude each other",
		"5/s relaxed":                         "relaxed is for sliding-window, not for gcra",
		"5/s fixed-window strict":             "strict is for gcra and sliding-window",
		"5/s fixed-window burst 5":            "burst is for gcra",
		"5/s fixed-window debt 0":             "debt is not for fixed-window",
		"5/s sliding-log initial 1":           "initial is for gcra",
		"5/s queue 4":                         "queue is for leaky-queue",
		"5/s count-denied":                    "count-denied is for windows",
		"5/s leaky-queue count-denied":        "count-denied is for windows",
		"5/s anchored":                        "anchored is for fixed-window",
		"5/month fixed-window anchored":       "write 720h or 8760h",
		"5/month":                             "no fixed length",
		"5/year sliding-log":                  "no fixed length",
		"5/2day fixed-window":                 "one civil day",
		"5/day fixed-window zone Mars/Crater": "not in the time zone database",
		"5/day fixed-window zone ../etc/x":    "not in the time zone database",
		"5/day fixed-window zone Local":       "IANA",
		"5/day fixed-window zone":             "IANA",
		"5/h fixed-window zone Europe/Berlin": "zone is for the civil",
		"5/day anchored fixed-window zone Europe/Berlin": "zone is for the civil",
		"5/day zone UTC":                 "zone is for the civil",
		"5/s sliding-window 0":           "there may be 1…60",
		"5/s sliding-window 61":          "there may be 1…60",
		"5/s sliding-window 7":           "7 sub-windows do not divide the period into whole microseconds; write 5 or 8",
		"5/s sliding-window 59":          "microseconds; write 50",
		"5/us sliding-window 2":          "microseconds; write 1",
		"5 concurrent gcra":              "at most one algorithm",
		"5/s concurrent":                 "write N concurrent",
		"5 concurrent burst 2":           "burst is for gcra",
		"5 concurrent ttl 0s":            "must be 1us…407day",
		"5 concurrent ttl 5":             "write a time such as",
		"5 concurrent ttl 1day":          "write a time such as",
		"5 concurrent ttl s":             "write a time such as",
		"5 concurrent ttl 9769h":         "must be 1us…407day",
		"5/s ttl 1s":                     "ttl is for concurrent",
		"5/s warm-up":                    "write a time such as",
		"5/s warm-up 25h":                "1us…24h",
		"5/s warm-up 1s cold 1":          "must be 2…100",
		"5/s warm-up 1s cold 101":        "must be 2…100",
		"5/s cold 3":                     "cold is not for gcra",
		"0/s burst 5":                    "leave out burst",
		"0/s leaky-queue queue 3":        "leave out burst, initial, debt and queue",
		"5/s frobnicate":                 "the words are gcra",
		"10/s bust 20":                   `unknown word "bust"; did you mean burst?`,
		"10/s BURST 20":                  `unknown word "BURST"; did you mean burst?`,
		"10/s fixed_window":              `unknown word "fixed_window"; did you mean fixed-window?`,
		"10/s sliding-windw 4":           "did you mean sliding-window?",
		"5/s\tburst 3":                   "unknown unit",
		"5/s\x00":                        "unknown unit",
		"\xff/s":                         "not a whole number",
		strings.Repeat("5", 2000) + "/s": "too long",
	} {
		l, err := weir.ParseLimit(text)
		if err == nil {
			t.Errorf("%q is read as %q", text, l)
			continue
		}
		var le *weir.LimitError
		if !errors.As(err, &le) || le.Text != text || le.Unwrap() == nil {
			t.Errorf("%q: the error is %#v", text, err)
		}
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("%q is refused with %q, want %q in it", text, err, reason)
		}
		if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 700 {
			t.Errorf("%q: the error is no single short line: %q", text, err)
		}
	}
}

// TestSpecRefused: what text can't say is refused in a Spec, too, and all faults
// are named at once.
func TestSpecRefused(t *testing.T) {
	for reason, s := range map[string]weir.Spec{
		"period is 0s":              {Count: 5},
		"whole microseconds":        {Count: 5, Period: 1500 * time.Nanosecond},
		"count of gcra is -1":       {Count: -1, Period: time.Second},
		"burst -2":                  {Count: 5, Period: time.Second, Burst: -2},
		"initial must be":           {Count: 5, Period: time.Second, Initial: new(int64(-1))},
		"debt -1":                   {Count: 5, Period: time.Second, Debt: -1},
		"queue must be":             {Count: 5, Period: time.Second, Algorithm: weir.LeakyQueue, Queue: new(int64(-1))},
		"unknown algorithm":         {Count: 5, Period: time.Second, Algorithm: 99},
		"not both":                  {Count: 5, Period: time.Second, Algorithm: weir.FixedWindow, Calendar: weir.Day},
		"a civil day is for":        {Count: 5, Period: time.Second, Calendar: weir.Day},
		"a number of sub-windows":   {Count: 5, Period: time.Second, SubWindows: 3},
		"-1 sub-windows":            {Count: 5, Period: time.Second, Algorithm: weir.SlidingWindow, SubWindows: -1},
		"warm-up takes 0s":          {Count: 5, Period: time.Second, Algorithm: weir.WarmUp},
		"a warm-up time is for":     {Count: 5, Period: time.Second, WarmUp: time.Second},
		"ttl -1ns":                  {Count: 5, Algorithm: weir.Concurrent, TTL: -1},
		"permits have no period":    {Count: 5, Algorithm: weir.Concurrent, Period: time.Second},
		"queue is for leaky-queue":  {Count: 5, Algorithm: weir.Concurrent, Queue: new(int64(1))},
		"conservative is for":       {Count: 5, Period: time.Second, Mode: weir.Conservative},
		"zone is for the civil day": {Count: 5, Period: time.Second, Algorithm: weir.FixedWindow, Zone: time.UTC},
	} {
		if l, err := s.Limit(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%+v gives %v, %v, want %q", s, l, err, reason)
		}
	}
	_, err := weir.Spec{Count: -1, Burst: -1}.Limit()
	for _, reason := range []string{"count", "burst", "period"} {
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("%q does not name the %s", err, reason)
		}
	}
}

// TestParsePrint: Parse(Print(l)) = l.
func TestParsePrint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		again, err := weir.ParseLimit(l.String())
		if err != nil {
			t.Fatal(err)
		}
		a, b := l.Spec(), again.Spec()
		if l.String() != again.String() || !sameSpec(a, b) {
			t.Fatalf("%q reads back as %q\n%+v\n%+v", l, again, a, b)
		}
		if text, err := l.MarshalText(); err != nil || string(text) != l.String() {
			t.Fatalf("marshals as %q, %v", text, err)
		}
	})
}

func sameSpec(a, b weir.Spec) bool {
	if (a.Initial == nil) != (b.Initial == nil) || a.Initial != nil && *a.Initial != *b.Initial {
		return false
	}
	if (a.Queue == nil) != (b.Queue == nil) || a.Queue != nil && *a.Queue != *b.Queue {
		return false
	}
	if (a.Zone == nil) != (b.Zone == nil) || a.Zone != nil && a.Zone.String() != b.Zone.String() {
		return false
	}
	a.Initial, a.Queue, a.Zone, b.Initial, b.Queue, b.Zone = nil, nil, nil, nil, nil, nil
	return a == b
}

// TestSpecIsACopy: a limit can't be changed through its Spec.
func TestSpecIsACopy(t *testing.T) {
	l := weir.MustParseLimit("5/s initial 2")
	*l.Spec().Initial = 4
	q := weir.MustParseLimit("5/s leaky-queue")
	*q.Spec().Queue = 1
	if *l.Spec().Initial != 2 || *q.Spec().Queue != 5 {
		t.Error("changing a Spec changed its limit")
	}
}

func TestMustParseLimitPanics(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "weir: limit") {
			t.Errorf("panics with %q", text)
		}
	}()
	weir.MustParseLimit("nonsense")
}

// FuzzParseLimit: no text is a crash, and what is read prints so that it reads
// the same, and decides.
func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{
		"100/min", "5/s burst 10 debt 3 initial 1", "1/year fixed-window zone Asia/Tokyo", "9 concurrent ttl 3h",
		"3/60s sliding-window 4 relaxed count-denied", "1/s warm-up 9s cold 7", "10/10s strict burst 2", "0/s leaky-queue",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := weir.ParseLimit(text)
		if err != nil {
			return
		}
		again, err := weir.ParseLimit(l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q prints %q, which reads as %v, %v", text, l, again, err)
		}
		var s weir.State
		for i, cost := range []int64{0, 1, weir.MaxCount, l.Spec().Count} {
			s, _ = take(l, s, weir.Instant(i)<<40, weir.Ask{Cost: min(cost, weir.MaxCount), Receipt: 1})
		}
		if l.Bound(time.Hour, 1) < 0 {
			t.Fatalf("%q has a bound below nothing", l)
		}
	})
}

// TestSpecOfLimit: what a limit says of itself makes it again.
func TestSpecOfLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		if again, err := l.Spec().Limit(); err != nil || again.String() != l.String() {
			t.Errorf("%s again: %v, %v", l, again, err)
		}
	})
}
