package protocol

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
)

const protocolPage = "../../../docs/cluster-protocol.md"

// TestProtocol holds docs/cluster-protocol.md to the code: its times are the constants, and the code has each
// invariant beside the lines that keep it.
func TestProtocol(t *testing.T) {
	bytes, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(bytes)
	times := map[string]time.Duration{
		"Life": member.Life, "Margin": member.Margin, "Horizon": Horizon, "Retry": Retry, "Patience": Patience, "Idle": Idle, "Pulse": member.Pulse,
		"Silence": member.Silence, "settle": member.Settle(1).Duration(), "Lasting": Lasting, "Quorum": member.Quorum, "Flap": member.Flap, "Flapping": member.Flapping, "Slow": bounds.Slow, "Farewell": member.Farewell,
	}
	told := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\d+ \\w+) \\|").FindAllStringSubmatch(page, -1) {
		told[row[1]] = true
		d, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(row[2]))
		if want, ok := times[row[1]]; err != nil || !ok || d != want {
			t.Errorf("%s is %v in the code, and %s on the page: %v", row[1], want, row[2], err)
		}
	}
	for name := range times {
		if !told[name] {
			t.Errorf("the page does not tell %s", name)
		}
	}
	// member.TestTimes is about 33 and 50; 35 s is of the daemon: docs/cluster.md.
	numbers := []string{"1", "33", "50", "35 s"}
	_, text, _ := strings.Cut(page, "## In one")
	text = regexp.MustCompile("(?m)`[^`]*`|\\]\\([^)]*\\)|\\*\\*I\\d+\\*\\*|\\bI\\d+\\b|^\\|.*$").ReplaceAllString(text, "")
	for _, n := range regexp.MustCompile(`\d[\d,.]*( ms| min| s\b| %)?`).FindAllString(text, -1) {
		if n = strings.TrimRight(n, ",."); !slices.Contains(numbers, n) {
			t.Errorf("the page tells %q, which no constant is held to", n)
		}
	}
	invariants(t, page)
}

// invariants holds page and code to the same ones. The first is the goal.
func invariants(t *testing.T, page string) {
	t.Helper()
	var files []string
	for _, room := range []string{"*.go", "../member/*.go", "../lease/*.go", "../ledger/*.go", "../holder/*.go"} {
		found, err := filepath.Glob(room)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	kept := map[string]bool{"I1": true}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, comment := range regexp.MustCompile(`// (I\d+(?:, I\d+)*)\n`).FindAllStringSubmatch(string(code), -1) {
			for id := range strings.SplitSeq(comment[1], ", ") {
				kept[id] = true
			}
		}
	}
	told := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^- \*\*(I\d+)\*\* `).FindAllStringSubmatch(page, -1) {
		if told[row[1]] {
			t.Errorf("the page tells %s twice", row[1])
		}
		told[row[1]] = true
		if !kept[row[1]] {
			t.Errorf("no line of the code says that it keeps %s", row[1])
		}
	}
	for id := range kept {
		if !told[id] {
			t.Errorf("the code keeps %s, which the page does not tell", id)
		}
	}
	for _, id := range regexp.MustCompile(`\bI\d+\b`).FindAllString(page, -1) {
		if !told[id] {
			t.Errorf("the page speaks of %s, and does not tell it", id)
		}
	}
}
