package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// openTerminal opens a terminal: what a program writes to it is read from the master.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED ALOUD: no terminal can be opened here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			n, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		if failed == nil {
			failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 90})
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED ALOUD: no terminal can be opened here: %v", err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// TestTopTerminal: weir top on a real terminal hears keys, has colours unless NO_COLOR says otherwise, and leaves the terminal
// as it was.
func TestTopTerminal(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"at":%q,"rules":[{"domain":"shop","rule":"shop/user","limit":"10/s","since":"2026-11-22T00:00:00Z","passed":1,"denied":7,"clients":{"denied":7,"top":[{"key":"ann","denied":7}]}},`+
			`{"domain":"shop","rule":"shop/other","limit":"10/s","since":"2026-11-22T00:00:00Z","passed":1,"denied":0,"clients":{"top":[]}}]}`, time.Now().Format(time.RFC3339Nano)) // the screen tells
	}))
	defer daemon.Close()
	for _, noColour := range []string{"", "1"} {
		t.Run("NO_COLOR="+noColour, func(t *testing.T) {
			t.Setenv("NO_COLOR", noColour)
			t.Setenv("TERM", "xterm")
			master, slave := openTerminal(t)
			before, err := term.GetState(int(slave.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var shown bytes.Buffer
			news := make(chan struct{}, 1)
			go func() {
				some := make([]byte, 4096)
				for {
					n, err := master.Read(some)
					mu.Lock()
					shown.Write(some[:n])
					mu.Unlock()
					select {
					case news <- struct{}{}:
					default:
					}
					if err != nil {
						return
					}
				}
			}()
			code := make(chan int, 1)
			go func() { code <- run(t.Context(), []string{"top", "--addr", daemon.URL}, slave, slave, slave) }()
			// see waits until the last frame is right.
			see := func(right func(string) bool) string {
				t.Helper()
				for {
					mu.Lock()
					text := shown.String()
					mu.Unlock()
					frames := strings.Split(text, homeCursor)
					if last := frames[len(frames)-1]; right(last) {
						return last
					}
					select {
					case <-news:
					case <-t.Context().Done():
						t.Fatalf("the screen is %q", text)
					case got := <-code:
						t.Fatalf("it ended with %d: %q", got, text)
					}
				}
			}
			type_ := func(keys string) {
				t.Helper()
				if _, err := master.WriteString(keys); err != nil {
					t.Fatal(err)
				}
			}
			see(func(s string) bool { return strings.Contains(s, "shop/other") && strings.Contains(s, "? help") })
			type_("j")
			last := see(func(s string) bool { return strings.Contains(s, "\x1b[7mshop/other") })
			if has := strings.Contains(last, "\x1b[31m"); has != (noColour == "") {
				t.Errorf("colours: %t: %q", has, last)
			}
			type_("/user\r")
			see(func(s string) bool {
				return strings.Contains(s, "shop/user") && !strings.Contains(s, "shop/other") && strings.Contains(s, "/ filter: user")
			})
			type_("\x1b")
			see(func(s string) bool { return strings.Contains(s, "shop/other") })
			type_("q")
			if got := <-code; got != exitYes {
				t.Errorf("exit %d", got)
			}
			after, err := term.GetState(int(slave.Fd()))
			if err != nil || *after != *before {
				t.Errorf("the terminal is not as it was: %v", err)
			}
			for !strings.HasSuffix(func() string { mu.Lock(); defer mu.Unlock(); return shown.String() }(), leaveScreen) {
				<-news
			}
		})
	}
}
