package credentials

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"aws elasticache  token\t--user weir": {"aws", "elasticache", "token", "--user", "weir"},
		`sh -c 'cat "$FILE" | head -n1'`:      {"sh", "-c", `cat "$FILE" | head -n1`},
		`a "" b'c d'e`:                        {"a", "", "bc de"},
		" a\n":                                {"a"},
	} {
		if got, err := wordsOf(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	for line, says := range map[string]string{"": "names no program", "  ": "names no program", `''`: "names no program", `a 'b`: "has no end", "no-such-program-at-all x": "sh -c"} {
		_, err := OpenCommand("--store-password-command", line)
		if bad, ok := errors.AsType[*Error](err); !ok || bad.File.Flag != "--store-password-command" || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", line, err, says)
		}
	}
}

// TestCommand: the first line is the secret, and no fault tells it.
func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"printf secret-word":                         "secret-word",
		`printf 'secret-word\r\nmore\n'`:             "secret-word",
		`printf 'a b  c\n'`:                          "a b  c",
		`sh -c 'printf "\nsecret-word"'`:             "!first line",
		`sh -c 'echo secret-word; exit 3'`:           "!exit status 3",
		`sh -c 'while :; do echo secret-word; done'`: "!more than 8192 bytes",
		`sh -c 'head -c 8192 /dev/zero | tr "\0" a'`: strings.Repeat("a", maxPrinted),
		`true`: "!first line",
	} {
		c, err := OpenCommand("--store-password-command", line)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Secret()
		if says, fails := strings.CutPrefix(want, "!"); fails != (err != nil) || fails && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret-word") || got != "") || !fails && got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}

// TestCommandRests: many who ask at a time have it run once, and a second later it runs again.
func TestCommandRests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	c, err := OpenCommand("--store-password-command", `sh -c 'echo x >>`+file+`; wc -l <`+file+`'`)
	if err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, err := c.Secret(); err != nil || strings.TrimSpace(got) != string(rune('1'+want)) {
					t.Errorf("%q, %v; want run %d", got, err, want+1)
				}
			})
		}
		all.Wait()
		c.mu.Lock()
		c.ran = c.ran.Add(-commandRest)
		c.mu.Unlock()
	}
	if runs, err := os.ReadFile(file); err != nil || strings.Count(string(runs), "x") != 2 {
		t.Errorf("%q, %v", runs, err)
	}
}

// TestCommandHangs: a command that does not end is killed, also when what it started holds its output.
func TestCommandHangs(t *testing.T) {
	t.Parallel()
	c, err := OpenCommand("--store-password-command", `sh -c 'sleep 8 & sleep 8'`)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := c.Secret(); err == nil || !strings.Contains(err.Error(), "more than 5s") {
		t.Error(err)
	}
	if took := time.Since(began); took < commandTime {
		t.Errorf("it took %v", took)
	}
}
