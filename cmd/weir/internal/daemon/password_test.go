package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/redistest"
)

// TestStorePasswordCommand: a daemon whose Redis changes its password goes on with what the command prints then, and
// its log has neither.
func TestStorePasswordCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "password")
	rotate := func(to string) {
		t.Helper()
		server.Ask(t, "ACL", "SETUSER", "weir", "on", "resetpass", ">"+to, "~*", "&*", "+@all")
		if err := os.WriteFile(file, []byte(to+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		server.Ask(t, "CLIENT", "KILL", "USER", "weir")
	}
	rotate("first-word")
	text, log := newLog()
	d := start(t, Config{Store: "redis://weir@" + server.Addr, StorePasswordCommand: "cat '" + file + "'", Log: log})
	decides := func(what string) {
		t.Helper()
		for end, n := time.Now().Add(patience), 0; ; n++ {
			_, body := do(t, http.MethodPost, "http://"+d.http+"/v1/check", fmt.Sprintf(`{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"%d"}]}]}`, n))
			if strings.Contains(body, `"degraded":""`) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %s", what, body)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	decides("the first password")
	rotate("second-word")
	decides("the second password")
	text.mu.Lock()
	defer text.mu.Unlock()
	if text := text.text.String(); strings.Contains(text, "-word") {
		t.Errorf("the log has a password: %s", text)
	}
}

// TestStorePasswordCommandMeant: what can't be meant is told at the start.
func TestStorePasswordCommandMeant(t *testing.T) {
	for _, c := range []struct{ store, command, says string }{
		{"memory:", "cat f", "only Redis"},
		{"nats://127.0.0.1:1", "cat f", "only Redis"},
		{"redis://127.0.0.1:1", "no-such-program-at-all", "no such program"},
		{"redis://127.0.0.1:1", "cat 'f", "has no end"},
		{"redis://:word@127.0.0.1:1", "cat f", "leave one out"},
	} {
		_, err := New(Config{Store: c.store, StorePasswordCommand: c.command})
		if bad, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v, %v; want %q", c.store, c.command, err, bad, c.says)
		}
	}
}
