package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/table"
)

// WhatIf is how other rules would have treated the same requests.
type WhatIf struct {
	Against  []RuleReport // of the other rules
	Only     [2]Only      // what the rules alone deny, and what the others alone deny
	Both     int64        // requests that both deny
	Timeline []Stretch    // where something differs, in order; at most 60
}

// sides are the names of Only.
var sides = [2]string{"rules", "against"}

// Only is the requests that one set of rules denies and the other lets pass. A
// request is denied when an enforced rule denies it; what shadow rules say keeps
// nobody out.
type Only struct {
	Denied string     `json:"only_denied_by"` // rules, or against
	Lines  int64      `json:"lines"`
	First  *Time      `json:"first"` // nil without lines
	Last   *Time      `json:"last"`
	Rules  []OnlyRule `json:"rules"` // that denied them, in the order of their files
}

// OnlyRule is what one rule denied of the requests that the other rules let
// pass. A request that several rules deny counts for each.
type OnlyRule struct {
	Rule  string     `json:"rule"`
	Lines int64      `json:"lines"`
	Keys  int64      `json:"keys"` // whose requests they are
	Top   []KeyLines `json:"top"`  // the keys with the most of them, at most TopKeys
}

// KeyLines is how many requests of a key there are.
type KeyLines struct {
	Key   string `json:"key"`
	Lines int64  `json:"lines"`
}

// Stretch is a part of the timeline.
type Stretch struct {
	From        Time  `json:"from"`
	Seconds     int64 `json:"seconds"` // how long it is
	OnlyRules   int64 `json:"only_rules"`
	OnlyAgainst int64 `json:"only_against"`
}

// againstLine is a rule of the other rules, as a line of JSON.
type againstLine struct {
	Against *RuleReport `json:"against"`
}

// bothLine is the requests that both rules deny.
type bothLine struct {
	Both int64 `json:"denied_by_both"`
}

// lines is the values that make lines of JSON.
func (w *WhatIf) lines() []any {
	var lines []any
	for i := range w.Against {
		lines = append(lines, againstLine{&w.Against[i]})
	}
	lines = append(lines, &w.Only[0], &w.Only[1], bothLine{w.Both})
	for i := range w.Timeline {
		lines = append(lines, &w.Timeline[i])
	}
	return lines
}

// write writes what differs for people.
func (w *WhatIf) write(b *strings.Builder, log *LogReport) {
	b.WriteString("\nThe rules of --against:\n\n")
	writeRules(b, w.Against)
	b.WriteByte('\n')
	sums := table.Table{Rows: [][]string{{"TREATED DIFFERENTLY", "LINES", "SHARE", "FIRST", "LAST"}}, From: 1, To: 3}
	for i, text := range [...]string{"denied only by --rules", "denied only by --against"} {
		o := &w.Only[i]
		row := []string{text, strconv.FormatInt(o.Lines, 10), Share(o.Lines, log.Lines), "never", ""}
		if o.Lines > 0 {
			row[3], row[4] = o.First.String(), o.Last.String()
		}
		sums.Rows = append(sums.Rows, row)
	}
	sums.Rows = append(sums.Rows, []string{"denied by both", strconv.FormatInt(w.Both, 10), Share(w.Both, log.Lines), "", ""})
	sums.Write(b)
	for i, head := range [...]string{"DENIED ONLY BY --rules", "DENIED ONLY BY --against"} {
		w.Only[i].write(b, head)
	}
	w.writeTimeline(b)
}

func (o *Only) write(b *strings.Builder, head string) {
	if o.Lines == 0 {
		return
	}
	t := table.Table{Rows: [][]string{{head, "KEY", "LINES"}}, From: 2, To: 3}
	for i := range o.Rules {
		r := &o.Rules[i]
		keys := "1 key"
		if r.Keys != 1 {
			keys = strconv.FormatInt(r.Keys, 10) + " keys"
		}
		t.Rows = append(t.Rows, []string{shown(r.Rule), "all: " + keys, strconv.FormatInt(r.Lines, 10)})
		for _, k := range r.Top {
			t.Rows = append(t.Rows, []string{"", shown(k.Key), strconv.FormatInt(k.Lines, 10)})
		}
	}
	b.WriteByte('\n')
	t.Write(b)
}

func (w *WhatIf) writeTimeline(b *strings.Builder) {
	if len(w.Timeline) == 0 {
		return
	}
	step := time.Duration(w.Timeline[0].Seconds) * time.Second
	t := table.Table{Rows: [][]string{{"IN " + inWords(step) + " FROM", "ONLY --rules", "ONLY --against"}}, From: 1, To: 3}
	for _, s := range w.Timeline {
		t.Rows = append(t.Rows, []string{s.From.String(), strconv.FormatInt(s.OnlyRules, 10), strconv.FormatInt(s.OnlyAgainst, 10)})
	}
	b.WriteByte('\n')
	t.Write(b)
}

// inWords is a step of a timeline in capitals.
func inWords(step time.Duration) string {
	for _, unit := range [...]struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "DAY"}, {time.Hour, "HOUR"}, {time.Minute, "MINUTE"}} {
		switch n := step / unit.of; {
		case n == 1:
			return "1 " + unit.name
		case n > 1:
			return fmt.Sprintf("%d %sS", n, unit.name)
		}
	}
	return step.String()
}

// Share is part of whole in percent: with as many decimals as tell it from 0 and
// from 100, three at most.
func Share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	millis := part * 100_000 / whole // in thousandths of a percent; there are fewer than 2^46 lines
	switch {
	case part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	case millis == 0:
		return "< 0.001 %"
	case millis < 1_000 || millis >= 99_000:
		return fmt.Sprintf("%d.%03d %%", millis/1000, millis%1000)
	}
	return fmt.Sprintf("%d.%d %%", millis/1000, millis%1000/100)
}
