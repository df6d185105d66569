// Package postgrestest starts PostgreSQL servers for tests, each with a folder of
// its own and a socket in it, and stops them. It also starts replicas, and PgBouncer.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// startTime is how long a server may take until it answers. It fails no test on a machine that is
// merely slow.
const startTime = 2 * time.Minute

// Server is a PostgreSQL server of one test.
type Server struct {
	Addr string // 127.0.0.1:port, of StartTCP; else empty

	dir, bin  string
	command   *exec.Cmd
	log       bytes.Buffer
	databases atomic.Int64
}

// Start starts a server. Options are as in its configuration file, NAME=VALUE.
// It skips the test when there is none.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	s := folder(t)
	s.initialize(t)
	s.start(t, options)
	return s
}

// unused is the data folder of a server that never ran, as tar packs it. Unpacking one is many times
// faster than initdb, so each process of tests runs initdb once.
var unused struct { //nolint:gochecknoglobals // all servers of a process share it
	sync.Mutex
	packed []byte
}

// initialize makes the data folder.
func (s *Server) initialize(t testing.TB) {
	t.Helper()
	tar, err := exec.LookPath("tar")
	if err != nil {
		t.Fatal(err)
	}
	unused.Lock()
	defer unused.Unlock()
	if unused.packed != nil {
		unpack := s.program(tar, "-x", "-f", "-", "-C", s.dir)
		unpack.Stdin = bytes.NewReader(unused.packed)
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
		return
	}
	initdb := s.program("initdb", "--pgdata", s.data(), "--username", "weir", "--auth", "trust", "--encoding", "UTF8", "--no-sync", "--no-instructions", "--wal-segsize=1")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	packed, err := s.program(tar, "-c", "-f", "-", "-C", s.dir, filepath.Base(s.data())).Output()
	if err != nil {
		t.Fatalf("tar: %v", err)
	}
	unused.packed = packed
}

// StartTCP is Start, and the server also listens on a port of 127.0.0.1.
func StartTCP(t testing.TB, options ...string) *Server {
	t.Helper()
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	s := folder(t)
	s.Addr = addr
	s.initialize(t)
	s.start(t, append([]string{"listen_addresses=127.0.0.1", "port=" + port}, options...))
	return s
}

// Standby starts a replica of the server, which follows it as it streams.
func (s *Server) Standby(t testing.TB, options ...string) *Server {
	t.Helper()
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	r := folder(t)
	r.Addr = addr
	host, from, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	copied := r.program("pg_basebackup", "-h", host, "-p", from, "-U", "weir", "-D", r.data(), "-R", "--checkpoint=fast", "--no-sync")
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	r.start(t, append([]string{"listen_addresses=127.0.0.1", "port=" + port}, options...))
	return r
}

// Promote makes a replica the primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if out, err := s.program("pg_ctl", "promote", "-D", s.data(), "-w").CombinedOutput(); err != nil {
		t.Fatalf("pg_ctl promote: %v: %s", err, out)
	}
}

// Query runs a statement as the superuser in the database of a URL of Database, and gives what
// psql prints.
func (s *Server) Query(t testing.TB, database, sql string) string {
	t.Helper()
	out, err := s.program("psql", database, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// Bouncer starts PgBouncer before the server, in transaction mode with few connections, and gives
// the URL of the database of a URL through it. It skips the test when there is none.
func (s *Server) Bouncer(t testing.TB, database string) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("no PgBouncer: apt-get install pgbouncer")
		}
	}
	of, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	_, own, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	addr := porttest.Free(t)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	b := folder(t)
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=weir
[pgbouncer]
listen_addr=%s
listen_port=%s
unix_socket_dir=
auth_type=any
pool_mode=transaction
default_pool_size=3
`, host, own, host, port)
	config := filepath.Join(b.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.command = b.program(path, config)
	b.command.Stdout, b.command.Stderr = &b.log, &b.log
	if err := b.command.Start(); err != nil {
		t.Fatal(err)
	}
	through := "postgres://weir@" + addr + of.Path + "?sslmode=disable"
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.program("psql", through, "-X", "-c", "select 1").Run() == nil {
			return through
		}
	}
	b.Kill()
	t.Fatalf("PgBouncer does not answer: %s", b.log.String())
	return ""
}

// folder makes the folder of a server. It skips the test when there is no PostgreSQL.
func folder(t testing.TB) *Server {
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
	return s
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) start(t testing.TB, options []string) {
	t.Helper()
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "fsync=off", // a killed process loses nothing by that
		"-c", "max_wal_size=1GB"} // which initdb makes smaller for small segments
	for _, o := range options {
		args = append(args, "-c", o)
	}
	s.command = s.program("postgres", args...)
	s.run(t)
}

// There is whether this machine has PostgreSQL.
func There() bool { return programs() != "" }

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

// program is one of PostgreSQL's programs, or that of a path, run by a user that it takes.
func (s *Server) program(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.bin, name)
	}
	c := exec.CommandContext(context.Background(), name, args...) // Kill ends it
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
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s.ready() {
			return
		}
	}
	s.Kill()
	t.Fatalf("PostgreSQL does not answer: %s", s.log.String())
}

// ready tells whether the server takes connections, as pg_ctl does: by its file, which costs no process
// at each look. The first line is the process, for the file of a killed server stays.
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 || lines[0] != strconv.Itoa(s.command.Process.Pid) {
		return false
	}
	return strings.TrimSpace(lines[7]) == "ready"
}

// Database makes an empty database, and gives its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("weir%d", s.databases.Add(1))
	if out, err := s.program("createdb", "-h", s.dir, "-p", s.port(), "-U", "weir", name).CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v: %s", err, out)
	}
	if s.Addr != "" {
		return "postgres://weir@" + s.Addr + "/" + name + "?sslmode=disable"
	}
	return "postgres://weir@/" + name + "?host=" + url.QueryEscape(s.dir)
}

// port names the server's socket, too.
func (s *Server) port() string {
	if _, port, err := net.SplitHostPort(s.Addr); err == nil {
		return port
	}
	return "5432"
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

// CPU is the time that the server's processes have used, and the kernel for them, as Linux tells it.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	ticks := int64(0)
	for _, pid := range append(s.running(t), s.command.Process.Pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, used := range strings.Fields(rest)[11:15] { // its own, and that of children that have ended
			n, err := strconv.ParseInt(used, 10, 64)
			if err != nil {
				t.Fatalf("/proc says %q", stat)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100) // of which every Linux has 100 a second
}

// running are the server's processes but the first.
func (s *Server) running(t testing.TB) []int {
	t.Helper()
	all := s.children()
	if len(all) == 0 {
		t.Fatal("a server of one process, which PostgreSQL never is; is pgrep installed?")
	}
	return all
}

func (s *Server) children() (all []int) {
	out, err := exec.CommandContext(context.Background(), "pgrep", "-P", strconv.Itoa(s.command.Process.Pid)).Output()
	if err != nil {
		return nil // there are none
	}
	for word := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// Own gives a folder to the user who runs PostgreSQL, for a tablespace.
func (s *Server) Own(t testing.TB, dir string) {
	t.Helper()
	for at := filepath.Dir(dir); strings.HasPrefix(at, os.TempDir()) && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := handOver(dir); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the server with all its processes, until the function that it gives is called.
func (s *Server) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	all := []*os.Process{s.command.Process}
	for _, pid := range s.running(t) {
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	tell := func(signal os.Signal) {
		for _, p := range all {
			_ = p.Signal(signal) // it may be gone
		}
	}
	tell(stopped)
	thaw = sync.OnceFunc(func() { tell(resumed) })
	t.Cleanup(thaw)
	return thaw
}

// Kill ends the server at once, with all its processes, as kill −9 does.
func (s *Server) Kill() {
	if s.command != nil && s.command.Process != nil && s.command.ProcessState == nil {
		children := s.children()
		killAll(s.command)
		for _, pid := range children { // one that is frozen would not see that the first is gone
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may be gone
			}
		}
		_ = s.command.Wait() // it was killed
	}
}

// common is the server of Common, and what ends it.
var common struct { //nolint:gochecknoglobals // tests of a package have nothing else in common
	sync.Mutex
	server *Server
	ends   []func()
}

// lasting is a test whose cleanups wait for those of all.
type lasting struct{ testing.TB }

func (lasting) Cleanup(f func()) { common.ends = append(common.ends, f) }

// Common is one server for all tests of a package that do it no harm, each in a database of its own. The
// package's TestMain calls Main.
func Common(t testing.TB) *Server {
	t.Helper()
	common.Lock()
	defer common.Unlock()
	if common.server == nil {
		common.server = StartTCP(lasting{t})
	}
	return common.server
}

// Main runs tests, and ends the server that they had in common.
func Main(m *testing.M) (code int) {
	code = m.Run()
	for _, end := range slices.Backward(common.ends) {
		end()
	}
	return code
}

// Copy copies a database into another that is empty, as pg_dump and psql do.
func (s *Server) Copy(t testing.TB, from, to string) {
	t.Helper()
	dump := s.program("pg_dump", from)
	script, err := dump.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	restore := s.program("psql", to, "-X", "-q", "-v", "ON_ERROR_STOP=1")
	restore.Stdin = bytes.NewReader(script)
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
}
