// Package natstest starts NATS servers with JetStream for tests, in this process, on free loopback
// ports and with temporary folders, and stops them.
package natstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-limit/weir/internal/porttest"
)

// wait is how long servers may take for anything.
const wait = 30 * time.Second

// Server is a nats-server of one test.
type Server struct {
	Addr    string // host:port
	options server.Options
	running *server.Server
}

// Start starts a server. A change is made to its options before.
func Start(t testing.TB, changes ...func(*server.Options)) *Server {
	t.Helper()
	s := newServer(t, "alone")
	for _, change := range changes {
		change(&s.options)
	}
	s.Restart(t)
	return s
}

func newServer(t testing.TB, name string) *Server {
	t.Helper()
	port := porttest.Port(t)
	s := &Server{Addr: fmt.Sprint("127.0.0.1:", port), options: server.Options{
		ServerName: name, Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	}}
	t.Cleanup(s.Stop)
	return s
}

// Stop stops the server. What it has on disk stays.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
	}
}

// Disk is the folder where the server keeps what it has.
func (s *Server) Disk() string { return s.options.StoreDir }

// Restart starts the server at its address, where it does not run.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	options := s.options // a server changes its own
	running, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	s.running = running
	running.Start()
	if !running.ReadyForConnections(wait) {
		t.Fatal("nats-server does not begin")
	}
}

// Cluster is servers that know each other.
type Cluster []*Server

// StartCluster starts so many servers, and waits until they have a leader.
func StartCluster(t testing.TB, n int) Cluster {
	t.Helper()
	var c Cluster
	var routes []string
	for i := range n {
		s := newServer(t, fmt.Sprint("node", i))
		port := porttest.Port(t)
		s.options.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", port))
		c = append(c, s)
	}
	for _, s := range c {
		s.options.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		s.Restart(t)
	}
	c.Ready(t)
	return c
}

// Ready waits until the servers that run have a leader of JetStream, which knows that they do.
func (c Cluster) Ready(t testing.TB) {
	t.Helper()
	Until(t, "the cluster has a leader", func() bool {
		running, known := 0, 0
		for _, s := range c {
			if s.running.Running() {
				running++
				known = max(known, len(s.running.JetStreamClusterPeers())) // of one that leads
			}
		}
		return known >= running
	})
}

// Addrs are where the servers are, for a URL.
func (c Cluster) Addrs() string {
	var all []string
	for _, s := range c {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// Leader is the server that leads a stream; nil while none does.
func (c Cluster) Leader(stream string) *Server {
	for _, s := range c {
		if s.running.Running() && s.running.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return s
		}
	}
	return nil
}

// StepDown has the server lead a stream no longer.
func (s *Server) StepDown(stream string) error {
	return s.running.JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// Until waits for what has to come.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", wait, what)
		}
	}
}

// Reload changes the options of a server that runs.
func (s *Server) Reload(change func(*server.Options)) error {
	change(&s.options)
	options := s.options
	return s.running.ReloadOptions(&options)
}
