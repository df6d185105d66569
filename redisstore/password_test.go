package redisstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// TestPassword: a password that changes opens new connections of each form of Redis, and one that can't be had is told.
func TestPassword(t *testing.T) {
	t.Parallel()
	for form, start := range map[string]func(t *testing.T) (url string, servers []*redistest.Server){
		"one": func(t *testing.T) (string, []*redistest.Server) {
			t.Helper()
			s := redistest.Start(t)
			return "redis://weir@" + s.Addr, []*redistest.Server{s}
		},
		"socket": func(t *testing.T) (string, []*redistest.Server) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "redis")
			s := redistest.Start(t, "unixsocket", path)
			return "redis+unix://weir@" + path, []*redistest.Server{s}
		},
		"cluster": func(t *testing.T) (string, []*redistest.Server) {
			t.Helper()
			all := redistest.StartCluster(t, 0)
			return "redis+cluster://weir@" + all[0].Addr, all
		},
		"sentinel": func(t *testing.T) (string, []*redistest.Server) {
			t.Helper()
			sentinel, primary, replica := redistest.StartSentinel(t, "main")
			return "redis+sentinel://weir@" + sentinel.Addr + "/main", []*redistest.Server{sentinel, primary, replica}
		},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			url, servers := start(t)
			var word atomic.Pointer[string]
			rotate := func(to string) {
				t.Helper()
				for _, s := range servers {
					s.Ask(t, "ACL", "SETUSER", "weir", "on", "resetpass", ">"+to, "~*", "&*", "+@all")
				}
				word.Store(&to)
				for _, s := range servers {
					s.Ask(t, "CLIENT", "KILL", "USER", "weir")
				}
			}
			rotate("first-word")
			var fails atomic.Bool
			s, err := DialWith(url, func() (string, error) {
				if fails.Load() {
					return "", errors.New("the vault is shut")
				}
				return *word.Load(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			take := func() error { return s.Take(t.Context(), asksOf("1000/s", "k"), make([]weir.Decision, 1)) }
			until := func(is func(error) bool) {
				t.Helper()
				for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					err := take()
					if is(err) {
						return
					}
					if time.Now().After(end) {
						t.Fatal(err)
					}
				}
			}
			decides := func(err error) bool { return err == nil }
			until(decides)
			if x, err := ExamineWith(t.Context(), url, func() (string, error) { return *word.Load(), nil }); err != nil || x.Kind == "" {
				t.Errorf("an examination: %v", err)
			}
			rotate("second-word")
			until(decides)
			fails.Store(true)
			rotate("third-word")
			until(func(err error) bool { return err != nil })
			fails.Store(false)
			until(decides)
		})
	}
	for _, url := range []string{"redis://:word@127.0.0.1:1", "redis://127.0.0.1:1?password-file=/dev/null"} {
		if _, err := DialWith(url, func() (string, error) { return "", nil }); err == nil {
			t.Errorf("%s has two passwords", url)
		}
	}
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
