package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
)

// take takes one event of a key.
func take(ctx context.Context, s weir.Store, limit, rule, key string) (weir.Decision, error) {
	out := make([]weir.Decision, 1)
	err := s.Take(ctx, []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}}, out)
	return out[0], err
}

// want checks that an error says all of this.
func want(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, and does not say %q", err, text)
		}
	}
}

// remaining is what a key has left, without charging it.
func remaining(t *testing.T, s weir.Store, limit, rule, key string) int64 {
	t.Helper()
	out := make([]weir.Decision, 1)
	asks := []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1, Peek: true}}
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

// TestServerIsAway: a killed server fails calls at once, keeps what it has told, and is found again.
func TestServerIsAway(t *testing.T) {
	server := postgrestest.StartTCP(t)
	s := dial(t, server.Database(t))
	for n := range 3 {
		if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != int64(9-n) {
			t.Fatalf("take %d: %+v, %v", n, d, err)
		}
	}
	server.Kill()
	for range 10 { // connections that are left find out
		_, _ = take(t.Context(), s, "10/day", "r", "k")
	}
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, server.Addr, "nothing was decided", "is PostgreSQL running there?")
	begin := time.Now()
	for range 1000 {
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err == nil {
			t.Fatal("the server is dead, and a take passed")
		}
	}
	t.Logf("a take of a dead server fails in %v", time.Since(begin)/1000)
	server.Restart(t)
	for end := time.Now().Add(5 * time.Second); ; {
		d, err := take(t.Context(), s, "10/day", "r", "k")
		if err == nil {
			if d.Remaining < 5 || d.Remaining > 6 { // a take of a connection that was lost may have been a charge
				t.Errorf("after a restart: %+v", d)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the server is back for 5 s: %v", err)
		}
		runtime.Gosched()
	}
}

// TestServerIsFrozen: callers of a frozen server hear in their time whether they may have been charged.
func TestServerIsFrozen(t *testing.T) {
	server := postgrestest.StartTCP(t)
	s := dial(t, server.Database(t))
	if _, err := take(t.Context(), s, "10/day", "r", "a"); err != nil {
		t.Fatal(err)
	}
	thaw := server.Freeze(t)
	for _, key := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := take(ctx, s, "10/day", "r", key)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", key, err)
		}
		want(t, err, server.Addr, map[string]string{"a": "may have been a charge", "b": "nothing was decided"}[key])
	}
	_, err := take(t.Context(), s, "10/day", "r", "c")
	want(t, err, server.Addr, "nothing was decided", "frozen")
	thaw()
	for end := time.Now().Add(5 * time.Second); ; {
		if _, err := take(t.Context(), s, "10/day", "r", "other"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if n := remaining(t, s, "10/day", "r", "a"); n != 8 && n != 9 {
		t.Errorf("%d remain", n)
	}
	if n := remaining(t, s, "10/day", "r", "b"); n != 10 {
		t.Errorf("nothing was decided, and %d remain of 10", n)
	}
}

// TestClose: what waits for a frozen server is freed by Close, which leaves no goroutine behind.
func TestClose(t *testing.T) {
	server := postgrestest.StartTCP(t)
	before := runtime.NumGoroutine()
	s := dial(t, server.Database(t))
	if _, err := take(t.Context(), s, "10/day", "r", "a"); err != nil {
		t.Fatal(err)
	}
	server.Freeze(t)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if _, err := take(t.Context(), s, "10/day", "r", fmt.Sprint(n)); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		})
	}
	for s.Stats().Waiting < 20 {
		runtime.Gosched()
	}
	begin := time.Now()
	_ = s.Close()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	wg.Wait()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			all := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before: %s", runtime.NumGoroutine(), before, all[:runtime.Stack(all, true)])
		}
	}
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "the store was closed")
	if st := s.Status(t.Context()); st.Err == nil {
		t.Error("a closed store tells a status")
	}
}

// TestCloseAfterFrozen: a connection to a server that stays frozen is given up, and does not keep Close waiting
// once the time of its call is over.
func TestCloseAfterFrozen(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	before := runtime.NumGoroutine()
	s := dial(t, with(t, database, "connections", "1"))
	if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
		t.Fatal(err)
	}
	server.Freeze(t)
	begin := time.Now()
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "frozen")
	_ = s.Close()
	if took := time.Since(begin); took > callTime+3*time.Second {
		t.Errorf("a take and Close took %v", took)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// silent is a host that accepts connections, and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestSilentHosts: hosts that are silent cost their time, and the one behind them is found.
func TestSilentHosts(t *testing.T) {
	server := postgrestest.Common(t)
	of := strings.Replace(server.Database(t), server.Addr, silent(t)+","+silent(t)+","+server.Addr, 1)
	if _, err := take(t.Context(), dial(t, of), "10/day", "r", "k"); err != nil {
		t.Error(err)
	}
}

// through is a database by way of a proxy.
func through(t *testing.T, server *postgrestest.Server, database string, cut proxytest.Cut) string {
	return strings.Replace(database, server.Addr, proxytest.Start(t, server.Addr, cut), 1)
}

// TestCutInAnswer: a connection that ends in the middle of the answer to a write leaves nobody knowing. The
// error says so, and nothing is sent again.
func TestCutInAnswer(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	for _, some := range []int{0, 1, 20} {
		var writes atomic.Int64
		var cutting atomic.Bool
		of := through(t, server, database, func(answer bool, b []byte) (int, bool) {
			if !answer && bytes.Contains(b, []byte("r:k")) && bytes.Contains(b, []byte("weir\x01")) {
				writes.Add(1)
				cutting.Store(true)
			}
			if answer && cutting.Swap(false) {
				return min(some, len(b)), true
			}
			return len(b), false
		})
		s := dial(t, with(t, of, "table", fmt.Sprint("cut", some)))
		_, err := take(t.Context(), s, "10/day", "r", "k")
		want(t, err, "may have been a charge")
		if writes.Load() != 1 {
			t.Errorf("%d bytes of the answer came, and %d writes were sent", some, writes.Load())
		}
		if n := remaining(t, s, "10/day", "r", "k"); n != 9 {
			t.Errorf("%d remain, want 9", n)
		}
	}
}

// TestWrongAnswers: an answer that comes twice, and that of another question, are no answers. Nothing passes that is not
// charged, and the next take is decided.
func TestWrongAnswers(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	direct := dial(t, database)
	for _, way := range []string{proxytest.Twice, proxytest.Anothers} {
		t.Run(way, func(t *testing.T) {
			var wrong atomic.Bool
			addr := proxytest.Wrong(t, server.Addr, way, func([]byte) (answer, broken bool) {
				return true, wrong.Load()
			})
			s := dial(t, with(t, strings.Replace(database, server.Addr, addr, 1), "connections", "1"))
			passed, failed := map[string]int64{}, 0
			for n := range 60 {
				wrong.Store(n >= 10 && n%5 == 0)
				key := fmt.Sprint(way, n%3)
				switch d, err := take(t.Context(), s, "12/day fixed-window", "r", key); {
				case err != nil:
					failed++
					want(t, err, "pgstore: ")
				case d.Outcome == weir.Allowed:
					passed[key]++
				}
			}
			if failed == 0 || failed > 30 {
				t.Errorf("%d of 60 takes failed", failed)
			}
			for key, n := range passed {
				if used := 12 - remaining(t, direct, "12/day fixed-window", "r", key); n > used {
					t.Errorf("%s: %d passed, and %d are charged", key, n, used)
				}
			}
		})
	}
}

// TestEndedConnections: connections that the server has ended while nobody used them cost no take.
func TestEndedConnections(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	s := dial(t, database)
	for range 3 {
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
		server.Query(t, database, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir' and datname = current_database()")
		time.Sleep(2 * idle)
	}
	if n := remaining(t, s, "10/day", "r", "k"); n != 7 {
		t.Errorf("%d remain of 10 after 3 takes", n)
	}
}

// TestNoRights: what a user may not do is an error that says what to grant, and with that it works.
func TestNoRights(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	server.Query(t, database, "create role low login")
	s := dial(t, strings.Replace(database, "weir@", "low@", 1))
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "nothing was decided", "there is no table", "create table if not exists", "grant select, insert, update, delete")
	server.Query(t, database, s.cells.options.createTable())
	for _, grant := range []string{"select", "insert", "update"} {
		server.Query(t, database, "grant "+grant+" on weir to low")
		time.Sleep(longest)
		_, err = take(t.Context(), s, "10/day", "r", "k")
		want(t, err, "user low may not", "delete", "grant select, insert, update, delete on \"weir\" to low")
	}
	server.Query(t, database, "grant delete on weir to low")
	time.Sleep(longest)
	if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != 9 {
		t.Errorf("with all rights: %+v, %v", d, err)
	}
	if _, err := s.cells.sweepOnce(t.Context()); err != nil {
		t.Errorf("a sweep with these rights: %v", err)
	}
	other := dial(t, database)
	if _, err := take(t.Context(), other, "10/day", "r", "k"); err != nil {
		t.Fatal(err)
	}
	least := s.Stats().Connections + other.Stats().Connections
	if st := s.Status(t.Context()); st.Err != nil || st.Bytes == 0 || int64(st.Connections) < least {
		t.Errorf("a status with these rights: %+v; %d connections at least are open", st, least)
	}
	server.Query(t, database, "revoke update on weir from low")
	_, err = take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "nothing was decided")
}

// TestNoSchema: a schema that is not there, or that a user may not see into, is told with what to run. What is told can
// be run, also for a user whose name has to be quoted.
func TestNoSchema(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	server.Query(t, database, `create role "Low-1" login`)
	s := dial(t, with(t, strings.Replace(database, "weir@", "Low-1@", 1), "table", "apart.counts"))
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "nothing was decided", `there is no table "apart"."counts"`, "create schema if not exists", `to "Low-1"`)
	_, run, _ := strings.Cut(err.Error(), "administrator run: ")
	server.Query(t, database, run)
	server.Query(t, database, `revoke usage on schema apart from "Low-1"`)
	time.Sleep(longest)
	_, err = take(t.Context(), s, "10/day", "r", "k")
	want(t, err, `user "Low-1" may not use schema "apart"`)
	if !Answers(err) {
		t.Errorf("a server that answers is taken for away: %v", err)
	}
	_, run, _ = strings.Cut(err.Error(), "; run: ")
	server.Query(t, database, run)
	time.Sleep(longest)
	if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != 9 {
		t.Errorf("with what was told: %+v, %v", d, err)
	}
	server.Query(t, database, "alter table apart.counts enable row level security")
	_, err = take(t.Context(), dial(t, with(t, strings.Replace(database, "weir@", "Low-1@", 1), "table", "apart.counts")), "10/day", "r", "k")
	want(t, err, "row-level security", "disable row level security")
}

// TestForeignTable: a table that is not Weir's is left alone, and named.
func TestForeignTable(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	for name, c := range map[string]struct{ sql, option, says string }{
		"columns":   {"create table columns (k text, v int)", "", "has the columns k text default null, v integer null"},
		"noprimary": {`create table noprimary (k text collate "C" not null, v bigint not null, s bytea not null, until timestamptz not null)`, "", "has no primary key (k)"},
		"nullable": {
			strings.Replace((&options{table: "nullable"}).createTable(), "s bytea not null", "s bytea", 1), "",
			"has the columns k text C, v bigint, s bytea null,",
		},
		"aview":      {"create view aview as select 1 as k", "", "is no plain table"},
		"islogged":   {strings.Replace((&options{table: "islogged"}).createTable(), "unlogged ", "", 1), "unlogged", "is logged, and the URL says unlogged=1"},
		"isunlogged": {(&options{table: "isunlogged", unlogged: true}).createTable(), "", "is unlogged, and the URL does not say unlogged=1"},
	} {
		server.Query(t, database, c.sql)
		of := with(t, database, "table", name)
		if c.option != "" {
			of = with(t, of, c.option, "1")
		}
		_, err := take(t.Context(), dial(t, of), "10/day", "r", "k")
		want(t, err, "nothing was decided", `table "`+name+`"`, c.says, "; ")
	}
	s := dial(t, database)
	if _, err := take(t.Context(), s, "10/day", "r", "mine"); err != nil {
		t.Fatal(err)
	}
	server.Query(t, database, `insert into weir values ('r:foreign', 5, '\x1234', now() + interval '1 hour')`)
	_, err := take(t.Context(), s, "10/day", "r", "foreign")
	want(t, err, "nothing was decided", "another program's", "table of its own")
	if strings.Contains(err.Error(), "r:foreign") {
		t.Errorf("a key in %v", err)
	}
	server.Query(t, database, "drop table weir")
	for range 3 {
		_, err = take(t.Context(), s, "10/day", "r", "mine")
	}
	if n := remaining(t, s, "10/day", "r", "mine"); err != nil || n > 9 {
		t.Errorf("after the table was dropped: %v, %d remain", err, n)
	}
}

// TestDiskFull: a disk without room is an error that charges nothing, and what was kept stays.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it mounts a small disk, for which it has to be root")
	}
	server := postgrestest.StartTCP(t)
	database := server.Database(t)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=512k", "none", small).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		server.Kill()
		if err := exec.CommandContext(context.Background(), "umount", small).Run(); err != nil {
			t.Error(err)
		}
	})
	server.Own(t, small)
	server.Query(t, database, "create tablespace small location '"+small+"'")
	server.Query(t, database, "alter role weir set default_tablespace = small")
	s := dial(t, database)
	if _, err := take(t.Context(), s, "10/day", "r", "first"); err != nil {
		t.Fatal(err)
	}
	var failed atomic.Value
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for n := 0; n < 1000 && failed.Load() == nil; n++ {
				if _, err := take(t.Context(), s, "10/day", "r", fmt.Sprint(strings.Repeat("x", 100), w, n)); err != nil {
					failed.CompareAndSwap(nil, fmt.Sprint(w, " ", n, " ", err))
				}
			}
		})
	}
	wg.Wait()
	said, _ := failed.Load().(string)
	want(t, errors.New(said), "nothing was decided", "its disk is full; make room")
	if n := remaining(t, s, "10/day", "r", "first"); n != 9 {
		t.Errorf("%d remain of a key from before", n)
	}
}

// TestLongKeys: a key of a mebibyte is counted by its hash, and those of any bytes are apart.
func TestLongKeys(t *testing.T) {
	s := dial(t, postgrestest.Common(t).Database(t))
	long := strings.Repeat("x", 1<<20)
	for _, key := range []string{long, long + "y", "", "\x00", "a b", "a%20b", "\xff\xfe", "'; drop table weir; --", "|", "ä"} {
		for n := range int64(2) {
			if d, err := take(t.Context(), s, "10/day", "r", key); err != nil || d.Remaining != 9-n {
				t.Errorf("%.20q: %+v, %v", key, d, err)
			}
		}
	}
	_, err := take(t.Context(), s, "10/day", "r#"+strings.Repeat("x", 1<<20), "k")
	want(t, err, "give the limit a shorter name")
}

// TestSlowAnswers: answers that come late are right.
func TestSlowAnswers(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	addr, tell := proxytest.Delay(t, server.Addr)
	s := dial(t, strings.Replace(database, server.Addr, addr, 1))
	tell(50 * time.Millisecond)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range 20 {
		wg.Go(func() {
			d, err := take(t.Context(), s, "15/day fixed-window", "r", "k")
			if err != nil {
				t.Error(err)
			}
			if d.Outcome == weir.Allowed {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 15 {
		t.Errorf("%d passed of 15", passed.Load())
	}
}
