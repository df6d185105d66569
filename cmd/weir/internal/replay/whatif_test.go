package replay

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// compared replays a log by rules and against others, both without their first
// line.
func compared(ctx context.Context, t rapid.TB, descriptors, against, log string) *Report {
	t.Helper()
	var sets [2]*rules.Set
	for i, d := range [...]string{descriptors, against} {
		var err error
		if sets[i], err = rules.Parse("test.yaml", []byte("domain: d\ndescriptors:\n"+d)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Log(ctx, Question{Rules: sets[0], Against: sets[1]}, accesslog.NewReader(strings.NewReader(log), accesslog.Auto, ""))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestWhatIf(t *testing.T) {
	const a, b = "192.0.2.1", "192.0.2.2"
	log := line(0, a, "GET /x HTTP/1.1") + line(1, a, "GET /x HTTP/1.1") + line(2, a, "GET /x HTTP/1.1") + // the second and third only by the rules
		line(70, b, "GET /x HTTP/1.1") + line(71, b, "POST /x HTTP/1.1") + // the latter by both
		line(140, b, "POST /y HTTP/1.1") // only by the others
	report := compared(t.Context(), t,
		"  - {key: remote_address, limits: [1/min]}\n  - {key: path, value: /y, shadow_mode: true, limits: [0/s]}",
		"  - {key: method, value: POST, name: post, limits: [0/s]}", log)
	var got bytes.Buffer
	if err := report.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	want := `{"rule":"d/remote_address","limit":"1/min","asked":6,"allowed":3,"denied":3,"impossible":0,"keys":2,"first_denied":"2026-05-04T10:00:01Z","top_denied":[{"key":"192.0.2.1","denied":2},{"key":"192.0.2.2","denied":1}]}
{"rule":"d/path=/y","limit":"0/s","asked":1,"allowed":0,"denied":0,"impossible":1,"keys":1,"first_denied":null,"top_denied":[]}
{"against":{"rule":"post","limit":"0/s","asked":2,"allowed":0,"denied":0,"impossible":2,"keys":1,"first_denied":null,"top_denied":[]}}
{"only_denied_by":"rules","lines":2,"first":"2026-05-04T10:00:01Z","last":"2026-05-04T10:00:02Z","rules":[{"rule":"d/remote_address","lines":2,"keys":1,"top":[{"key":"192.0.2.1","lines":2}]}]}
{"only_denied_by":"against","lines":1,"first":"2026-05-04T10:02:20Z","last":"2026-05-04T10:02:20Z","rules":[{"rule":"post","lines":1,"keys":1,"top":[{"key":"POST","lines":1}]}]}
{"denied_by_both":1}
{"from":"2026-05-04T10:00:00Z","seconds":60,"only_rules":2,"only_against":0}
{"from":"2026-05-04T10:02:00Z","seconds":60,"only_rules":0,"only_against":1}
{"lines":6,"skipped":0,"late":0,"from":"2026-05-04T10:00:00Z","to":"2026-05-04T10:02:20Z","passed":3}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWhatIfAddsUp holds the comparison to what each side says by itself: each
// address has one rule on each side, so what one denies and the other does not
// is what they count apart.
func TestWhatIfAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]string{"1/min", "2/min", "3/min fixed-window", "5/min sliding-log", "10/s", "0/s"})
		one, other := limit.Draw(t, "one"), limit.Draw(t, "other")
		var log strings.Builder
		second := 0
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			second += rapid.IntRange(0, 40).Draw(t, "step")
			log.WriteString(line(second, fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 3).Draw(t, "address")), "GET / HTTP/1.1"))
		}
		r := compared(context.Background(), t, fmt.Sprintf("  - {key: remote_address, limits: [%s]}", one), fmt.Sprintf("  - {key: remote_address, limits: [%s]}", other), log.String())
		denied := func(r RuleReport) int64 { return r.Denied + r.Impossible }
		a, b, w := denied(r.Rules[0]), denied(r.WhatIf.Against[0]), r.WhatIf
		if a != w.Only[0].Lines+w.Both || b != w.Only[1].Lines+w.Both {
			t.Fatalf("denied %d and %d, only %d and %d, both %d", a, b, w.Only[0].Lines, w.Only[1].Lines, w.Both)
		}
		if one == other && (w.Only[0].Lines > 0 || w.Only[1].Lines > 0) {
			t.Fatalf("%s differs from itself", one)
		}
		var timeline, top [2]int64
		for _, s := range w.Timeline {
			timeline[0] += s.OnlyRules
			timeline[1] += s.OnlyAgainst
		}
		for i := range w.Only {
			for _, rule := range w.Only[i].Rules {
				for _, k := range rule.Top {
					top[i] += k.Lines
				}
			}
		}
		if want := [2]int64{w.Only[0].Lines, w.Only[1].Lines}; timeline != want || top != want {
			t.Fatalf("only %v, on the timeline %v, by key %v", want, timeline, top)
		}
	})
}

func TestTimelineIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := weir.Instant(rapid.Int64Range(-1e15, 1e15).Draw(t, "start"))
		var d difference
		var n int64
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			at += weir.Instant(rapid.Int64Range(0, int64(1)<<rapid.IntRange(0, 46).Draw(t, "size")).Draw(t, "step"))
			d.bin(at).only[0]++
			n++
		}
		var sum int64
		for i, b := range d.bins {
			if sum += b.only[0]; i > 0 && b.number <= d.bins[i-1].number {
				t.Fatalf("stretches %v", d.bins)
			}
		}
		if sum != n || len(d.bins) > maxBins {
			t.Fatalf("%d of %d, in %d stretches", sum, n, len(d.bins))
		}
	})
	for i := range len(steps) - 1 {
		if steps[i+1]%steps[i] != 0 {
			t.Errorf("%v is no multiple of %v", steps[i+1], steps[i])
		}
	}
}

func TestWhatIfInWords(t *testing.T) {
	when, last := Time(1_777_888_800_000_000), Time(1_777_888_860_000_000)
	r := Report{
		Rules: []RuleReport{{Rule: "d/a", Limit: "1/s"}}, Log: LogReport{Lines: 1000},
		WhatIf: &WhatIf{
			Against: []RuleReport{{Rule: "d/a", Limit: "2/s"}}, Both: 999,
			Only:     [2]Only{{Denied: "rules", Lines: 1, First: &when, Last: &last, Rules: []OnlyRule{{"d/a", 1, 1, []KeyLines{{"x\n", 1}}}}}, {}},
			Timeline: []Stretch{{when, 60, 1, 0}},
		},
	}
	var got bytes.Buffer
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	want := `RULE  LIMIT  ASKED  ALLOWED  DENIED  IMPOSSIBLE  KEYS  FIRST DENIED
d/a   1/s        0        0       0           0     0  never

The rules of --against:

RULE  LIMIT  ASKED  ALLOWED  DENIED  IMPOSSIBLE  KEYS  FIRST DENIED
d/a   2/s        0        0       0           0     0  never

TREATED DIFFERENTLY       LINES     SHARE  FIRST                 LAST
denied only by --rules        1   0.100 %  2026-05-04T10:00:00Z  2026-05-04T10:01:00Z
denied only by --against      0       0 %  never
denied by both              999  99.900 %

DENIED ONLY BY --rules  KEY         LINES
d/a                     all: 1 key      1
                        x\n             1

IN 1 MINUTE FROM      ONLY --rules  ONLY --against
2026-05-04T10:00:00Z             1               0

1000 lines read
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for step, want := range map[time.Duration]string{10 * time.Minute: "10 MINUTES", 24 * time.Hour: "1 DAY", 100 * 24 * time.Hour: "100 DAYS"} {
		if got := inWords(step); got != want {
			t.Errorf("%v is %s", step, got)
		}
	}
}
