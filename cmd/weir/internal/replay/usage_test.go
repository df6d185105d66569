package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

var usageStart = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)

// usageRecord is the line of one.
func usageRecord(t interface{ Fatal(...any) }, id string, second int, more usagelog.Record) string {
	more.ID, more.Rows, more.Domain = id, 9, "d"
	more.From = usageStart.Add(time.Duration(second) * time.Second)
	more.To = more.From.Add(time.Second)
	b, err := json.Marshal(&more)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// replayed is the report of a replay of lines.
func replayed(t interface{ Fatal(...any) }, rules string, json bool, lines ...string) (string, error) {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system clears such directories, too
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = RunUsage(context.Background(), Options{Rules: file, JSON: json}, func(_ context.Context, f func([]byte) error) error {
		for _, line := range lines {
			if err := f([]byte(line)); err != nil {
				return err
			}
		}
		return nil
	}, &out)
	return out.String(), err
}

const usageRules = `domain: d
descriptors:
  - {key: user, limits: [3/min, 100/h]}
  - {key: tenant, unlimited: true}
  - {key: path, name: paths, shadow_mode: true, limits: [10/min]}
`

// TestUsage: rules are asked about what records of their names tell, each once, and the rest is told.
func TestUsage(t *testing.T) {
	rules := strings.Replace(usageRules, "unlimited: true", "rate_limit: {unlimited: true}", 1)
	got, err := replayed(t, rules, false,
		usageRecord(t, "n/1/1/0", 0, usagelog.Record{Rule: "d/user#2", Key: "ann", Allowed: 5, AllowedEvents: 5}),
		usageRecord(t, "n/1/1/1", 0, usagelog.Record{Rule: "d/user#1", Key: "ann", Allowed: 3, Denied: 2, AllowedEvents: 3, DeniedEvents: 2}),
		usageRecord(t, "n/1/1/1", 0, usagelog.Record{Rule: "d/user#1", Key: "ann", Allowed: 3, Denied: 2, AllowedEvents: 3, DeniedEvents: 2}),
		"hello\n",
		usageRecord(t, "n/1/2/0", 1, usagelog.Record{Rule: "d/user", Key: "bob", Allowed: 2, AllowedEvents: 8, Impossible: 1}),
		usageRecord(t, "m/1/1/0", 0, usagelog.Record{Rule: "d/user", Key: "ann", Denied: 1, DeniedEvents: 1}),
		usageRecord(t, "n/1/2/1", 1, usagelog.Record{Rule: "d/user", Other: true, Denied: 7}),
		usageRecord(t, "n/1/2/2", 1, usagelog.Record{Rule: "d/tenant", Key: "t", Allowed: 1}),
		usageRecord(t, "n/1/2/3", 1, usagelog.Record{Rule: "paths", Key: "/a", Allowed: 4, AllowedEvents: 40}),
		usageRecord(t, "n/1/2/4", 1, usagelog.Record{Rule: "paths", Key: "/a", Shadow: true, Denied: 1, DeniedEvents: 10}),
		usageRecord(t, "n/1/2/5", 1, usagelog.Record{Rule: "d/gone", Key: "x", Allowed: 4}),
		usageRecord(t, "n/1/2/6", 1, usagelog.Record{Rule: "paths", Key: "/b", Settled: 1}),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `RULE            LIMIT      ASKED  ALLOWED  DENIED  IMPOSSIBLE  KEYS  FIRST DENIED
d/user#1        3/min          8        3       3           2     2  2026-11-23T10:00:00.4Z
d/user#2        100/h          8        8       0           0     2  never
d/tenant        unlimited      1        1       0           0     1  never
paths (shadow)  10/min         5        1       4           0     1  2026-11-23T10:00:01.2Z

DENIED MOST  KEY  DENIED
d/user#1     ann       3
paths        /a        4

10 records read: 14 requests, from 2026-11-23T10:00:00Z to 2026-11-23T10:00:01.8Z; 9 passed, 5 were kept out
records that came again, and count once: 1
lines that are no records: 1
records of rules that the file does not have: 1
requests of keys that were counted together, which no rule was asked about: 7
requests that cost more than their limit can pass, which no rule was asked about: 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestUsageAgain: the rules that made a log allow, from the log, what they allowed, when requests came
// evenly.
func TestUsageAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"7/min", "5/s burst 9", "20/min fixed-window", "9/min sliding-log", "30/min sliding-window 6"}).Draw(t, "limit")
		limit := weir.MustParseLimit(text)
		var state weir.State
		var lines []string
		var allowed, denied int64
		for second := range rapid.IntRange(1, 30).Draw(t, "seconds") {
			r := usagelog.Record{Rule: "d/user", Key: "ann"}
			n := rapid.Int64Range(0, 12).Draw(t, "requests")
			s := span{from: weir.InstantOf(usageStart.Add(time.Duration(second) * time.Second)), requests: n}
			s.to = s.from + weir.Instant(time.Second/time.Microsecond)
			for ; s.done < n; s.done++ {
				asks := []weir.Ask{{Limit: limit, Cost: 1}}
				out := []weir.Decision{limit.Decide(state, s.at(), &asks[0])}
				weir.Resolve(asks, out)
				state = limit.Commit(state, s.at(), &asks[0], &out[0])
				if out[0].Outcome == weir.Allowed {
					r.Allowed, r.AllowedEvents = r.Allowed+1, r.AllowedEvents+1
				} else {
					r.Denied, r.DeniedEvents = r.Denied+1, r.DeniedEvents+1
				}
			}
			allowed, denied = allowed+r.Allowed, denied+r.Denied
			lines = append(lines, usageRecord(t, fmt.Sprintf("n/1/%d/0", second+1), second, r))
		}
		got, err := replayed(t, "domain: d\ndescriptors:\n  - {key: user, limits: ["+text+"]}\n", true, lines...)
		var report struct{ Allowed, Denied int64 }
		if err := errors.Join(err, json.Unmarshal([]byte(strings.SplitAfter(got, "\n")[0]), &report)); err != nil {
			t.Fatal(err)
		}
		if report.Allowed != allowed || report.Denied != denied {
			t.Fatalf("allowed %d and denied %d, the log says %d and %d", report.Allowed, report.Denied, allowed, denied)
		}
	})
}

// TestUsageBad: a log without a record is bad input, and so is a domain that is not there.
func TestUsageBad(t *testing.T) {
	rules := "domain: d\ndescriptors:\n  - {key: user, limits: [1/s]}\n"
	_, err := replayed(t, rules, false, "hello\n", usageRecord(t, "n/1/x/0", 0, usagelog.Record{}))
	if _, ok := errors.AsType[*accesslog.InputError](err); !ok || !strings.Contains(err.Error(), "no record, and 2 lines that are none") {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	err = RunUsage(t.Context(), Options{Rules: file, Domain: "e"}, nil, nil)
	if _, ok := errors.AsType[*accesslog.InputError](err); !ok {
		t.Error(err)
	}
}

// TestUsageOrder: records count once in whatever order they come: a topic of Kafka that got more partitions
// has those of one process in several.
func TestUsageOrder(t *testing.T) {
	var lines []string
	for _, interval := range []int{3, 1, 2} {
		for row, rule := range []string{"d/user#2", "d/user#1"} {
			id := fmt.Sprintf("n/1/%d/%d", interval, row)
			lines = append(lines, usageRecord(t, id, interval, usagelog.Record{Rule: rule, Key: "ann", Allowed: 1, AllowedEvents: 1}))
		}
	}
	lines[1], lines[2] = lines[2], lines[1]
	got, err := replayed(t, usageRules, false, append(lines, lines...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 records read: 3 requests,", "count once: 6"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %q", got, want)
		}
	}
}

// TestUsageEnds: records that no daemon writes do no harm, and one that tells of more requests than can
// be asked about ends when the user wants it.
func TestUsageEnds(t *testing.T) {
	_, err := replayed(t, usageRules, false, usageRecord(t, "n/1/1/0", 0, usagelog.Record{Rule: "d/user", Key: "ann", Allowed: -5}))
	if _, ok := errors.AsType[*accesslog.InputError](err); !ok {
		t.Errorf("a record of −5 requests: %v", err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(usageRules), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	line := usageRecord(t, "n/1/1/0", 0, usagelog.Record{Rule: "d/user#1", Key: "ann", Denied: 1 << 50})
	err = RunUsage(ctx, Options{Rules: file}, func(_ context.Context, f func([]byte) error) error { return f([]byte(line)) }, new(bytes.Buffer))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a record of many requests: %v", err)
	}
}
