package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the sessions in the documents; read the diff")

// TestPages runs the console sessions of documents, on the files that they show:
// the block before marked env is ratelimit.env, and a block whose first line is
// # NAME is that file. The examples are there, too. Of a session, stderr stands
// before stdout.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		page     string
		sessions int // at least
	}{{"envoy.md", 2}, {"replay.md", 4}, {"simulate.md", 8}, {"sizing.md", 3}} {
		t.Run(c.page, func(t *testing.T) { testPage(t, filepath.Join("../../docs", c.page), c.sessions) })
	}
}

func testPage(t *testing.T, name string, atLeast int) {
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	blocks := regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	files := regexp.MustCompile(`^# (\S+)\n`)
	sessions := 0
	now := blocks.ReplaceAllFunc(page, func(block []byte) []byte {
		m := blocks.FindSubmatch(block)
		kind, text := string(m[1]), m[2]
		file := files.FindSubmatch(text)
		switch {
		case kind == "env":
			file = [][]byte{nil, []byte("ratelimit.env")}
			fallthrough
		case file != nil:
			if err := os.WriteFile(string(file[1]), text, 0o600); err != nil {
				t.Fatal(err)
			}
		case kind == "console":
			sessions++
			return fmt.Appendf(nil, "```console\n%s```", session(t, string(text)))
		}
		return block
	})
	if sessions < atLeast {
		t.Errorf("found %d sessions", sessions)
	}
	if *update {
		if err := os.WriteFile(name, now, 0o600); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(string(page), string(now)); d != "" {
		t.Errorf("the page is not what weir says, rewrite with -update:\n%s", d)
	}
}

// session runs the commands of a session again, with more arguments. One may end
// in >FILE.
func session(t *testing.T, text string, more ...string) string {
	t.Helper()
	var out bytes.Buffer
	for line := range strings.SplitSeq(text, "\n") {
		command, ok := strings.CutPrefix(line, "$ weir ")
		if !ok {
			continue
		}
		fmt.Fprintln(&out, line)
		command, file, _ := strings.Cut(command, " >")
		var args []string
		for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
			args = append(args, strings.Trim(word, `"`))
		}
		args = append(args, more...)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code == exitUsage || code == exitFail {
			t.Errorf("%s: exit %d", line, code)
		}
		out.Write(stderr.Bytes())
		if file == "" {
			out.Write(stdout.Bytes())
		} else if err := os.WriteFile(file, stdout.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
