// Package table holds what was measured against its targets, and prints it.
package table

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Table is the rows of one run.
type Table struct {
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Rows    []Row  `json:"rows"`

	heads [3]string
}

// Row is one line of the table.
type Row struct {
	What     string `json:"what"`
	Weir     string `json:"weir"`
	Beside   string `json:"beside"`
	Measured string `json:"measured"`
	Target   string `json:"target"`
	Verdict  string `json:"verdict"`
}

// New is an empty table that says where it was measured. The heads are those of what was
// measured of Weir, of what stands beside it, and of the two together.
func New(weir, beside, measured string) *Table {
	return &Table{Machine: Machine(), Go: runtime.Version(), Commit: Commit(), heads: [3]string{weir, beside, measured}}
}

// Target is what a ratio must be. Nil asks for nothing.
type Target struct {
	bound float64
	most  bool    // else it is the least
	own   float64 // what ours may be at most by itself, unless 0
}

// AtMost is a target that smaller ratios meet.
func AtMost(bound float64) *Target { return &Target{bound: bound, most: true} }

// AtLeast is a target that larger ratios meet.
func AtLeast(bound float64) *Target { return &Target{bound: bound} }

// And says what Weir's own number may be at most, too.
func (t *Target) And(own float64) *Target {
	both := *t
	both.own = own
	return &both
}

func (t *Target) String() string {
	if t.most {
		return fmt.Sprintf("≤ %.2f", t.bound)
	}
	return fmt.Sprintf("≥ %.2f", t.bound)
}

// Verdict is whether measured meets the target, as the table writes it.
func (t *Target) Verdict(measured float64) string {
	if t.most == (measured <= t.bound) || measured == t.bound {
		return "pass"
	}
	return "MISS"
}

// Compare adds a line about two sides, measured in the same rounds. The ratio is
// the median of the ratios of the rounds.
func (t *Table) Compare(what, unit string, ours, theirs []float64, to *Target) {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	ratio := Median(ratios)
	r := Row{What: what, Weir: Spread(ours, unit), Beside: Spread(theirs, unit), Measured: fmt.Sprintf("%.2f", ratio)}
	if to != nil {
		r.Target, r.Verdict = to.String(), to.Verdict(ratio)
		if to.own > 0 {
			r.Target = fmt.Sprintf("≤ %.1f %s, %s", to.own, unit, r.Target)
			if Median(ours) > to.own {
				r.Verdict = AtMost(to.own).Verdict(Median(ours))
			}
		}
	}
	t.Rows = append(t.Rows, r)
}

// Median is the value in the middle.
func Median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Spread is the median with the least and the most.
func Spread(of []float64, unit string) string {
	form := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	if Median(of) >= 1000 {
		form = Count
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%s…%s) %s", form(Median(of)), form(slices.Min(of)), form(slices.Max(of)), unit))
}

// Count is a whole number, its thousands apart: 12,345.
func Count(x float64) string {
	text := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Print writes the table as a page has it, or as one JSON object.
func (t *Table) Print(to io.Writer, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(to)
		out.SetIndent("", "  ")
		return out.Encode(t)
	}
	var rows [][]string
	for _, row := range t.Rows {
		rows = append(rows, []string{row.What, row.Weir, row.Beside, row.Measured, Goal(row.Target, row.Verdict != "MISS")})
	}
	fmt.Fprintf(to, "%s, %s, commit %s\n", t.Machine, t.Go, t.Commit)
	return Grid(to, append(append([]string{""}, t.heads[:]...), "target"), rows)
}

const missed = ": missed"

// Goal is a goal as tables have it, with whether it was missed.
func Goal(goal string, met bool) string {
	if met {
		return goal
	}
	return goal + missed
}

// Grid writes rows as a table in Markdown, those with a missed goal first. It leaves out
// columns that have nothing.
func Grid(to io.Writer, head []string, rows [][]string) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b []string) int { return misses(b) - misses(a) })
	var of []int
	for i := range head {
		if slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			of = append(of, i)
		}
	}
	var text strings.Builder
	line := func(cells []string) {
		text.WriteString("|")
		for _, i := range of {
			text.WriteString(strings.TrimRight(" "+cells[i], " ") + " |")
		}
		text.WriteString("\n")
	}
	text.WriteString("\n")
	line(head)
	text.WriteString(strings.Repeat("|---", len(of)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// misses is 1 for a row with a missed goal, else 0.
func misses(row []string) int {
	if slices.ContainsFunc(row, func(cell string) bool { return strings.HasSuffix(cell, missed) }) {
		return 1
	}
	return 0
}

// Machine is what it was measured on.
func Machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d × %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model)
}

// Commit is what was measured.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
