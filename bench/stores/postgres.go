package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/pgstore"
)

// postgres is a server of this run, as it is installed: it waits for the disk.
type postgres struct {
	dir, url string
	command  *exec.Cmd
	log      bytes.Buffer
	pools    []*pgxpool.Pool
	stores   []interface{ Close() error }
}

// startPostgres starts one that ends with ctx at the latest. It is nil where there is none.
func startPostgres(ctx context.Context) (*postgres, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		fmt.Fprintln(os.Stderr, "no PostgreSQL, and so no figures of it: apt-get install postgresql")
		return nil, nil
	}
	bin := slices.Max(found)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	host, port, _ := net.SplitHostPort(addr) // it is one
	if err := l.Close(); err != nil {
		return nil, err
	}
	p := &postgres{url: "postgres://bench@" + addr + "/postgres?sslmode=disable"}
	if p.dir, err = os.MkdirTemp("", "weir-bench-pg-"); err != nil {
		return nil, err
	}
	as, err := other(p.dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "data")
	run := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		c.Dir, c.SysProcAttr = p.dir, as
		return c
	}
	made := run("initdb", "--pgdata", data, "--username", "bench", "--auth", "trust", "--encoding", "UTF8")
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	p.command = run("postgres", "-D", data, "-k", p.dir,
		"-c", "listen_addresses="+host, "-c", "port="+port, "-c", "max_connections=300")
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if run("pg_isready", "-h", host, "-p", port, "-q").Run() == nil {
			return p, nil
		}
		if time.Now().After(end) {
			p.stop()
			return nil, fmt.Errorf("PostgreSQL does not answer: %s", p.log.String())
		}
	}
}

// other has a user own a folder who may run PostgreSQL, which refuses root.
func other(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (p *postgres) stop() {
	if p == nil {
		return
	}
	for _, s := range p.stores {
		_ = s.Close()
	}
	for _, pool := range p.pools {
		pool.Close()
	}
	_ = p.command.Process.Signal(syscall.SIGINT) // it may have ended
	_ = p.command.Wait()                         // it was told to
	_ = os.RemoveAll(p.dir)                      // it is temporary
}

// cpu is the time that the server's processes have used, and the kernel for them.
func (p *postgres) cpu(context.Context) (time.Duration, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	own, ticks := strconv.Itoa(p.command.Process.Pid), int64(0)
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		parent := filepath.Base(filepath.Dir(path)) == own
		if len(fields) < 15 || fields[1] != own && !parent {
			continue
		}
		used := fields[11:13]
		if parent {
			used = fields[11:15] // with children that have ended
		}
		for _, f := range used {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc says %q", stat)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100), nil // of which every Linux has 100 a second
}

// modes are how a write gets to disk, with what they add to URLs and to a table.
var modes = []struct{ name, option, table, unlogged string }{
	{"synchronous_commit on", "", "weir_on", ""},
	{"synchronous_commit off", "&synchronous_commit=off", "weir_off", ""},
	{"unlogged", "&unlogged=1", "weir_unlogged", "unlogged"},
}

// weirPostgres is what a program calls: a Limiter over a store of Dial, or of Open.
func (p *postgres) weirPostgres(name, option, table string, open bool) (way, *pgstore.Store, error) {
	s, err := pgstore.Dial(p.url+option+"&table="+table, pgstore.Options{})
	if err != nil {
		return way{}, nil, err
	}
	store, closing := weir.Store(s), interface{ Close() error }(s)
	if open {
		e := edge.New(s, edge.Options{}) // as pgstore.Open does
		e.Meet(context.Background())
		store, closing = e, e
	}
	p.stores = append(p.stores, closing)
	l := weir.NewLimiter(store, "r", weir.MustParseLimit("100/s burst 100"))
	return way{name, p.cpu, func(ctx context.Context, key string) (bool, error) {
		a, err := l.Take(ctx, key, 1)
		return a.Outcome == weir.Allowed, err
	}}, s, nil
}

// handWritten is the limiter that people copy: a count for each key and second, in one statement.
func (p *postgres) handWritten(ctx context.Context, table, unlogged, option string, limit int64) (way, error) {
	config, err := pgxpool.ParseConfig(p.url + option)
	if err != nil {
		return way{}, err
	}
	config.MaxConns = 32 // more are slower here
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return way{}, err
	}
	p.pools = append(p.pools, pool)
	_, err = pool.Exec(ctx, "create "+unlogged+" table if not exists "+table+
		" (k text primary key, began timestamptz not null, n bigint not null)")
	if err != nil {
		return way{}, err
	}
	sql := "insert into " + table + ` as l (k, began, n) values ($1, date_trunc('second', clock_timestamp()), 1)
on conflict (k) do update set began = excluded.began,
  n = case when l.began = excluded.began then l.n + 1 else 1 end returning n`
	return way{"insert on conflict", p.cpu, func(ctx context.Context, key string) (bool, error) {
		var n int64
		err := pool.QueryRow(ctx, sql, key).Scan(&n)
		return n <= limit, err
	}}, nil
}

// inPostgres measures Weir's store in PostgreSQL beside what people write by hand.
func (b *bench) inPostgres(ctx context.Context) error {
	for _, m := range modes {
		what := "PostgreSQL, " + m.name + ", 256 goroutines, 10,000 keys: "
		option := m.option
		if m.unlogged != "" {
			option = ""
		}
		ours, store, err := b.postgres.weirPostgres("weir", m.option, m.table, false)
		if err != nil {
			return err
		}
		opened, _, err := b.postgres.weirPostgres("weir by Open", m.option, m.table+"_open", true)
		if err != nil {
			return err
		}
		hand, err := b.postgres.handWritten(ctx, m.table+"_hand", m.unlogged, option, perSecond)
		if err != nil {
			return err
		}
		ways := []way{ours, hand, opened}
		of, err := b.byTurns(ctx, ways, goroutines)
		if err != nil {
			return err
		}
		st := store.Stats()
		b.rates(what, ways, of, map[int]*table.Target{1: table.AtLeast(3)})
		b.table.Compare(what+"PostgreSQL CPU of a decision, beside "+hand.name, "µs", of[0].server, of[1].server, nil)
		b.table.Compare(what+"our CPU of a decision, beside "+hand.name, "µs", of[0].client, of[1].client, nil)
		b.row(what+"decisions/s", of[0].rate, "%.0f/s", "≥ 80,000/s", table.AtLeast(80_000))
		statements := []float64{float64(st.Statements) * 64 / float64(st.Takes)}
		b.row(what+"statements for 64 decisions", statements, "%.2f", "≤ 3", table.AtMost(3))
	}
	if err := b.hotPostgres(ctx); err != nil {
		return err
	}
	return b.racePostgres(ctx)
}

func (b *bench) row(what string, values []float64, form, target string, t *table.Target) {
	median := table.Median(values)
	r := table.Row{What: what, Weir: table.Spread(values, ""), Measured: fmt.Sprintf(form, median), Target: target}
	if t != nil {
		r.Verdict = t.Verdict(median)
	}
	b.table.Rows = append(b.table.Rows, r)
}

// hotPostgres measures takes of one key that passes all.
func (b *bench) hotPostgres(ctx context.Context) error {
	s, err := pgstore.Dial(b.postgres.url+"&table=weir_hot", pgstore.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	l := weir.NewLimiter(s, "r", weir.MustParseLimit("10000000/s"))
	hot := &bench{short: b.short, keys: []string{"hot"}}
	var rates []float64
	rounds, last := b.rounds()
	for range rounds {
		n, err := hot.load(ctx, goroutines, last, func(ctx context.Context, key string) (bool, error) {
			a, err := l.Take(ctx, key, 1)
			return a.Outcome == weir.Allowed, err
		})
		if err != nil {
			return err
		}
		rates = append(rates, float64(n)/last.Seconds())
	}
	st := s.Stats()
	b.row("PostgreSQL, one hot key, 256 goroutines: decisions/s", rates, "%.0f/s", "", nil)
	each := []float64{float64(st.Takes) / float64(st.Trips)}
	b.row("PostgreSQL, one hot key: decisions for each swap", each, "%.1f", "> 1", table.AtLeast(1))
	return nil
}

// racePostgres counts what 256 callers get of limits that allow 100 in a second, within half a second beside an
// edge of a window: 100 is right. The limiter that looks and then writes is copied as often as the one statement.
func (b *bench) racePostgres(ctx context.Context) error {
	hand, err := b.postgres.handWritten(ctx, "race_hand", "", "", perSecond)
	if err != nil {
		return err
	}
	pool := b.postgres.pools[len(b.postgres.pools)-1]
	_, err = pool.Exec(ctx, "create table if not exists race_look (k text, at timestamptz default clock_timestamp())")
	if err != nil {
		return err
	}
	look := func(ctx context.Context, key string) (bool, error) {
		var n int64
		err := pool.QueryRow(ctx,
			"select count(*) from race_look where k = $1 and at > clock_timestamp() - interval '1 second'", key).Scan(&n)
		if err != nil || n >= perSecond {
			return false, err
		}
		_, err = pool.Exec(ctx, "insert into race_look (k) values ($1)", key)
		return true, err
	}
	ours, _, err := b.postgres.weirPostgres("weir", "", "race_weir", false)
	if err != nil {
		return err
	}
	for _, w := range []struct {
		way

		refills bool // a bucket does, meanwhile
	}{
		{way{name: "weir, 100/s burst 100", take: ours.take}, true},
		{way{name: "insert on conflict", take: hand.take}, false},
		{way{name: "select, then insert", take: look}, false},
	} {
		var over []float64
		for round := range 3 {
			n, took, err := race(ctx, w.way, "race"+strconv.Itoa(round))
			if err != nil {
				return err
			}
			most := float64(perSecond)
			if w.refills {
				most += took.Seconds() * perSecond
			}
			over = append(over, max(0, float64(n)-most))
		}
		b.row("PostgreSQL, one key of 100/s across the edge of a second: passed too many, "+w.name, over, "%.0f", "", nil)
	}
	return nil
}

// race has 256 callers take one key from just before a second begins until just after.
func race(ctx context.Context, w way, key string) (int64, time.Duration, error) {
	if _, err := w.take(ctx, "warm"); err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1750 * time.Millisecond)))
	begin, passed := time.Now(), atomic.Int64{}
	var failed atomic.Pointer[error]
	var g sync.WaitGroup
	for range goroutines {
		g.Go(func() {
			for time.Since(begin) < 500*time.Millisecond {
				ok, err := w.take(ctx, key)
				if err != nil && !errors.Is(err, weir.ErrBusy) {
					failed.Store(&err)
					return
				}
				if ok {
					passed.Add(1)
				}
			}
		})
	}
	g.Wait()
	if err := failed.Load(); err != nil {
		return 0, 0, *err
	}
	return passed.Load(), time.Since(begin), nil
}
