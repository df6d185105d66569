package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/redistest"
)

// slowest is how long a test waits for what must come. It fails no test that is merely slow.
const slowest = 3 * time.Minute

// until waits for something that has to come.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(slowest); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to: " + what)
		}
	}
}

// take asks once, by a daemon or, when it is away, by the fallback.
func take(t *testing.T, s *Store, asks []weir.Ask) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestRememberedDenials: who was denied is denied without a call, until something has
// changed: here at once, and elsewhere within the life of a denial.
func TestRememberedDenials(t *testing.T) {
	for name, args := range stores {
		t.Run(name, func(t *testing.T) {
			w := serve(t, append(args(t), "--grpc-store")...)
			s, other := open(t, "grpc://"+w.grpc), open(t, "grpc://"+w.grpc)
			asks := ask("home", "k", "1/day fixed-window anchored")
			until(t, "a denial", func() bool { return take(t, s, asks).Outcome == weir.Denied })
			sent, retry := s.Stats().Takes, 25*time.Hour
			until(t, "a hundred local denials", func() bool {
				d := take(t, s, asks)
				if d.Degraded != "" {
					return false // on a busy machine the daemon is late, and a local limit denies by its own window
				}
				if d.Outcome != weir.Denied || d.Remaining != 0 || d.RetryAfter <= 23*time.Hour || d.RetryAfter > retry {
					t.Fatalf("%+v after %s", d, retry)
				}
				retry = d.RetryAfter
				return s.Stats().Remembered >= 100
			})
			if more := s.Stats().Takes - sent; more > 50 {
				t.Errorf("%d of 100 denials asked the daemon", more)
			}
			if d := take(t, s, ask("home", "k", "2/day fixed-window anchored")); d.Outcome != weir.Allowed {
				t.Errorf("by a limit that was raised: %+v", d)
			}
			for i, resets := range []*Store{s, other} {
				until(t, "a denial", func() bool { return take(t, s, asks).Outcome == weir.Denied })
				// A slow machine may have the daemon seem away for a moment.
				until(t, "a reset", func() bool {
					err := resets.Reset(t.Context(), []weir.StateKey{asks[0].State})
					if err != nil && !errors.Is(err, weir.ErrAway) {
						t.Fatal(err)
					}
					return err == nil
				})
				if d := take(t, s, asks); i == 0 && d.Outcome != weir.Allowed {
					t.Errorf("after its own reset: %+v", d)
				}
				until(t, "what another program has reset", func() bool { return i == 0 || take(t, s, asks).Outcome == weir.Allowed })
			}
		})
	}
}

// TestStandIn: of daemons that share a store another is asked when one is killed or
// stands still, and what was used stays used.
func TestStandIn(t *testing.T) {
	redis := "redis://" + redistest.Start(t).Addr
	var all []*weird
	var names []string
	for range 3 {
		w := serve(t, "--grpc-store", "--store", redis)
		all, names = append(all, w), append(names, w.grpc)
	}
	s := open(t, "grpc://"+strings.Join(names, ","))
	exactly(t, s)
	if !s.Traits().Atomic {
		t.Error("one store decides at one moment, whoever is asked")
	}
	first := func() *weird {
		is := s.current.Load().daemons
		return all[slices.Index(names, is.chosen().name)]
	}
	asks := ask("exact", "k", "300/day fixed-window anchored") // of exactly
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		// A slow machine may have made one seem away: then another stands in already.
		until(t, "all daemons", func() bool { return s.Stats().Away == 0 })
		was := first()
		if err := was.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		takeBy(t, s, "")
		until(t, "an answer of another daemon", func() bool {
			takeBy(t, s, "")
			return first() != was && s.Stats().Away == 1
		})
		until(t, "a denial by another daemon", func() bool {
			d := take(t, s, asks)
			return d.Degraded == "" && d.Outcome == weir.Denied
		})
		if signal == syscall.SIGSTOP {
			if err := was.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			until(t, "the first one again", func() bool { return first() == was && s.Stats().Away == 0 })
		}
	}
}

// zone is a name server of one name, whose addresses change.
type zone struct {
	mu  sync.Mutex
	all []netip.Addr
}

func (z *zone) set(all ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.all = nil
	for _, a := range all {
		z.all = append(z.all, netip.MustParseAddr(a))
	}
}

// answer is what the server says to a question.
func (z *zone) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, a := range z.all {
		if m.Questions[0].Type == dnsmessage.TypeA {
			head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		}
	}
	return m.Pack()
}

// resolver asks the server, which ends with the test.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	var config net.ListenConfig
	c, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if said, err := z.answer(b[:n]); err == nil {
				_, _ = c.WriteTo(said, from) // a resolver asks again
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close() // it has no more to say
		serving.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

// byName starts daemons at one port of 127.0.0.2, which is first, and of 127.0.0.3. It opens a store
// by a name that stands for these addresses.
func byName(t *testing.T, addresses ...string) (first *weird, port string, names *zone, s *Store) {
	t.Helper()
	first = serve(t, "--grpc-store", "--grpc", "127.0.0.2:0")
	_, port, err := net.SplitHostPort(first.grpc)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, "--grpc-store", "--grpc", "127.0.0.3:"+port)
	names = new(zone)
	names.set(addresses...)
	if s, err = openBy(lookUps{names.resolver(t), 1}, "grpc+dns://weirs.example:"+port, Options{}); err != nil {
		t.Fatal(err)
	}
	return first, port, names, s
}

// TestNames: each address of a name is a daemon, and those that come and go are
// followed.
func TestNames(t *testing.T) {
	a, port, names, s := byName(t, "127.0.0.3", "127.0.0.2", "127.0.0.3")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	servers := func() []string { return s.current.Load().daemons.Servers() }
	if got := servers(); !slices.Equal(got, []string{"127.0.0.2:" + port, "127.0.0.3:" + port}) {
		t.Fatal(got)
	}
	exactly(t, s)
	a.kill()
	names.set("127.0.0.3")
	until(t, "the daemon that is left", func() bool { return slices.Equal(servers(), []string{"127.0.0.3:" + port}) })
	takeBy(t, s, "")
	names.set() // the server has lost it
	serve(t, "--grpc-store", "--grpc", a.grpc)
	names.set("127.0.0.3", "127.0.0.2")
	until(t, "the daemon that is back", func() bool { return len(servers()) == 2 })
	if n := s.Stats(); n.Takes < 300 {
		t.Errorf("what was counted before is gone: %+v", n)
	}
	exactly(t, openAgain(t, s, port))
}

// TestOtherDaemons: when a name stands for other daemons, those before hear at once what was decided
// by sync, and not only when its time is over.
func TestOtherDaemons(t *testing.T) {
	a, _, names, s := byName(t, "127.0.0.2")
	asks, began := ask("r", "k", "100000/day fixed-window"), time.Now()
	asks[0].Policy.Sync = weir.MaxSync
	for s.Stats().Local < 2 {
		take(t, s, asks)
	}
	names.set("127.0.0.3")
	direct := open(t, "grpc://"+a.grpc)
	asks[0].Peek, asks[0].Policy.Sync = true, 0
	until(t, "all events at the daemon that the name has left", func() bool {
		d := take(t, direct, asks)
		return d.Degraded == "" && d.Remaining <= 100000-3
	})
	if took := time.Since(began); took >= weir.MaxSync {
		t.Errorf("it has heard after %v", took)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// openAgain opens what s asks, by its addresses.
func openAgain(t *testing.T, s *Store, port string) *Store {
	t.Helper()
	again := open(t, "grpc://127.0.0.3:"+port+",127.0.0.2:"+port)
	if err := again.Reset(t.Context(), []weir.StateKey{{Rule: "exact", Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 { // both agree on who has what
		k := weir.StateKey{Rule: "r", Key: string(rune('a' + i))}
		if one, other := s.current.Load().daemons.of(k).name, again.current.Load().daemons.of(k).name; one != other {
			t.Errorf("%v: %s and %s", k, one, other)
		}
	}
	return again
}

// TestNameUnknown: a name that nobody knows yet is a daemon that is away.
func TestNameUnknown(t *testing.T) {
	var names zone
	s, err := openBy(lookUps{names.resolver(t), 1}, "grpc+dns://weirs.example:1?token-file="+filepath.Join(t.TempDir(), "none"), Options{})
	if err == nil {
		t.Fatal("a token that is not there was shown", s.Close())
	}
	w := serve(t, "--grpc-store", "--grpc", "127.0.0.2:0")
	_, port, _ := net.SplitHostPort(w.grpc)
	if s, err = openBy(lookUps{names.resolver(t), 1}, "grpc+dns://weirs.example:"+port, Options{}); err != nil {
		t.Fatal(err)
	}
	takeBy(t, s, weir.FallbackLocal)
	names.set("127.0.0.2")
	takeBy(t, s, "")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestNamesTLS: a daemon at an address of a name has a certificate for the name.
func TestNamesTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	authority := certtest.File(t, "ca.pem", ca.PEM)
	cert, key := ca.Issue(t, "weirs.example").Files(t)
	w := serve(t, "--grpc-store", "--grpc", "127.0.0.2:0", "--tls-cert", cert, "--tls-key", key)
	_, port, _ := net.SplitHostPort(w.grpc)
	var names zone
	names.set("127.0.0.2")
	for name, fallback := range map[string]weir.Fallback{"weirs.example": "", "others.example": weir.FallbackLocal} {
		s, err := openBy(lookUps{names.resolver(t), 1}, "grpcs+dns://"+name+":"+port+"?ca="+authority, Options{})
		if err != nil {
			t.Fatal(err)
		}
		takeBy(t, s, fallback)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
