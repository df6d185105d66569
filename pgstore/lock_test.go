package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// hold has another transaction do something, and keep what it has locked until the function that it gives is called.
func hold(t *testing.T, database, sql string) (release func()) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "begin; "+sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.Background()) }) // which ends the transaction, too
	t.Cleanup(release)
	return release
}

// beside has 200 takes a second ask for 50 keys, while the row of key 0 is held, and tells of the others how many
// there were, how many were not decided by the store, and how many took more than a tenth of a second.
func beside(t *testing.T, s weir.Store, last time.Duration) (all, failed, slow int64) {
	t.Helper()
	var n, no, late atomic.Int64
	var wg sync.WaitGroup
	for i, begin := 0, time.Now(); time.Since(begin) < last; i++ {
		time.Sleep(5 * time.Millisecond)
		wg.Go(func() {
			asked := time.Now()
			d, err := take(t.Context(), s, "100000/day", "r", fmt.Sprint(i%50))
			if i%50 == 0 {
				return
			}
			n.Add(1)
			if err != nil || d.Degraded != "" {
				no.Add(1)
			}
			if time.Since(asked) > 100*time.Millisecond {
				late.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load(), no.Load(), late.Load()
}

// TestLockedRow: a row that another transaction holds keeps its own takes waiting, and no others.
func TestLockedRow(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	s := dial(t, database)
	for i := range 50 {
		if _, err := take(t.Context(), s, "100000/day", "r", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	release := hold(t, database, "select 1 from weir where k = 'r:0' for update")
	all, failed, slow := beside(t, s, time.Second)
	t.Logf("of %d takes of other keys %d failed, and %d were slow", all, failed, slow)
	if failed > 0 || slow > all/20 {
		t.Errorf("of %d takes of other keys %d failed, and %d were slow", all, failed, slow)
	}
	began := time.Now()
	_, err := take(t.Context(), s, "100000/day", "r", "0")
	if took := time.Since(began); !errors.Is(err, weir.ErrBusy) || took > time.Second {
		t.Errorf("the take of the row itself: %v after %v", err, took)
	}
	release()
	before := remaining(t, s, "100000/day", "r", "0")
	if d, err := take(t.Context(), s, "100000/day", "r", "0"); err != nil || d.Remaining != before-1 {
		t.Errorf("when it is over: %+v after %d, %v", d, before, err)
	}
}

// TestLockedRowBehindEdge: the edge does not take the store for away because of one row.
func TestLockedRowBehindEdge(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	s, err := Open(database, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 50 {
		if _, err := take(t.Context(), s, "100000/day", "r", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	all, before, _ := beside(t, s, time.Second) // this machine may be too busy for the time that the edge gives
	hold(t, database, "select 1 from weir where k = 'r:0' for update")
	again, failed, _ := beside(t, s, time.Second)
	t.Logf("fallbacks decided %d of %d takes of other keys, and before %d of %d", failed, again, before, all)
	if failed-before > again*2/5 { // a probe that waits for the row, too, makes it two thirds
		t.Error("the store is taken for away")
	}
}

// TestBrieflyLockedRow: a take waits for a row that is held for longer than one wait, as while a disk is slow.
func TestBrieflyLockedRow(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	s := dial(t, database)
	if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
		t.Fatal(err)
	}
	release := hold(t, database, "select 1 from weir where k = 'r:k' for update")
	time.AfterFunc(3*lockTime, release)
	if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != 8 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestManyBesideLockedRow: of calls that travel with that of a locked row, only that one is not done.
func TestManyBesideLockedRow(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	s := dial(t, with(t, database, "connections", "1"))
	const keys = 100
	each := func(do func(i int)) {
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	each(func(i int) { _, _ = take(t.Context(), s, "10/day", "r", fmt.Sprint(i)) })
	hold(t, database, "select 1 from weir where k in ('r:33', 'r:66') for update")
	var passed atomic.Int64
	began := time.Now()
	each(func(i int) {
		d, err := take(t.Context(), s, "10/day", "r", fmt.Sprint(i))
		switch {
		case err == nil && d.Remaining == 8:
			passed.Add(1)
		case i != 33 && i != 66:
			t.Errorf("%d: %+v, %v", i, d, err)
		}
	})
	if passed.Load() != keys-2 {
		t.Errorf("%d takes passed, want %d", passed.Load(), keys-2)
	}
	t.Logf("it took %v", time.Since(began))
}

// TestLockedTable: while the whole table is locked, as by vacuum full, takes fail soon and say why, whether their
// statements are prepared or not. They pass as soon as that is over.
func TestLockedTable(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	warm, cold := dial(t, database), dial(t, with(t, database, "application_name", "cold"))
	if _, err := take(t.Context(), warm, "100/day", "r", "x"); err != nil {
		t.Fatal(err)
	}
	release := hold(t, database, "lock table weir")
	for _, s := range []*Store{warm, cold} {
		for _, key := range []string{"x", "y"} {
			began := time.Now()
			_, err := take(t.Context(), s, "100/day", "r", key)
			want(t, err, "nothing was decided", "lock", "pg_locks")
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
		}
	}
	if n := warm.Stats().Connections; n == 0 {
		t.Error("the connections were given up")
	}
	release()
	for _, s := range []*Store{warm, cold} {
		if _, err := take(t.Context(), s, "100/day", "r", "x"); err != nil {
			t.Error(err)
		}
	}
}

// setForAll has all connections to a database that are made from now on begin with a setting.
func setForAll(t *testing.T, server *postgrestest.Server, database, name, value string) {
	t.Helper()
	server.Query(t, database, fmt.Sprintf(
		`do $$ begin execute format('alter database %%I set %s = %%L', current_database(), '%s'); end $$`, name, value))
}

// TestIsolation: a server whose transactions are isolated more than Weir needs refuses no take for that.
func TestIsolation(t *testing.T) {
	server := postgrestest.Common(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		database := server.Database(t)
		setForAll(t, server, database, "default_transaction_isolation", level)
		stores := []*Store{dialPatiently(t, database), dialPatiently(t, database), dialPatiently(t, database)}
		var wg sync.WaitGroup
		for g := range 32 {
			wg.Go(func() {
				for i := range 25 {
					_, err := take(t.Context(), stores[g%len(stores)], "100000/day", "r", fmt.Sprint((g+i)%20))
					if err != nil && !errors.Is(err, weir.ErrBusy) {
						t.Errorf("%s: %v", level, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestDeleteBesideTakes: the statement by which docs/stores.md has an operator delete the counts of a rule ends soon
// beside takes, and neither waits for the other in a circle.
func TestDeleteBesideTakes(t *testing.T) {
	if docs, err := os.ReadFile("../docs/stores.md"); err != nil || !strings.Contains(string(docs), deleteRule) {
		t.Errorf("docs/stores.md has another statement than %s; %v", deleteRule, err)
	}
	server := postgrestest.Common(t)
	database := server.Database(t)
	setForAll(t, server, database, "deadlock_timeout", "10ms")
	stores := []*Store{dialPatiently(t, database), dialPatiently(t, database), dialPatiently(t, database)}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed atomic.Int64
	for g := range 32 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				_, err := take(t.Context(), stores[g%len(stores)], "100000/day", "shop/user", fmt.Sprint(rand.IntN(1000)))
				if err != nil && !errors.Is(err, weir.ErrBusy) && failed.Add(1) == 1 {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	for range 5 {
		server.Query(t, database, deleteRule)
		time.Sleep(20 * time.Millisecond)
	}
	close(done)
	wg.Wait()
	if n := server.Query(t, database, "select deadlocks from pg_stat_database where datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
	_, _ = take(t.Context(), stores[0], "10/day", "shop_user", "k")
	_, _ = take(t.Context(), stores[0], "10/day", "shop/user", "k")
	server.Query(t, database, deleteRule)
	left := server.Query(t, database, "select string_agg(k, ' ') from weir where k like 'shop%'")
	if left != "shop_user:k" {
		t.Errorf("left are %s", left)
	}
}

// deleteRule is the statement of docs/stores.md.
const deleteRule = "delete from weir where k in (select k from weir where starts_with(k, 'shop/user:') order by k for update)"
