package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
)

// TestHelpColumns: the texts of all flags of a command stand in one column, also below ADDR,….
func TestHelpColumns(t *testing.T) {
	seen, wide := 0, 0
	eachCommand(rootCommand(), func(c *cobra.Command) {
		columns := map[int]string{}
		lines := strings.Split(strings.TrimSpace(c.UsageString()), "\n")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			seen++
			name, usage := pflag.UnquoteUsage(f)
			if strings.Contains(usage, theValues) {
				t.Errorf("%s --%s does not say its values: %s", c.CommandPath(), f.Name, usage)
			}
			at := slices.IndexFunc(lines, func(line string) bool {
				return strings.Contains(line, "--"+f.Name+" ") && strings.Contains(line, " "+usage)
			})
			if at < 0 {
				t.Errorf("%s --%s is not in its help", c.CommandPath(), f.Name)
				return
			}
			if strings.Contains(name, "…") {
				wide++
			}
			columns[utf8.RuneCountInString(lines[at][:strings.Index(lines[at], " "+usage)])] = f.Name
		})
		if len(columns) > 1 {
			t.Errorf("%s: texts begin in columns %v", c.CommandPath(), columns)
		}
	})
	if seen < 100 || wide < 4 {
		t.Errorf("%d flags, %d with a wide character", seen, wide)
	}
}

// TestStoreSchemes: what shells complete is a store.
func TestStoreSchemes(t *testing.T) {
	for _, scheme := range daemon.StoreSchemes() {
		if err := daemon.CheckStore(scheme); err != nil && strings.Contains(err.Error(), "this is no store") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// completed is what a shell offers behind the words of a command line.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	var out, told bytes.Buffer
	if code := run(t.Context(), append([]string{"__complete"}, words...), strings.NewReader(""), &out, &told); code != exitYes {
		t.Fatalf("%q: exit %d: %s", words, code, told.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	// The scripts of shells leave out what does not begin with the last word.
	fit := slices.DeleteFunc(slices.Clone(lines[:last]), func(line string) bool { return !strings.HasPrefix(line, words[len(words)-1]) })
	return append(fit, lines[last])
}

// TestCompletion: shells complete the values that help lists, files only where there is one, and commands.
func TestCompletion(t *testing.T) {
	const files, nothing, folders = ":0", ":4", ":16"
	for line, want := range map[string]string{
		"suggest --per ":                      "s min h " + nothing,
		"suggest --format c":                  "common combined " + nothing,
		"token create --role ":                "read propose publish admin " + nothing,
		"rules apply --to ":                   "draft shadow enforced " + nothing,
		"rules list --state d":                "draft disabled " + nothing,
		"simulate cluster --partition p":      "proportional " + nothing,
		"simulate cluster --sharing mesh,l":   "mesh,lease mesh,leader mesh,log :6",
		"simulate cluster --sharing lease,le": "lease,leader :6",
		"suggest --by path,u":                 "path,user path,user_agent :6",
		"size --store c":                      "cluster " + nothing,
		"serve --store red":                   "redis:// rediss:// redis+unix:// redis+cluster:// redis+sentinel:// :6",
		"doctor --store m":                    "memory: memcached:// :6",
		"serve --rules ":                      files,
		"serve --data ":                       folders,
		"serve --http ":                       nothing,
		"top --addr ":                         nothing,
		"top ":                                nothing,
		"lint ":                               files,
		"help toke":                           "token\tMake, list and revoke the tokens that change rules " + nothing,
		"help token re":                       "revoke\tEnd a token " + nothing,
	} {
		got := strings.Join(completed(t, strings.Split(line, " ")...), " ")
		if got != want {
			t.Errorf("weir %s: %q, want %q", line, got, want)
		}
	}
}

// TestManual: each command has a page, which has each flag, and no line that troff takes for something else.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out, told bytes.Buffer
	if code := run(t.Context(), []string{"man", dir}, strings.NewReader(""), &out, &told); code != exitYes {
		t.Fatalf("exit %d: %s", code, told.String())
	}
	macro := regexp.MustCompile(`^\.(TH|SH|TP|PP|nf|fi)\b`)
	pages := 0
	eachCommand(rootCommand(), func(c *cobra.Command) {
		pages++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if (strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'")) && !macro.MatchString(line) {
				t.Errorf("%s: %q", c.CommandPath(), line)
			}
		}
		for _, section := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH EXIT STATUS"} {
			if !strings.Contains(string(text), section) {
				t.Errorf("%s has no %s", c.CommandPath(), section)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(text), `\fB\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)+`\fR`) {
				t.Errorf("%s: there is no --%s", c.CommandPath(), f.Name)
			}
		})
	})
	if files, err := os.ReadDir(dir); err != nil || len(files) < pages || pages < 30 {
		t.Errorf("%d pages of %d commands: %v", len(files), pages, err)
	}
	serve, err := os.ReadFile(filepath.Join(dir, "weir-serve.1"))
	if err != nil || !strings.Contains(string(serve), `\fB\-\-store\fR \fIURL\fR`+"\nof where counts are kept") && !strings.Contains(string(serve), `\fB\-\-store\fR \fIURL\fR`+"\nURL of where counts are kept (default memory:)") {
		t.Errorf("%v: %s", err, serve)
	}
}
