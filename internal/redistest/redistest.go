// Package redistest starts Redis and Valkey servers for tests, on free loopback ports and in
// temporary folders, and stops them.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// Server is a redis-server or a valkey-server of one test.
type Server struct {
	Addr    string // host:port; empty when it listens on Socket alone
	command *exec.Cmd
	log     bytes.Buffer
}

// Env names a server to use in place of one that Start would start, as
// host:port. Tests write to it under random prefixes, and leave nothing there
// that does not expire.
const Env = "WEIR_TEST_REDIS"

// Start starts a redis-server that keeps nothing on disk. Options are as in its
// configuration file, two words each. It skips the test when there is none.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	if addr := os.Getenv(Env); addr != "" && len(options) == 0 {
		return &Server{Addr: addr}
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server: apt-get install redis-server, or set " + Env + "=host:port")
	}
	return start(t, path, options)
}

// StartValkey is Start of a valkey-server, which no variable names.
func StartValkey(t testing.TB, options ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		t.Skip("no valkey-server: apt-get install valkey-server; Debian 12 has it in its backports")
	}
	return start(t, path, options)
}

func start(t testing.TB, path string, options []string) *Server {
	t.Helper()
	s := &Server{Addr: porttest.Free(t)}
	s.run(t, path, options)
	t.Cleanup(s.Kill)
	s.wait(t)
	return s
}

func (s *Server) run(t testing.TB, path string, options []string) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()}
	for i, word := range options {
		if i%2 == 0 {
			word = "--" + word
		}
		args = append(args, word)
	}
	s.command = exec.CommandContext(context.Background(), path, args...) // Kill ends it
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
}

// wait waits until the server answers.
func (s *Server) wait(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s.answers() {
			return
		}
	}
	s.Kill()
	t.Fatalf("%s does not answer: %s", s.command.Path, s.log.String())
}

func (s *Server) answers() bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a broken connection answers nothing
	if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, err := c.Read(answer)
	text := string(answer[:n])
	return err == nil && (strings.HasPrefix(text, "+PONG") || strings.HasPrefix(text, "-NOAUTH"))
}

// Restart starts a killed server again, empty, at its old address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	args := s.command.Args
	s.command = exec.CommandContext(context.Background(), args[0], args[1:]...) // likewise
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
}

// Signal sends a signal to the server, such as syscall.SIGSTOP.
func (s *Server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server at once, as kill −9 does.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		_ = s.command.Process.Kill() // it may be gone
		_ = s.command.Wait()         // it was killed
	}
}
