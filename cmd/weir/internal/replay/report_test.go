package replay

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

func TestTally(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors: [{key: path, limits: [1/s]}]"))
	if err != nil {
		t.Fatal(err)
	}
	tally := newTally(set.Rules()[0], &bounds{keys: 20, nameBytes: 25})
	for i := range 30 {
		key := strconv.Itoa(i)
		tally.count(1, weir.Allowed, key)
		for denied := range i % 12 {
			if n := tally.count(weir.Instant(100-i), weir.Denied, key); n >= 0 && denied == 0 {
				tally.name(key, "name "+key)
			}
		}
	}
	r := tally.report()
	if r.Keys != 20 || r.KeysDenied != 18 || !r.KeysMore || r.Allowed != 30 || r.Denied != 66+66+15 || r.Asked != r.Allowed+r.Denied || *r.FirstDenied != 99 {
		t.Errorf("got %+v", r)
	}
	// The names of 1 to 4 have room; 3131 stands for the key 11.
	want := []KeyDenied{{"3131", 11}, {"3130", 10}, {"39", 9}, {"38", 8}, {"3139", 7}, {"37", 7}, {"3138", 6}, {"36", 6}, {"3137", 5}, {"35", 5}}
	if diff := cmp.Diff(want, r.TopDenied); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	when := Time(1_777_888_800_000_000)
	r := Report{
		Rules: []RuleReport{
			{Rule: "d/path", Limit: "1/s", Asked: 12345, Allowed: 12000, Denied: 345, Keys: 1_000_000, KeysMore: true, FirstDenied: &when, TopDenied: []KeyDenied{
				{"/a\x1b[31m\xff\ufffdé\u202e", 340}, {strings.Repeat("x", 80), 5},
			}},
			{Rule: "long name of a rule", Limit: "10/s", Shadow: true},
		},
		Log: LogReport{
			Lines: 12345, Skipped: 3, Late: 2, Early: 3, TooLong: 4, Costless: 6, Forgotten: 5, From: &when, To: &when,
			Damaged: []accesslog.Damaged{{Line: 7, Fault: accesslog.NoTime}, {Line: 9, Fault: accesslog.TooLong}},
		},
	}
	want := `RULE                          LIMIT  ASKED  ALLOWED  DENIED  IMPOSSIBLE       KEYS  FIRST DENIED
d/path                        1/s    12345    12000     345           0  ≥ 1000000  2026-05-04T10:00:00Z
long name of a rule (shadow)  10/s       0        0       0           0          0  never

DENIED MOST  KEY                                                            DENIED
d/path       /a\x1b[31m\xff` + "\ufffd" + `é\u202e                                            340
             xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…       5

12345 lines read, from 2026-05-04T10:00:00Z to 2026-05-04T10:00:00Z
3 lines skipped: no address, time, request or status could be read
  line 7: no time
  line 9: longer than 1 MiB
  and 1 more
2 lines too late to be put in order: decided at the newest time so far
3 lines decided early: more lines than could be held in 2 minutes
4 lines with a value over 4096 bytes: rules were not asked about it
6 lines without a cost from 0 to 1073741824: rules were not asked about it
5 states given up for want of room: take the numbers as estimates
`
	var got bytes.Buffer
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
