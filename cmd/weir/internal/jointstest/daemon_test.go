package jointstest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
	"github.com/weir-limit/weir/rules"
)

// patience is how long something may take that has to happen, on a machine that has
// much else to do.
const patience = 20 * time.Second

// running is a daemon in this process.
type running struct {
	config daemon.Config
	daemon *daemon.Daemon
	log    *logged
	front  front
	grpcAt string
	stop   context.CancelFunc
	done   chan error
}

var readyLine = regexp.MustCompile(`^weir ready http=(\S+) grpc=(\S+) admin=(\S+) resp=(\S+) store=`)

// start runs a daemon with these rules until it is stopped.
func start(c daemon.Config) (*running, error) {
	for _, at := range []*string{&c.HTTP, &c.GRPC, &c.Admin, &c.RESP} {
		*at = "127.0.0.1:0"
	}
	c.LameDuck = time.Millisecond
	out, in := io.Pipe()
	c.Stdout = in
	r := &running{config: c, log: &logged{make(chan bool, 16)}, done: make(chan error, 1)}
	c.Log = slog.New(r.log)
	d, err := daemon.New(c)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.daemon, r.stop = d, stop
	go func() { r.done <- errors.Join(d.Run(ctx), in.Close()) }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		stop()
		return nil, <-r.done
	}
	m := readyLine.FindStringSubmatch(lines.Text())
	go func() { _, _ = io.Copy(io.Discard, out) }()
	r.grpcAt = m[2]
	r.front = front{receipts: map[string]heldReceipts{}}
	token := ""
	if c.AdminTokenFile != "" {
		token = rulingToken
	}
	distant(&r.front, m[1], m[3], token)
	r.front.dialGRPC = func() (string, error) { return m[2], nil }
	r.front.dialRESP = func() (string, error) { return m[4], nil }
	return r, nil
}

func (r *running) end() error {
	r.front.hangUp()
	r.stop()
	return <-r.done
}

// reload puts the rules of the file in force.
func (r *running) reload() error {
	r.daemon.Reload()
	select {
	case good := <-r.log.reloads:
		if !good {
			return errors.New("the rules were refused")
		}
		return nil
	case <-time.After(patience):
		return errors.New("the rules were not reloaded")
	}
}

// server is a store of its own process.
type server interface {
	Restart(testing.TB)
	Signal(testing.TB, os.Signal)
	Kill()
}

// serve starts the server of a store, and says by which URL it is asked.
func serve(t testing.TB, store string) (server, string) {
	switch store {
	case "redis":
		s := redistest.Start(t)
		return s, "redis://" + s.Addr
	case "memcached":
		s := memcachedtest.Start(t)
		return s, "memcached://" + s.Addr
	case "postgres":
		s := postgrestest.StartTCP(t)
		return &postgres{Server: s}, s.Database(t)
	case "nats":
		s := &natsServer{Server: natstest.Start(t)}
		return s, "nats://" + proxytest.Start(t, s.Addr, s.pass) + "?storage=memory"
	}
	return nil, ""
}

// natsServer is in this process. What is said to it and by it waits while it is frozen. Like the
// others it forgets when it is killed.
type natsServer struct {
	*natstest.Server

	frozen atomic.Bool
}

func (s *natsServer) pass(_ bool, b []byte) (int, bool) {
	for s.frozen.Load() {
		time.Sleep(time.Millisecond)
	}
	return len(b), false
}

func (s *natsServer) Signal(_ testing.TB, signal os.Signal) {
	s.frozen.Store(signal == syscall.SIGSTOP)
}

func (s *natsServer) Kill() {
	s.frozen.Store(false)
	s.Stop()
}

// postgres is a server of many processes, which stop and go on together.
type postgres struct {
	*postgrestest.Server

	thaw func()
}

func (p *postgres) Signal(t testing.TB, s os.Signal) {
	if s == syscall.SIGSTOP {
		p.thaw = p.Freeze(t)
	} else {
		p.thaw()
	}
}

// missing is the program that a house needs and this machine has not; empty: none.
func missing(house string) string {
	for store, program := range map[string]string{"redis": "redis-server", "memcached": "memcached"} {
		if _, err := exec.LookPath(program); err != nil && strings.HasSuffix(house, store) {
			return program
		}
	}
	if (strings.HasSuffix(house, "postgres") || house == "ruled redis") && !postgrestest.There() {
		return "postgresql"
	}
	return ""
}

// served is a daemon, in this process, or a program that asks a store by itself.
type served struct {
	t      testing.TB
	file   string
	store  string
	server server // nil: the store is in memory
	state  string // of the server: empty, frozen or killed
	node   *running
	// of a program
	program    *front
	exceptions rules.Exceptions
	closing    []func() error
	ruled      *ruling // nil: rules come from the file
}

func openDaemon(t testing.TB, store, file string) (*served, error) {
	s := &served{t: t, file: filepath.Join(t.TempDir(), "rules.yaml"), store: store}
	url := "memory:"
	if store == "snapshot" {
		url = "memory:?snapshot=" + filepath.Join(t.TempDir(), "counts")
	}
	if server, at := serve(t, store); server != nil {
		s.server, url = server, at
	}
	if err := write(s.file, file); err != nil {
		return nil, err
	}
	var err error
	s.node, err = start(daemon.Config{Store: url, Rules: s.file, GRPCStore: store == "client"})
	return s, err
}

// openProgram is a Go program with rules and a store: of a daemon in memory, Redis, PostgreSQL or memcached. Words
// that begin with edge put one around the store, as there is around that of a daemon.
func openProgram(t testing.TB, words, file string) (s *served, err error) {
	var opened weir.Store
	store, edged := strings.CutPrefix(words, "edge ")
	if store == "client" {
		if s, err = openDaemon(t, store, file); err != nil {
			return nil, err
		}
		c, err := client.Open("grpc://"+s.node.grpcAt, client.Options{})
		if err != nil {
			return nil, err
		}
		opened, s.closing = c, append(s.closing, c.Close)
	} else {
		s = &served{t: t, store: store}
		var url string
		s.server, url = serve(t, store)
		if opened, err = s.open(url, edged); err != nil {
			return nil, err
		}
	}
	set, err := rules.Parse("rules.yaml", []byte(file))
	if err != nil {
		return nil, err
	}
	s.program = &front{limiter: rules.NewLimiter(opened, set), traits: opened.Traits(), receipts: map[string]heldReceipts{}}
	s.program.limiter.Except(&s.exceptions, nil)
	return s, s.meet(opened)
}

// meet waits until a program's store answers.
func (s *served) meet(store weir.Store) error {
	limit := weir.MustParseLimit("1/s")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		asks, out := []weir.Ask{{State: weir.StateKey{Rule: "meet"}, Limit: limit, Cost: 1, Peek: true}}, make([]weir.Decision, 1)
		if err := store.Take(context.Background(), asks, out); err == nil && out[0].Degraded == "" {
			return nil
		}
	}
	return errors.New("the store does not answer")
}

// open opens the store of a program.
func (s *served) open(url string, edged bool) (weir.Store, error) {
	var bare edge.Remote
	var err error
	switch s.store {
	case "redis":
		bare, err = redisstore.Dial(url)
	case "postgres":
		bare, err = pgstore.Dial(url, pgstore.Options{})
	default:
		bare, err = memcachestore.Dial(url, memcachestore.Options{})
	}
	if err != nil {
		return nil, err
	}
	if !edged {
		s.closing = append(s.closing, bare.Close)
		return bare, nil
	}
	around := edge.New(bare, edge.Options{})
	s.closing = append(s.closing, around.Close)
	return around, nil
}

func (s *served) promises() oracle.Promises {
	if s.remote() {
		return oracle.Promises{Due: true}
	}
	return oracle.Promises{Keys: 1_000_000, Exact: true, Due: true}
}

// remote is whether the store may be late, so that fallbacks decide.
func (s *served) remote() bool { return s.server != nil || s.store == "client" }

func (s *served) fronts() []*front {
	if s.program != nil {
		return []*front{s.program}
	}
	all := []*front{&s.node.front}
	if s.ruled != nil {
		for _, r := range s.ruled.more {
			all = append(all, &r.front)
		}
	}
	return all
}
func (s *served) now() int64   { return time.Now().UnixMicro() }
func (s *served) slack() int64 { return 3000 }
func (s *served) tick()        {}

func (s *served) close() {
	if s.program != nil {
		s.program.hangUp()
	}
	for _, c := range s.closing {
		if err := c(); err != nil && s.server == nil {
			s.t.Error(err)
		}
	}
	if s.ruled != nil {
		for _, r := range s.ruled.more {
			if err := r.end(); err != nil {
				s.t.Error(err)
			}
		}
	}
	if s.node != nil {
		if err := s.node.end(); err != nil {
			s.t.Error(err)
		}
	}
	if s.server != nil {
		s.server.Kill()
	}
}

func (s *served) reload(file string) error {
	if s.program != nil {
		set, err := rules.Parse("rules.yaml", []byte(file))
		if err == nil {
			s.program.limiter.Replace(set)
		}
		return err
	}
	if s.ruled != nil {
		return s.publish(file)
	}
	return errors.Join(write(s.file, file), s.node.reload())
}

func (s *served) act(st *step) (kept, receipts bool, err error) {
	switch {
	case st.op == "wait":
		time.Sleep(st.by)
		return true, true, nil
	case st.op == "restart" && s.ruled != nil:
		return s.server != nil, false, s.restartAll()
	case st.op == "restart" && s.program == nil:
		config := s.node.config
		if err := s.node.end(); err != nil {
			return false, false, err
		}
		s.node, err = start(config)
		return s.store == "snapshot" || s.server != nil, false, err
	case st.op == "store" && s.server != nil:
		return true, true, s.turn(st.what)
	}
	return true, true, errNoStep
}

// turn is what becomes of the server of a store.
func (s *served) turn(what string) error {
	switch {
	case what == "freeze" && s.state == "":
		s.server.Signal(s.t, syscall.SIGSTOP)
		s.state = "frozen"
	case what == "thaw" && s.state == "frozen":
		s.server.Signal(s.t, syscall.SIGCONT)
		s.state = ""
	case what == "kill" && s.state == "":
		s.server.Kill()
		s.state = "killed"
	case what == "back" && s.state == "killed":
		s.server.Restart(s.t)
		s.state = ""
	default:
		return errNoStep
	}
	if what == "thaw" || what == "back" {
		time.Sleep(150 * time.Millisecond) // it is tried each 120 ms
	}
	return nil
}
