package redisstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/storetest"
)

// opened is a store of a URL that has answered.
func opened(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, _, err := s.Look(t.Context(), nil)
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func addresses(servers []*redistest.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// TestCluster: a Redis Cluster keeps the contract of a store.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 0)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses(servers), DisableRetry: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	o := &opener{client: client, prefix: "test:", cluster: true}
	for _, s := range servers {
		o.nodes = append(o.nodes, connect(t, s.Addr))
	}
	storetest.Run(t, "../testdata/vectors", o.open, storetest.Options{Immortal: o.immortal})
}

// TestTLS: with a CA of its own, and a certificate where the server asks for one;
// without either the error says what is wrong.
func TestTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	certificate, key := ca.Issue(t, "127.0.0.1").Files(t)
	authority := certtest.File(t, "ca.pem", ca.PEM)
	own, ownKey := ca.Issue(t, "client").Files(t)
	at := porttest.Free(t)
	_, port, _ := strings.Cut(at, ":")
	redistest.Start(t, "tls-port", port, "tls-cert-file", certificate, "tls-key-file", key, "tls-ca-cert-file", authority, "tls-auth-clients", "yes")
	s := opened(t, "rediss://"+at+"?prefix=tls:&ca="+authority+"&cert="+own+"&key="+ownKey)
	if d := take(t, s, asksOf("5/s", "k")); !d.Charged {
		t.Errorf("%+v", d)
	}
	for query, want := range map[string]string{
		"?cert=" + own + "&key=" + ownKey: "certificate signed by unknown authority",
		"?ca=" + authority:                "certificate required",
	} {
		s, err := Dial("rediss://" + at + query)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, _, err = s.Look(t.Context(), nil); err != nil && strings.Contains(err.Error(), want) {
				break // the server may also cut the connection before it says so
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Start(t, "unixsocket", path)
	s := opened(t, "redis+unix://"+path)
	if d := take(t, s, asksOf("5/s", "k")); !d.Charged {
		t.Errorf("%+v", d)
	}
}

// load takes events of one key until stop, and tells when takes failed.
type load struct {
	passed atomic.Int64
	mu     sync.Mutex
	last   time.Time // of a failure
	first  time.Time
	why    error
}

func (l *load) run(t *testing.T, s *Store, limit *weir.Limit, stop <-chan struct{}) {
	out := make([]weir.Decision, 1)
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r#1", Key: "k"}, Limit: limit, Cost: 1}}, out)
		switch {
		case err == nil && out[0].Charged:
			l.passed.Add(1)
		case err != nil && t.Context().Err() == nil:
			l.mu.Lock()
			if l.first.IsZero() {
				l.first = time.Now()
			}
			l.last, l.why = time.Now(), err
			l.mu.Unlock()
		}
	}
}

// failover kills a primary under load, and wants takes to work again soon.
func failover(t *testing.T, s *Store, primary *redistest.Server) {
	t.Helper()
	const count = 1_000_000
	limit := weir.MustParseLimit("1000000/day fixed-window")
	var l load
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { l.run(t, s, limit, stop) })
	}
	wait := func(what string, yes func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !yes(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				close(stop)
				wg.Wait()
				t.Fatalf("not within 20 s: %s; %v", what, l.why)
			}
		}
	}
	wait("some pass", func() bool { return l.passed.Load() > 200 })
	known := l.passed.Load()
	goal := offset(t, primary, "master_repl_offset:")
	wait("the replica follows", func() bool { return offset(t, primary, ",offset=") >= goal })
	primary.Kill()
	killed := time.Now()
	wait("takes fail", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return !l.first.IsZero() })
	before := l.passed.Load()
	wait("more pass", func() bool { return l.passed.Load() > before+1000 })
	close(stop)
	wg.Wait()
	out := make([]weir.Decision, 1)
	if err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r#1", Key: "k"}, Limit: limit, Peek: true}}, out); err != nil {
		t.Fatal(err)
	}
	lost := l.passed.Load() - (count - out[0].Remaining)
	t.Logf("takes failed from %v to %v after the kill (%v); %d passed, of which the new primary has forgotten %d",
		l.first.Sub(killed), l.last.Sub(killed), l.why, l.passed.Load(), lost)
	if took := l.last.Sub(killed); took > 15*time.Second {
		t.Errorf("takes failed for %v", took)
	}
	if lost > before-known {
		t.Errorf("%d events are lost, more than the %d that the replica need not have known", lost, before-known)
	}
}

// offset is a number in what a primary says of its replication; 0 when it does not
// say it.
func offset(t *testing.T, primary *redistest.Server, name string) (n int64) {
	t.Helper()
	_, rest, _ := strings.Cut(primary.Ask(t, "INFO", "replication"), name)
	_, _ = fmt.Sscan(strings.FieldsFunc(rest+" 0", func(r rune) bool { return r < '0' || r > '9' })[0], &n)
	return n
}

// TestSentinel: when the primary dies, its replica goes on counting.
func TestSentinel(t *testing.T) {
	sentinel, primary, _ := redistest.StartSentinel(t, "main")
	failover(t, opened(t, "redis+sentinel://"+sentinel.Addr+"/main?prefix=s:"), primary)
}

// TestClusterFailover: the same on a Cluster.
func TestClusterFailover(t *testing.T) {
	servers := redistest.StartCluster(t, 1)
	s := opened(t, "redis+cluster://"+strings.Join(addresses(servers), ",")+"?prefix=c:")
	key := s.key(weir.StateKey{Rule: "r#1", Key: "k"})
	for _, primary := range servers[:3] {
		if !strings.HasPrefix(primary.Ask(t, "GET", key), "-MOVED") {
			failover(t, s, primary)
			return
		}
	}
	t.Fatal("no primary has ", key)
}
