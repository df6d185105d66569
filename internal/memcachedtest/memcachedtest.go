// Package memcachedtest starts memcached servers for tests, on free loopback
// ports, and stops them.
package memcachedtest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// Server is a memcached of one test.
type Server struct {
	Addr    string // host:port, or the path of a socket
	path    string
	args    []string
	command *exec.Cmd
	log     bytes.Buffer
}

// Env names a server to use in place of one that Start would start, as
// host:port. Tests write to it under random prefixes, and leave nothing there
// that does not expire.
const Env = "WEIR_TEST_MEMCACHED"

// Start starts a memcached with these options of its command line. It skips the
// test when there is none.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	if addr := os.Getenv(Env); addr != "" && len(options) == 0 {
		return &Server{Addr: addr}
	}
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, addr, append([]string{"-l", "127.0.0.1", "-p", port}, options...))
}

// StartUnix starts a memcached that listens on a socket in a temporary folder.
func StartUnix(t testing.TB) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir") // of a name short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // what is left is temporary
	return start(t, folder+"/socket", []string{"-s", folder + "/socket"})
}

func start(t testing.TB, addr string, args []string) *Server {
	t.Helper()
	path, err := exec.LookPath("memcached")
	if err != nil {
		t.Skip("no memcached: apt-get install memcached, or set " + Env + "=host:port")
	}
	if os.Getuid() == 0 {
		args = append(args, "-u", "root") // it asks root for a name, and has nobody to protect here
	}
	s := &Server{Addr: addr, path: path, args: args}
	t.Cleanup(s.Kill)
	s.Restart(t)
	return s
}

// Restart starts the server, or starts a killed one again, empty, at its old
// address. It goes on to try for ten seconds: another process may have got the port for a moment.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); s.Kill() {
		s.command = exec.CommandContext(t.Context(), s.path, s.args...)
		s.command.Stdout, s.command.Stderr = &s.log, &s.log
		if err := s.command.Start(); err != nil {
			t.Fatal(err)
		}
		for tried := time.Now(); time.Since(tried) < 2*time.Second; time.Sleep(2 * time.Millisecond) {
			if answer, err := s.ask(t, "version\r\n", 64); err == nil && strings.HasPrefix(answer, "VERSION") {
				return
			}
		}
	}
	t.Fatalf("memcached does not answer: %s", s.log.String())
}

// Ask sends a line to the server and returns what comes back at once.
func (s *Server) Ask(t testing.TB, line string) string {
	t.Helper()
	answer, err := s.ask(t, line+"\r\n", 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (s *Server) ask(t testing.TB, line string, room int) (string, error) {
	network := "tcp"
	if strings.HasPrefix(s.Addr, "/") {
		network = "unix"
	}
	c, err := new(net.Dialer).DialContext(t.Context(), network, s.Addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(c, line); err != nil {
		return "", err
	}
	answer := make([]byte, room)
	n, err := c.Read(answer)
	return string(answer[:n]), err
}

// Immortal lists the items that never expire and whose keys begin with one of the
// prefixes.
func (s *Server) Immortal(t testing.TB, prefixes ...string) (keys []string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, "lru_crawler metadump all\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() && lines.Text() != "END" {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "key=") {
			t.Fatalf("memcached lists no items: %q", lines.Text())
		}
		key, err := url.PathUnescape(strings.TrimPrefix(fields[0], "key="))
		if err != nil {
			t.Fatal(err)
		}
		if fields[1] == "exp=-1" && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			keys = append(keys, key)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// Signal sends a signal to the server. After syscall.SIGSTOP it has stopped.
func (s *Server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if signal == syscall.SIGSTOP {
		var status syscall.WaitStatus // of a child that has stopped, all its threads
		if _, err := syscall.Wait4(s.command.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("it does not stop: %v, %v", status, err)
		}
	}
}

// Kill ends the server at once, as kill −9 does.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		_ = s.command.Process.Kill() // it may be gone
		_ = s.command.Wait()         // it was killed
	}
}
