package client

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/rules"
)

// weird is weir serve as it is shipped.
type weird struct {
	*exec.Cmd

	grpc string // as --grpc has it
}

var buildWeir = sync.OnceValues(func() (string, error) { return program("../cmd/weir") })

var grpcAt = regexp.MustCompile(` grpc=(\S+) `)

func serve(t testing.TB, args ...string) *weird {
	t.Helper()
	binary, err := buildWeir()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(args, "--grpc") {
		args = append(args, "--grpc", "127.0.0.1:0")
	}
	w := &weird{Cmd: exec.CommandContext(t.Context(), binary, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	m := grpcAt.FindStringSubmatch(line)
	if err != nil || m == nil {
		t.Fatalf("%q is no ready line: %v", line, err)
	}
	w.grpc = m[1]
	return w
}

// kill ends the process without a word.
func (w *weird) kill() {
	_ = w.Process.Kill() // it may have ended
	_ = w.Wait()
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ask(rule, key, limit string) []weir.Ask {
	return []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}}
}

// takeBy asks until the answer is by fallback, or, for "", by the daemon.
func takeBy(t *testing.T, s *Store, fallback weir.Fallback) {
	t.Helper()
	for end := time.Now().Add(slowest); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), ask("r", "k", "1000000/day"), out); err != nil {
			t.Fatal(err)
		}
		if out[0].Outcome != weir.Allowed {
			t.Fatalf("%+v", out[0])
		}
		if out[0].Degraded == fallback {
			return
		}
	}
	t.Fatalf("never answered by %q: %+v", fallback, s.Stats())
}

// exactly: 64 goroutines of several programs pass what the limit lets. Takes that a
// guard gave up, for this machine was busy, may or may not have been charged.
func exactly(t *testing.T, stores ...*Store) {
	t.Helper()
	var passed, lost atomic.Int64
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			asks, out := ask("exact", "k", "300/day fixed-window anchored"), make([]weir.Decision, 1)
			for range 10 {
				switch err := stores[g%len(stores)].current.Load().daemons.Take(t.Context(), asks, out); {
				case errors.Is(err, weir.ErrAway):
					lost.Add(1)
				case err != nil:
					t.Error(err)
					return
				case out[0].Charged:
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n > 300 || n+lost.Load() < 300 {
		t.Errorf("%d of 640 passed and %d were lost, want 300", n, lost.Load())
	}
}

// stores are what may be behind a daemon, as flags.
var stores = map[string]func(t *testing.T) []string{
	"memory": func(*testing.T) []string { return nil },
	"redis":  func(t *testing.T) []string { return []string{"--store", "redis://" + redistest.Start(t).Addr} },
}

// TestExact: programs share one count, by any store behind the daemon.
func TestExact(t *testing.T) {
	for name, args := range stores {
		t.Run(name, func(t *testing.T) {
			w := serve(t, append(args(t), "--grpc-store")...)
			url := "grpc://" + w.grpc
			stores := []*Store{open(t, url), open(t, url), open(t, url)}
			exactly(t, stores...)
			if traits := stores[0].Traits(); !traits.Shared || !traits.Atomic || !traits.OwnClock {
				t.Errorf("%+v", traits)
			}
			why := stores[0].Traits().Unfit(weir.MustParseLimit("10/s warm-up 1s"))
			if (why == "") != (name == "memory") {
				t.Errorf("of warm-up it says %q", why)
			}
		})
	}
}

// TestSeveral: of two daemons each has its part, and one that is away takes only its
// own with it.
func TestSeveral(t *testing.T) {
	a, b := serve(t, "--grpc-store"), serve(t, "--grpc-store")
	url := "grpc://" + a.grpc + "," + b.grpc
	stores := []*Store{open(t, url), open(t, "grpc://"+b.grpc+","+a.grpc)}
	exactly(t, stores...)
	if stores[0].Traits().Atomic {
		t.Error("two daemons decide nothing at one moment")
	}
	of, names := map[string]int{}, stores[0].current.Load().daemons.Servers()
	failed := func() (n int) {
		for i := range 100 {
			asks := ask("part", string(rune('a'+i)), "1000/day")
			server := names[stores[0].current.Load().daemons.ServerOf(asks[0].State)]
			of[server]++
			if err := stores[0].current.Load().daemons.Take(t.Context(), asks, make([]weir.Decision, 1)); err != nil {
				n++
				if server != a.grpc {
					t.Errorf("%s is there, and did not decide: %v", server, err)
				}
			}
		}
		return n
	}
	if n := failed(); n > 0 || of[a.grpc] < 30 || of[b.grpc] < 30 {
		t.Errorf("%d failed; keys of each: %v", n, of)
	}
	a.kill()
	clear(of)
	if n := failed(); n != of[a.grpc] {
		t.Errorf("%d failed of %d that the dead one has", n, of[a.grpc])
	}
}

// TestAway: a daemon that is killed, or stands still, makes fallbacks decide, and is
// asked again when it is back.
func TestAway(t *testing.T) {
	w := serve(t, "--grpc-store")
	s := open(t, "grpc://"+w.grpc)
	takeBy(t, s, "")
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	takeBy(t, s, weir.FallbackLocal)
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	takeBy(t, s, "")
	w.kill()
	takeBy(t, s, weir.FallbackLocal)
	serve(t, "--grpc-store", "--grpc", w.grpc)
	takeBy(t, s, "")
}

// TestAwayAtFirst: a store opens before its daemon is there.
func TestAwayAtFirst(t *testing.T) {
	w := serve(t, "--grpc-store")
	w.kill()
	s := open(t, "grpc://"+w.grpc)
	takeBy(t, s, weir.FallbackLocal)
	if s.Traits().Atomic {
		t.Error("a daemon that was never heard promises nothing")
	}
	serve(t, "--grpc-store", "--grpc", w.grpc)
	takeBy(t, s, "")
}

// TestCloseReports: a store that is closed as soon as its daemon is back reports what the
// fallback let pass. Without the daemon, Close says what is lost.
func TestCloseReports(t *testing.T) {
	w := serve(t, "--grpc-store")
	w.kill()
	asks, out := ask("r", "k", "100/day fixed-window anchored"), make([]weir.Decision, 1)
	for _, back := range []bool{false, true} {
		s, err := Open("grpc://"+w.grpc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			if err := s.Take(t.Context(), asks, out); err != nil || out[0].Degraded != weir.FallbackLocal {
				t.Fatalf("%+v, %v", out[0], err)
			}
		}
		if back {
			serve(t, "--grpc-store", "--grpc", w.grpc)
		}
		if err := s.Close(); errors.Is(err, weir.ErrAway) == back || back && err != nil {
			t.Errorf("the daemon is back: %v; closed with %v", back, err)
		}
	}
	s := open(t, "grpc://"+w.grpc)
	if err := s.Take(t.Context(), asks, out); err != nil || out[0].Degraded != "" || out[0].Remaining != 69 {
		t.Errorf("%+v, %v: 69 remain", out[0], err)
	}
}

// TestSocket: a socket of this machine, and one that a killed daemon has left.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 2 {
		w := serve(t, "--grpc-store", "--grpc", "unix://"+path)
		if w.grpc != "unix://"+path {
			t.Errorf("the ready line says %s", w.grpc)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("%v, %v", info, err)
		}
		takeBy(t, open(t, "grpc+unix://"+path), "")
		w.kill()
	}
}

// TestRefused: a daemon that does not lend its store, or not to everybody, says so at
// once.
func TestRefused(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("correct-horse-battery-staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed, guarded := serve(t), serve(t, "--grpc-store", "--grpc-store-token-file", token)
	for _, url := range []string{"grpc://" + closed.grpc, "grpc://" + guarded.grpc} {
		_, err := Open(url, Options{})
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Errorf("%s: %v", url, err)
		}
	}
	takeBy(t, open(t, "grpc://"+guarded.grpc+"?token-file="+token), "")
}

// TestTLS: a daemon with a certificate, which asks for one.
func TestTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	authority := certtest.File(t, "ca.pem", ca.PEM)
	cert, key := ca.Issue(t, "127.0.0.1").Files(t)
	w := serve(t, "--grpc-store", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", authority)
	takeBy(t, open(t, "grpcs://"+w.grpc+"?ca="+authority+"&cert="+cert+"&key="+key), "")
	for _, url := range []string{"grpc://" + w.grpc, "grpcs://" + w.grpc, "grpcs://" + w.grpc + "?ca=" + authority} {
		takeBy(t, open(t, url), weir.FallbackLocal)
	}
}

// TestUnfitUnheard: a daemon that stands still is waited for once, however many limits are
// asked about.
func TestUnfitUnheard(t *testing.T) {
	w := serve(t, "--grpc-store")
	store := open(t, "grpc://"+w.grpc)
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Process.Signal(syscall.SIGCONT) }() // so that it ends
	traits, began := store.Traits(), time.Now()
	for n := range 20 {
		if why := weir.MustParseLimit(fmt.Sprintf("%d/s", n+1)).Unfit(traits); why != "" {
			t.Error(why)
		}
	}
	if took := time.Since(began); took > 10*firstContact {
		t.Errorf("20 limits have waited for %v; one waits for %v", took, firstContact)
	}
}

// TestBadURLs: each is refused with what to write instead, and nothing is opened.
func TestBadURLs(t *testing.T) {
	for _, url := range []string{
		"", "127.0.0.1:8081", "http://127.0.0.1:8081", "grpc://", "grpc://host", "grpc://:8081", "grpc://a:1,,b:2", "grpc://a:1,a:1",
		"grpc://h:x", "grpc://h:0", "grpc://a b:1", "grpc+dns://h:http", "grpcs://a:1?ca=x&ca=x", "grpc://user@a:1", "grpc+unix://run/s", "grpc+dns://a:1,b:1", "grpc+dns://a", "grpcs+unix:///s", "grpc+unix+dns:///s", "grpc://127.0.0.1:1?what=1", "grpc://127.0.0.1:1?ca=x", "grpcs://127.0.0.1:1?ca=/none",
		"grpcs://127.0.0.1:1?cert=x", "grpc://10.0.0.1:1?token-file=daemon.go", "grpc://127.0.0.1:1?token-file=/none", "grpc://127.0.0.1:1?%zz",
	} {
		_, err := Open(url, Options{})
		if _, ok := errors.AsType[*URLError](err); !ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestRulesOverThere: a rule file's rules, decided in the program with counts at the
// daemon.
func TestRulesOverThere(t *testing.T) {
	w := serve(t, "--grpc-store")
	set, err := rules.Parse("rules.yaml", []byte("domain: d\ndescriptors: [{key: user, limits: [5/day fixed-window, 3 concurrent]}]"))
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for range 2 {
		limiter := rules.NewLimiter(open(t, "grpc://"+w.grpc).current.Load().daemons, set)
		for range 4 {
			answer, err := limiter.Check(t.Context(), &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{
				{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 1},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Allowed {
				passed++
			}
		}
	}
	if passed != 3 {
		t.Errorf("%d passed, want 3", passed)
	}
}

// TestPermits: a permit of a daemon's store is another program's to wait for until it
// is freed, or until its ttl is over; who holds it for longer renews it.
func TestPermits(t *testing.T) {
	for name, args := range stores {
		t.Run(name, func(t *testing.T) {
			w := serve(t, append(args(t), "--grpc-store")...)
			limiter := func(rule, limit string) *weir.Limiter {
				return weir.NewLimiter(open(t, "grpc://"+w.grpc), rule, weir.MustParseLimit(limit))
			}
			one, other := limiter("long", "1 concurrent ttl 1h"), limiter("long", "1 concurrent ttl 1h")
			key, held := hold(t, one)
			left := func() time.Duration {
				a := peek(t, other, key)
				if a.Outcome != weir.Denied || a.ResetAfter <= 0 {
					t.Fatalf("%+v", a)
				}
				return a.ResetAfter
			}
			before := left()
			time.Sleep(20 * time.Millisecond)
			aged := left()
			if aged >= before {
				t.Fatalf("%s are left, and before it were %s", aged, before)
			}
			// On a busy machine the first answers may come so late that a renewed permit has aged, too.
			until(t, "a permit that is renewed", func() bool { return one.Renew(t.Context(), held) == nil && left() > aged })
			until(t, "a permit that is freed", func() bool {
				_, err := one.Settle(t.Context(), held, 1)
				return err == nil || errors.Is(err, weir.ErrSettled) // by a try whose answer was lost
			})
			until(t, "a permit for the other", func() bool { return peek(t, other, key).Outcome == weir.Allowed })

			short, next := limiter("short", "1 concurrent ttl 1s"), limiter("short", "1 concurrent ttl 1s")
			key, killed := hold(t, short)
			until(t, "a permit whose time is over", func() bool { return has(answer(t, next, weir.Request{Key: key, Cost: 1})) })
			until(t, "an answer to a late renewal", func() bool {
				err := short.Renew(t.Context(), killed)
				if err == nil {
					t.Fatal("another has it, and it was renewed")
				}
				return errors.Is(err, weir.ErrExpired)
			})
		})
	}
}

// answer is what a limiter says.
func answer(t *testing.T, l *weir.Limiter, r weir.Request) weir.Answer {
	t.Helper()
	a, err := l.Ask(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// has is whether the daemon has given what was asked for.
func has(a weir.Answer) bool { return a.Outcome == weir.Allowed && a.Degraded == "" }

// hold gets a permit of the daemon's store. A permit whose answer the guard gave up is held by
// nobody, so each try has a key of its own.
func hold(t *testing.T, l *weir.Limiter) (key string, held weir.Answer) {
	t.Helper()
	tries := 0
	until(t, "a permit", func() bool {
		tries++
		key = fmt.Sprint("k", tries)
		held = answer(t, l, weir.Request{Key: key, Cost: 1, Receipt: true})
		return has(held)
	})
	return key, held
}

// peek is what the daemon would say.
func peek(t *testing.T, l *weir.Limiter, key string) (a weir.Answer) {
	t.Helper()
	until(t, "a word of the daemon", func() bool {
		a = answer(t, l, weir.Request{Key: key, Cost: 1, Peek: true})
		return a.Degraded == ""
	})
	return a
}
