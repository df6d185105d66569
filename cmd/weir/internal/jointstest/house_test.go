package jointstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/cmd/weir/internal/resp"
	doorrls "github.com/weir-limit/weir/cmd/weir/internal/rls"
	clients "github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// house is what a story is played in.
type house interface {
	promises() oracle.Promises
	fronts() []*front // by node; nil where a node is gone
	now() int64       // by the clock that decides, microseconds
	slack() int64     // how far another clock may be from it
	tick()            // another step begins
	reload(file string) error
	// act does what else a step says. It says whether counts survive it, and whether
	// receipts do.
	act(s *step) (kept, receipts bool, err error)
	close()
}

// openHouse opens the house of a story, with its first rules:
//
//	parts [keys=N] [snapshot]    listeners around a store in memory, with a clock of the story's
//	daemon STORE                 a daemon, in this process: memory, snapshot, redis, memcached, postgres, nats
//	ruled STORE                  two daemons with one rule database, and counts of their own in memory, or both in redis
//	program [edge] STORE         a Go program with rules: client (of a daemon), redis, memcached, postgres
//	cluster N [SHARING]          so many nodes, in processes of their own, which share so
func openHouse(t testing.TB, words, file string) (house, error) {
	kind, rest, _ := strings.Cut(words, " ")
	switch kind {
	case "parts":
		return openParts(t, strings.Fields(rest), file)
	case "daemon":
		return openDaemon(t, rest, file)
	case "ruled":
		return openRuled(t, rest, file)
	case "program":
		return openProgram(t, rest, file)
	case "cluster":
		return openCluster(t, rest, file)
	}
	return nil, fmt.Errorf("no house %q", words)
}

// parts is listeners around a store in memory whose clock is the story's.
type parts struct {
	t     testing.TB
	keys  int
	file  string // of the snapshot; empty: none
	clock atomic.Int64
	set   *rules.Set
	front front
	// exceptions outlive a restart: a rule database has them.
	exceptions rules.Exceptions
	stops      []func()
}

// noon is when the clock of parts begins: no window ends soon after. It is ahead of all
// real clocks, for a snapshot leaves out what is as never used by the wall clock.
var noon = time.Date(2066, 3, 10, 12, 7, 13, 0, time.UTC)

func openParts(t testing.TB, words []string, file string) (*parts, error) {
	p := &parts{t: t, keys: 1 << 16}
	p.clock.Store(noon.UnixMicro())
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, "keys="); ok {
			p.keys, _ = strconv.Atoi(n)
		}
		if w == "snapshot" {
			p.file = filepath.Join(t.TempDir(), "counts")
		}
	}
	var err error
	if p.set, err = rules.Parse("rules.yaml", []byte(file)); err != nil {
		return nil, err
	}
	return p, p.open()
}

// clocked is a store at the story's time.
type clocked struct {
	*memstore.Store

	at func() weir.Instant
}

func (c clocked) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return c.TakeAt(c.at(), asks, out)
}

func (c clocked) Settle(_ context.Context, s []weir.Settlement) error { return c.SettleAt(c.at(), s) }

func (c clocked) Reset(_ context.Context, k []weir.StateKey) error { return c.ResetAt(c.at(), k) }

func (p *parts) open() error {
	memory := memstore.New(memstore.Options{MaxKeys: p.keys})
	if p.file != "" {
		var err error
		if memory, err = memstore.Open(p.file, memstore.Options{MaxKeys: p.keys}); err != nil {
			return err
		}
	}
	store := clocked{memory, func() weir.Instant { return weir.Instant(p.clock.Load()) }}
	limiter := rules.NewLimiter(store, p.set)
	limiter.Except(&p.exceptions, nil)
	api, err := httpapi.New(limiter, httpapi.Options{})
	if err != nil {
		return err
	}
	p.front = front{http: api, admin: httpapi.NewAdmin(limiter, func(*http.Request) (*clients.Scope, error) { return clients.All(), nil }, httpapi.Options{}), limiter: limiter, traits: store.Traits(), receipts: map[string]heldReceipts{}}
	p.stops = append(p.stops, func() {
		if p.file != "" {
			if err := memory.Save(); err != nil {
				p.t.Error(err)
			}
		}
	})
	return p.listen(limiter, store)
}

// listen makes the listeners that have connections, which are opened when they are asked.
func (p *parts) listen(limiter *rules.Limiter, store weir.Store) error {
	calls, commands := doorrls.New(limiter, doorrls.Options{}), resp.New(limiter, store, resp.Options{})
	open := func(serve func(net.Listener) error, stop func(context.Context) error) (string, error) {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		go func() { _ = serve(l) }() // until it is stopped
		p.stops = append(p.stops, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			p.front.hangUp()
			if err := stop(ctx); err != nil {
				p.t.Error(err)
			}
		})
		return l.Addr().String(), nil
	}
	p.front.dialGRPC = func() (string, error) { return open(calls.Serve, calls.Stop) }
	p.front.dialRESP = func() (string, error) { return open(commands.Serve, commands.Stop) }
	return nil
}

// calls is a connection to the gRPC listener.
func (f *front) calls() (rls.RateLimitServiceClient, error) {
	if f.grpc != nil {
		return f.grpc, nil
	}
	at, err := f.dialGRPC()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	f.grpc = rls.NewRateLimitServiceClient(conn)
	f.closers = append(f.closers, conn)
	return f.grpc, nil
}

// commands is a connection to the listener that speaks the Redis protocol.
func (f *front) commands() (net.Conn, error) {
	if f.resp != nil {
		return f.resp, nil
	}
	at, err := f.dialRESP()
	if err != nil {
		return nil, err
	}
	if f.resp, err = new(net.Dialer).DialContext(context.Background(), "tcp", at); err != nil {
		return nil, err
	}
	f.respIn = bufio.NewReader(f.resp)
	f.closers = append(f.closers, f.resp)
	return f.resp, nil
}

func (f *front) hangUp() {
	for _, c := range f.closers {
		_ = c.Close() // nothing is on its way
	}
	f.closers, f.grpc, f.resp = nil, nil, nil
	if f.leave != nil {
		f.leave()
	}
}

func (p *parts) promises() oracle.Promises {
	return oracle.Promises{Keys: p.keys, Exact: true, Due: true}
}
func (p *parts) fronts() []*front { return []*front{&p.front} }
func (p *parts) now() int64       { return p.clock.Load() }
func (p *parts) slack() int64     { return 0 }
func (p *parts) tick()            { p.clock.Add(1) }

func (p *parts) close() {
	for i := len(p.stops) - 1; i >= 0; i-- {
		p.stops[i]()
	}
	p.stops = nil
}

func (p *parts) reload(file string) error {
	set, err := rules.Parse("rules.yaml", []byte(file))
	if err == nil {
		p.set = set
		p.front.limiter.Replace(set)
	}
	return err
}

func (p *parts) act(s *step) (kept, receipts bool, err error) {
	switch s.op {
	case "clock":
		p.clock.Add(s.by.Microseconds())
		return true, true, nil
	case "wait":
		p.clock.Add(s.by.Microseconds())
		return true, true, nil
	case "restart":
		p.close()
		return p.file != "", false, p.open()
	}
	return true, true, errNoStep
}

// errNoStep is returned for what can't happen in a house: the step is passed over.
var errNoStep = errors.New("this can't happen here")

// logged tells of what a daemon logs.
type logged struct{ reloads chan bool }

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "rules reloaded" || strings.HasPrefix(r.Message, "rule file refused") {
		select {
		case l.reloads <- r.Message == "rules reloaded":
		default:
		}
	}
	return nil
}

func write(path, text string) error {
	next := path + ".next"
	return errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, path))
}

var _ io.Closer = net.Conn(nil)
