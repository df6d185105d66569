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

var update = flag.Bool("update", false, "rewrite the sessions in docs/envoy.md; read the diff")

// TestEnvoyPage runs the console sessions of docs/envoy.md, on the files that
// it shows: the block before marked env is ratelimit.env, and a block whose first
// line is # NAME is that file. Of a session, stderr stands before stdout.
func TestEnvoyPage(t *testing.T) {
	name, err := filepath.Abs("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
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
	if sessions < 2 {
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

// session runs the commands of a session again.
func session(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	for line := range strings.SplitSeq(text, "\n") {
		command, ok := strings.CutPrefix(line, "$ weir ")
		if !ok {
			continue
		}
		fmt.Fprintln(&out, line)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(command), strings.NewReader(""), &stdout, &stderr); code == exitUsage || code == exitFail {
			t.Errorf("%s: exit %d", line, code)
		}
		out.Write(stderr.Bytes())
		out.Write(stdout.Bytes())
	}
	return out.String()
}
