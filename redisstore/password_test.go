package redisstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestPasswordFile: a password that is changed, at the server and in the file, opens
// without a new store.
func TestPasswordFile(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	// The user of the test's own connections stays without a password.
	server.Ask(t, "ACL", "SETUSER", "weir", "on", ">first-word", "~*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-word\n")
	s, err := Dial("redis://weir@" + server.Addr + "?password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // its server may be gone
	decides := func(what string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			err := s.Take(t.Context(), asksOf("1000/s", "k"), make([]weir.Decision, 1))
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	decides("the first password")
	server.Ask(t, "ACL", "SETUSER", "weir", "resetpass", ">other-word")
	write("other-word\n")
	server.Ask(t, "CLIENT", "KILL", "USER", "weir")
	decides("after a change")
}

// TestBadPasswordFile: what is wrong with the file is said when the store is opened, and
// nothing of what is in it.
func TestBadPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("\nsecret-word"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"redis://127.0.0.1:1?password-file=" + file:             "the first line of " + file + " is empty",
		"redis://127.0.0.1:1?password-file=" + file + "x":       "no such file",
		"redis://127.0.0.1:1?password-file=" + t.TempDir():      "is no file",
		"redis://:other-word@127.0.0.1:1?password-file=" + file: "leave one out",
	} {
		err := CheckURL(url)
		if _, ok := errors.AsType[*URLError](err); !ok || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "-word") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
