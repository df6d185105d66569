// Package postgrestest starts PostgreSQL servers for tests, each with a folder of
// its own and a socket in it, and stops them.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a PostgreSQL server of one test.
type Server struct {
	dir, bin  string
	command   *exec.Cmd
	log       bytes.Buffer
	databases atomic.Int64
}

// Start starts a server. Options are as in its configuration file, NAME=VALUE.
// It skips the test when there is none.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	bin := programs()
	if bin == "" {
		t.Skip("no PostgreSQL: apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("", "weir-pg-") // short, for the name of a socket is
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir, bin: bin}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := handOver(dir); err != nil {
		t.Skipf("PostgreSQL refuses root, and there is nobody else to run it: %v", err)
	}
	initdb := s.program("initdb", "--pgdata", filepath.Join(dir, "data"), "--username", "weir", "--auth", "trust", "--encoding", "UTF8", "--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "fsync=off"} // a killed process loses nothing by that
	for _, o := range options {
		args = append(args, "-c", o)
	}
	s.command = s.program("postgres", args...)
	s.run(t)
	return s
}

// programs is the folder with PostgreSQL's programs, the newest that there is;
// empty: there are none. Debian puts them where no PATH leads.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // the others are beside it
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// program is one of PostgreSQL's programs, run by a user that it takes.
func (s *Server) program(name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...) // Kill ends it
	c.Dir = s.dir
	c.SysProcAttr = asOther()
	return c
}

func (s *Server) run(t testing.TB) {
	t.Helper()
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.program("pg_isready", "-h", s.dir, "-q").Run() == nil {
			return
		}
	}
	s.Kill()
	t.Fatalf("PostgreSQL does not answer: %s", s.log.String())
}

// Database makes an empty database, and gives its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("weir%d", s.databases.Add(1))
	if out, err := s.program("createdb", "-h", s.dir, "-U", "weir", name).CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v: %s", err, out)
	}
	return "postgres://weir@/" + name + "?host=" + url.QueryEscape(s.dir)
}

// Restart starts a killed server again, with what it had on disk.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	old := s.command.Args
	s.command = s.program("postgres", old[1:]...)
	s.run(t)
}

// Signal sends a signal to the server's first process, such as syscall.SIGSTOP.
func (s *Server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server at once, with all its processes, as kill −9 does.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		killAll(s.command)
		_ = s.command.Wait() // it was killed
	}
}
