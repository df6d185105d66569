package weir_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/storetest"
)

const algorithmsPage = "docs/algorithms.md"

// TestDocumentExamples runs what docs/algorithms.md shows. Blocks marked weir
// are transcripts in the format of testdata/vectors; blocks marked timeline are
// pictures of one key, a column a step. With -update it writes the answers into
// the page.
func TestDocumentExamples(t *testing.T) {
	page, err := os.ReadFile(algorithmsPage)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(weir|timeline)\n(.*?)^```$")
	seen := 0
	now := blocks.ReplaceAllFunc(page, func(block []byte) []byte {
		seen++
		m := blocks.FindSubmatch(block)
		line := 2 + bytes.Count(page[:bytes.Index(page, block)], []byte("\n"))
		run := drawTimeline
		if string(m[1]) == "weir" {
			run = func(text []byte) ([]byte, error) { return storetest.Replay(text, storetest.NewModel()) }
		}
		got, err := run(m[2])
		if err != nil {
			t.Errorf("%s, block at line %d: %v", algorithmsPage, line, err)
			return block
		}
		if !*update && !bytes.Equal(got, m[2]) {
			t.Errorf("%s, block at line %d is\n%s\nbut the page has\n%s", algorithmsPage, line, got, m[2])
		}
		return fmt.Appendf(nil, "```%s\n%s```", m[1], got)
	})
	if seen < 10 {
		t.Errorf("found %d examples in %s; are they still marked?", seen, algorithmsPage)
	}
	if *update && !t.Failed() && !bytes.Equal(now, page) {
		if err := os.WriteFile(algorithmsPage, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// timeline is a picture of a limit at work on one key.
type timeline struct {
	limit *weir.Limit
	state weir.State
	from  weir.Instant
	step  weir.Instant
	asks  string
	rows  map[string][]byte
}

// drawTimeline draws a picture anew:
//
//	limit 5/s burst 3
//	every 100ms from 0s
//	time  0s        1s           the instants of the columns
//	ask   9.1111111111           events asked for, one by one; . is none
//	pass  3.1.1.1.1.1.           how many pass
//	go    ...                    how many go after their hold
//	left  0.....                 how many would pass after that; + is more than 9
func drawTimeline(text []byte) ([]byte, error) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	p := &timeline{rows: map[string][]byte{}}
	var order []string
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimLeft(rest, " ")
		switch name {
		case "limit":
			l, err := weir.ParseLimit(rest)
			if err != nil {
				return nil, err
			}
			p.limit = l
		case "every":
			step, from, _ := strings.Cut(rest, " from ")
			s, err := time.ParseDuration(step)
			if err != nil {
				return nil, err
			}
			f, err := time.ParseDuration(from)
			if err != nil {
				return nil, err
			}
			p.step, p.from = weir.Instant(s.Microseconds()), weir.Instant(f.Microseconds())
		case "ask":
			p.asks = rest
			fallthrough
		default:
			order = append(order, name)
		}
	}
	if p.limit == nil || p.step == 0 || p.asks == "" {
		return nil, fmt.Errorf("a timeline needs limit, every … from … and ask")
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s\n", lines[0], lines[1])
	for _, name := range order {
		row := p.rows[name]
		if row == nil {
			return nil, fmt.Errorf("unknown row %q", name)
		}
		fmt.Fprintf(&out, "%-5s %s\n", name, bytes.TrimRight(row, " "))
	}
	return out.Bytes(), nil
}

func (p *timeline) run() error {
	n := len(p.asks)
	pass, left, gone := make([]int, n), make([]int, n), make([]int, n)
	for i, c := range []byte(p.asks) {
		events, err := strconv.Atoi(strings.ReplaceAll(string(c), ".", "0"))
		if err != nil {
			return fmt.Errorf("ask %q: digits and dots", p.asks)
		}
		now := p.from + weir.Instant(i)*p.step
		for range events {
			d := p.take(now)
			if d.Outcome != weir.Allowed {
				continue
			}
			pass[i]++
			if at := i + int(d.Hold.Microseconds()/int64(p.step)); at < n {
				gone[at]++
			}
		}
		remaining, _ := p.limit.Standing(p.state, now)
		left[i] = int(remaining)
	}
	p.rows["ask"], p.rows["pass"], p.rows["go"] = []byte(p.asks), digits(pass, '.'), digits(gone, '.')
	p.rows["left"], p.rows["time"] = digits(left, '0'), p.ruler()
	return nil
}

func (p *timeline) take(now weir.Instant) weir.Decision {
	asks := []weir.Ask{{Limit: p.limit, Cost: 1}}
	out := []weir.Decision{p.limit.Decide(p.state, now, &asks[0])}
	weir.Resolve(asks, out)
	p.state = p.limit.Commit(p.state, now, &asks[0], &out[0])
	return out[0]
}

// ruler has the time of every tenth column.
func (p *timeline) ruler() []byte {
	row := bytes.Repeat([]byte(" "), len(p.asks)+10)
	for i := 0; i < len(p.asks); i += 10 {
		at := time.Duration(p.from+weir.Instant(i)*p.step) * time.Microsecond
		text := at.String()
		if at >= time.Minute {
			text = strings.TrimSuffix(text, "0s")
		}
		copy(row[i:], text)
	}
	return row
}

func digits(counts []int, none byte) []byte {
	row := make([]byte, len(counts))
	for i, n := range counts {
		switch {
		case n == 0:
			row[i] = none
		case n > 9:
			row[i] = '+'
		default:
			row[i] = '0' + byte(n)
		}
	}
	return row
}

// TestDocumentTables checks the numbers in the tables of docs/algorithms.md
// whose first column is "Limit".
func TestDocumentTables(t *testing.T) {
	page, err := os.ReadFile(algorithmsPage)
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	checked := 0
	for i, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = nil
		case cells[0] == "Limit":
			columns = cells
		case columns != nil && strings.HasPrefix(cells[0], "`"):
			l, err := weir.ParseLimit(strings.Trim(cells[0], "`"))
			if err != nil {
				t.Fatalf("%s:%d: %v", algorithmsPage, i+1, err)
			}
			for j, cell := range cells {
				want, known := fact(l, columns[j])
				if known && want != cell {
					t.Errorf("%s:%d: %s of %s is %s, the page has %s", algorithmsPage, i+1, columns[j], l, want, cell)
				}
				if known {
					checked++
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("checked %d numbers of %s; are its tables still there?", checked, algorithmsPage)
	}
}

// fact is what the column of a table says about l, where a program can tell.
func fact(l *weir.Limit, column string) (string, bool) {
	period := l.Spec().Period
	bound := func(width time.Duration, largest int64) (string, bool) {
		return strconv.FormatInt(l.Bound(width, largest), 10), true
	}
	switch column {
	case "In one instant":
		return bound(time.Microsecond, 1)
	case "In any period":
		return bound(period, 1)
	case "By costs of 10":
		return bound(period, 10)
	case "In any 10 periods":
		return bound(10*period, 1)
	case "In any 5min":
		return bound(5*time.Minute, 1)
	case "Interval":
		return interval(l).String(), true
	case "Long run, a period":
		return strconv.FormatInt(int64(period/interval(l)), 10), true
	case "Settles at":
		return strconv.FormatFloat(settles(l), 'g', -1, 64), true
	case "State, bytes":
		if l.Words() > 0 {
			return strconv.Itoa(8 * l.Words()), true
		}
	}
	return "", false
}

// interval is how long an emptied bucket takes to pass one event more.
func interval(l *weir.Limit) time.Duration {
	p := &timeline{limit: l}
	for range l.Spec().Burst {
		p.take(0)
	}
	return p.take(0).RetryAfter
}

// settles is how many events pass in a period, on average over a hundred, when
// twice the count is asked for at an even pace and has been for a while.
func settles(l *weir.Limit) float64 {
	period := weir.Instant(l.Spec().Period.Microseconds())
	p, passed := &timeline{limit: l}, 0
	for i := range 110 * 2 * l.Spec().Count {
		now := weir.Instant(i) * period / weir.Instant(2*l.Spec().Count)
		if p.take(now).Outcome == weir.Allowed && now >= 10*period {
			passed++
		}
	}
	return float64(passed) / 100
}

// TestDocumentHasAllWords finds words of limit text that the page leaves out.
func TestDocumentHasAllWords(t *testing.T) {
	page, err := os.ReadFile(algorithmsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, err = weir.ParseLimit("1/s nonsense")
	_, list, _ := strings.Cut(err.Error(), "the words are ")
	words := append(strings.Split(list, ", "), "concurrent")
	if len(words) < 20 || !slices.Contains(words, "gcra") {
		t.Fatalf("the parser names the words %q", words)
	}
	for _, w := range words {
		if !regexp.MustCompile("`" + regexp.QuoteMeta(w) + "[ `]").Match(page) {
			t.Errorf("%s does not tell what `%s` means", algorithmsPage, w)
		}
	}
}

// TestEnvoyDifferences: programs and transcripts speak of the differences in
// docs/envoy.md by their numbers, so each must be there, once.
func TestEnvoyDifferences(t *testing.T) {
	page, err := os.ReadFile("docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| (D\d+) \| [^|]{20,} \| [^|]{10,} \|$`).FindAllSubmatch(page, -1) {
		rows[string(m[1])]++
	}
	for i := range rows {
		if rows[i] != 1 {
			t.Errorf("%s stands %d times in the tables", i, rows[i])
		}
	}
	if len(rows) < 30 || rows[fmt.Sprintf("D%d", len(rows))] != 1 {
		t.Errorf("%d differences, not all from D1 on: %v", len(rows), rows)
	}
	files, err := filepath.Glob("cmd/weir/internal/daemon/testdata/envoy/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, name := range append(files, "docs/envoy.md", "cmd/weir/internal/importenv/variables.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range regexp.MustCompile(`\bD\d+\b`).FindAllString(string(text), -1) {
			if rows[id] == 0 {
				t.Errorf("%s speaks of %s, which docs/envoy.md does not list", name, id)
			}
		}
	}
}

// TestDecisionNumbers: a decision is spoken of by its number.
func TestDecisionNumbers(t *testing.T) {
	names, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	by := map[string]string{}
	for _, name := range names {
		number, _, _ := strings.Cut(filepath.Base(name), "-")
		if by[number] != "" {
			t.Errorf("%s and %s have one number", by[number], name)
		}
		by[number] = name
	}
}

// TestDecisionHeads: below its title, a decision says from when it is and whether it
// still holds.
func TestDecisionHeads(t *testing.T) {
	names, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	head := regexp.MustCompile(`^# .{20,116}\n\nDate: (\S+)\nStatus: (?:Accepted|Superseded by \[\d{4}\]\((\S+\.md)\))\n\n`)
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindSubmatch(page)
		if m == nil {
			t.Errorf("%s does not begin with a title, its date and its status", name)
			continue
		}
		if _, err := time.Parse(time.DateOnly, string(m[1])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if later := string(m[2]); later != "" && later <= filepath.Base(name) {
			t.Errorf("%s is superseded by %s, which is not later", name, later)
		}
	}
}
