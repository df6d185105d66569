// Package transcripttest replays files of paragraphs, each with what is asked, and
// below ---- what came of it. Lines that begin with # are comments.
package transcripttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// Run compares each file that fits pattern with what replay makes of its text, in a
// bubble where time begins at 2000-01-01T00:00:00Z, or rewrites it.
func Run(t *testing.T, pattern string, rewrite bool, replay func(t *testing.T, text string) string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = replay(t, string(want)) })
			if rewrite {
				if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got; if it is meant: go test -update\n%s", diff)
			}
		})
	}
}

// Answer is text with what answer says to each paragraph, by its lines without
// comments.
func Answer(text string, answer func(lines []string) string) string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n\n") {
		asked, _, _ := strings.Cut(paragraph, "\n----")
		var lines []string
		for line := range strings.SplitSeq(asked, "\n") {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			out = append(out, asked)
			continue
		}
		out = append(out, strings.TrimSuffix(asked+"\n----\n"+answer(lines), "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}
