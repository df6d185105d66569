package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/redistest"
)

func asksOf(limit string, key string) []weir.Ask {
	return []weir.Ask{{State: weir.StateKey{Rule: "r#1", Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}}
}

func take(t *testing.T, s weir.Store, asks []weir.Ask) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// run runs a command of Redis.
func run(t testing.TB, c rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	r := c.Do(t.Context(), c.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", words, err)
	}
	return r
}

// ttls are the milliseconds that each key has left.
func ttls(t testing.TB, c rueidis.Client, prefix string) map[string]int64 {
	t.Helper()
	keys, err := run(t, c, "KEYS", prefix+"*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, k := range keys {
		if all[k], err = run(t, c, "PTTL", k).AsInt64(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestEveryKeyExpires: whatever is done, no key stays for ever, and none longer
// than its limit and its receipts need.
func TestEveryKeyExpires(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	s := New(client, Options{Prefix: "ttl:"})
	refunded := map[string]bool{}
	for i, text := range []string{
		"5/s", "5/s debt 2", "5/s initial 1", "10/s strict burst 2", "5/s leaky-queue", "5/s fixed-window", "2/day fixed-window zone Asia/Tokyo",
		"5/s sliding-log", "5/s sliding-window 5", "5/s fixed-window count-denied", "2 concurrent ttl 1s", "5/s fixed-window anchored",
	} {
		asks := asksOf(text, strconv.Itoa(i))
		asks[0].Receipt = uint64(i + 1)
		d := take(t, s, asks)
		asks[0].Receipt = 0
		for range 10 {
			take(t, s, asks)
		}
		asks[0].After = true
		take(t, s, asks)
		if i%2 == 0 {
			refunded[s.key(asks[0].State)] = true
			if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: d.Receipt, Used: 0}}); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		asks[0].After, asks[0].Once, asks[0].Receipt = false, true, uint64(i+100)
		take(t, s, asks)
	}
	for key, ms := range ttls(t, client, "ttl:") {
		most := int64(300_000) // as long as receipts of a refunded bucket may reach, on their grid
		switch {
		case strings.Contains(key, "{r:6}"):
			most = 24 * 3_600_000
		case strings.Contains(key, ":settled:"):
			most = 15 * 60_000
		case strings.Contains(key, ":once:"):
			most = 60_000
		case !refunded[key]:
			most = 10_000
		}
		if ms == -1 || ms > most+1000 { // -1 is for ever; 0 is less than 1 ms, -2 is over already
			t.Errorf("%s lives %d ms, at most %d", key, ms, most)
		}
	}
}

// TestScriptsForgotten: a server that has lost its scripts gets them again, and
// nothing is charged twice.
func TestScriptsForgotten(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	s := New(client, Options{Prefix: "flush:"})
	paced, general := asksOf("1000/day", "a"), asksOf("1000/day fixed-window", "b")
	for range 5 {
		take(t, s, paced)
		take(t, s, general)
		run(t, client, "SCRIPT", "FLUSH")
	}
	if d := take(t, s, paced); d.Remaining != 994 {
		t.Errorf("%d remain of 1000 after 6", d.Remaining)
	}
	if d := take(t, s, general); d.Remaining != 994 {
		t.Errorf("%d remain of 1000 after 6", d.Remaining)
	}
}

// TestProcesses: several processes at once pass exactly the limit.
func TestProcesses(t *testing.T) {
	if addr := os.Getenv("WEIR_CHILD_REDIS"); addr != "" {
		s := New(connect(t, addr), Options{Prefix: os.Getenv("WEIR_CHILD_PREFIX")})
		var wg sync.WaitGroup
		var mu sync.Mutex
		passed := map[string]int{}
		for range 64 {
			wg.Go(func() {
				for range 20 {
					for _, text := range []string{"500/day", "500/day sliding-window 4"} {
						if take(t, s, asksOf(text, text)).Charged {
							mu.Lock()
							passed[text]++
							mu.Unlock()
						}
					}
				}
			})
		}
		wg.Wait()
		fmt.Printf("passed %d %d\n", passed["500/day"], passed["500/day sliding-window 4"])
		return
	}
	addr := redistest.Start(t).Addr
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total [2]int
	for range 3 {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcesses$")
			child.Env = append(os.Environ(), "WEIR_CHILD_REDIS="+addr, "WEIR_CHILD_PREFIX=processes:")
			out, err := child.CombinedOutput()
			var a, b int
			if _, scan := fmt.Sscanf(string(out), "passed %d %d", &a, &b); err != nil || scan != nil {
				t.Errorf("%v: %s", err, out)
			}
			mu.Lock()
			total[0], total[1] = total[0]+a, total[1]+b
			mu.Unlock()
		})
	}
	wg.Wait()
	if total != [2]int{500, 500} {
		t.Errorf("%v passed, want 500 of each", total)
	}
}

// TestBadServers: each fault of a server or its address is told with its cause
// and what to do.
func TestBadServers(t *testing.T) {
	guarded := redistest.Start(t, "requirepass", "secret-word")
	full := redistest.Start(t, "maxmemory", "1", "maxmemory-policy", "noeviction")
	plain := redistest.Start(t, "timeout", "0") // options keep it apart from a server that others name
	replica := redistest.Start(t, "replicaof", "127.0.0.1 1", "replica-read-only", "yes", "replica-serve-stale-data", "yes")
	for _, c := range []struct{ address, want string }{
		{"redis://" + guarded.Addr, "write the password into the URL"},
		{"redis://:wrong@" + guarded.Addr, "user or password"},
		{"redis://" + full.Addr, "maxmemory"},
		{"redis://" + replica.Addr, "this is a replica"},
		{"redis://" + plain.Addr + "/99999", "DB index is out of range"},
		{"rediss://" + plain.Addr, "does the server speak TLS"},
		{"redis://127.0.0.1:1", "connection refused"},
		{"redis+unix:///nowhere/redis.sock", "no such file"},
	} {
		s, err := Dial(c.address)
		if err != nil {
			t.Errorf("%s: %v", c.address, err)
			continue
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			err = s.Take(t.Context(), asksOf("5/s", "k"), make([]weir.Decision, 1))
			if !errors.Is(err, errConnecting) {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %v, want %q", c.address, err, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	client := connect(t, plain.Addr)
	s := New(client, Options{Prefix: "bad:"})
	for _, ann := range []string{"ann", "ann" + strings.Repeat("x", 300)} {
		asks := asksOf("5/s", ann)
		for _, spoil := range [][]string{{"RPUSH", s.key(asks[0].State), "a list"}, {"SET", s.key(asks[0].State), "hello"}} {
			run(t, client, "DEL", s.key(asks[0].State))
			run(t, client, spoil...)
			for _, limit := range []string{"5/s", "5/s fixed-window"} {
				err := s.Take(t.Context(), asksOf(limit, ann), make([]weir.Decision, 1))
				if err == nil || !strings.Contains(err.Error(), "another program") || strings.Contains(err.Error(), "ann") {
					t.Errorf("%s, %s: %v", spoil[0], limit, err)
				}
			}
		}
	}
	if d := take(t, s, asksOf("5/s", strings.Repeat("x", 1<<20))); !d.Charged {
		t.Errorf("a key of 1 MiB: %+v", d)
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"redis://localhost", "is no host:port"},
		{"redis://localhost:65536", "is no host:port"},
		{"redis://localhost:0", "is no host:port"},
		{"redis+cluster://a:1,b:redis", "is no host:port"},
		{"redis://a b:1", "a host is an IP address"},
		{"redis://:1", "names no host"},
		{"redis+unix://rel/path", `"rel/path" is not the whole path`},
		{"redis+unix://path", `"path" is not the whole path`},
		{"redis+sentinel://h:1/m?tls=2", "tls=2 means nothing; write tls=1"},
		{"redis://h:1?prefix=a&prefix=b", "prefix is given 2 times"},
		{"redis://h:1?prefix=", "prefix has no value"},
		{"redis://h:1/0#1", "can't be read"},
		{"redis+cluster://h:1/3", "no databases"},
		{"redis://h:1/x", "no number of a database"},
		{"redis+sentinel://h:1", "name the master"},
		{"mysql://h:1", "is no scheme of Redis"},
		{"redis://h:1?ca=x", "are for TLS"},
		{"rediss://h:1?ca=/nowhere", "no such file"},
		{"redis://h:1?server-name=any", "are for TLS"},
		{"redis://h:1?sentinel-auth=none", "sentinel-auth is for sentinels"},
		{"redis://h:1?color=red", "unknown option"},
		{"redis://h:1?prefix={x}", "braces"},
		{"redis://user:se%cret@h:1", "can't be read"},
		{"redis://user:se/cret@h:1", "write / as %2F"},
		{"redis://user:se?cret@h:1", "write / as %2F"},
		{"redis:user:secret@h:1", "this is no URL"},
	} {
		s, err := Dial(c.address)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v, want %q", c.address, err, c.want)
		}
		if s != nil {
			_ = s.Close() // it was not meant
		}
	}
	o, options, err := parse("redis+cluster://u:p@a:1,b:2?prefix=x:")
	if err != nil || !options.Cluster || options.Prefix != "x:" || o.Username != "u" || o.Password != "p" || strings.Join(o.InitAddress, " ") != "a:1 b:2" {
		t.Errorf("%+v, %+v, %v", o, options, err)
	}
	for _, address := range []string{"redis+sentinel://h:1/m?tls=1", "redis+unix:///run/redis.sock?prefix=x", "redis+unix://u:p@/run/redis.sock", "redis://[::1]:6379/2"} {
		if err := CheckURL(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestSentinelAuth: sentinels are shown the password of the URL, unless it says otherwise.
func TestSentinelAuth(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {"u", "p"}, "?sentinel-auth=none": {"", ""}, "?sentinel-auth=q": {"", "q"}, "?sentinel-auth=v%3Aq%3Ar&tls=1": {"v", "q:r"},
	} {
		o, _, err := parse("redis+sentinel://u:p@h:1/m" + text)
		if got := [2]string{o.Sentinel.Username, o.Sentinel.Password}; err != nil || got != want || o.Password != "p" {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestServerName: a certificate may be for another name where the URL says so, and is of the CA all the same.
func TestServerName(t *testing.T) {
	ca, other := certtest.NewCA(t), certtest.NewCA(t)
	good, bad := ca.Issue(t, "redis.test").TLS(t), other.Issue(t, "redis.test").TLS(t)
	file := certtest.File(t, "ca.pem", ca.PEM)
	for _, c := range []struct {
		option string
		shown  tls.Certificate
		well   bool
	}{
		{"", good, false},
		{"&server-name=redis.test", good, true},
		{"&server-name=any", good, true},
		{"&server-name=any", bad, false},
		{"&server-name=redis.test", bad, false},
		{"&server-name=x.test", good, false},
	} {
		option, _, err := parse("rediss://other.test:1?ca=" + file + c.option)
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{c.shown}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if there, err := l.Accept(); err == nil {
				_, _ = there.Read(make([]byte, 1)) // shakes hands, and waits until the client goes
				_ = there.Close()
			}
		}()
		here, err := (&tls.Dialer{Config: option.TLSConfig}).DialContext(t.Context(), "tcp", l.Addr().String())
		if (err == nil) != c.well {
			t.Errorf("%q: %v", c.option, err)
		}
		if err == nil {
			_ = here.Close()
		}
		_ = l.Close()
	}
}

// TestFrozen: callers of a server that is stopped come back when their time is
// over, are told that they may have been charged, and all is well when it goes on.
func TestFrozen(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	s, err := Dial("redis://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for s.Take(t.Context(), asksOf("1000/day", "k"), make([]weir.Decision, 1)) != nil {
		time.Sleep(5 * time.Millisecond)
	}
	server.Signal(t, syscall.SIGSTOP)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := s.Take(ctx, asksOf("1000/day", "k"), make([]weir.Decision, 1))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a frozen server: %v", err)
			}
		})
	}
	for range 5 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			began := time.Now()
			err := s.Take(ctx, asksOf("1000/day", "k"), make([]weir.Decision, 1))
			if !errors.Is(err, context.Canceled) || time.Since(began) > patience/2 {
				t.Errorf("a caller that left was told so after %v: %v", time.Since(began), err)
			}
		})
	}
	wg.Wait()
	server.Signal(t, syscall.SIGCONT)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out := make([]weir.Decision, 1)
		err := s.Take(t.Context(), asksOf("1000/day", "k"), out)
		if err == nil {
			if out[0].Remaining < 1000-57 || out[0].Remaining > 998 {
				t.Errorf("%d remain of 1000 after 2 takes and 55 that may have been charged", out[0].Remaining)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not back: %v", err)
		}
	}
}

// TestRestart: a server that was killed and is back, empty, is used again.
func TestRestart(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	s, err := Dial("redis://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := make([]weir.Decision, 1)
	until := func(want bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); (s.Take(t.Context(), asksOf("10/day", "k"), out) == nil) != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("for 5 s, that a take works was not %v", want)
			}
		}
	}
	until(true)
	server.Kill()
	until(false)
	server.Restart(t)
	until(true)
	if out[0].Remaining != 9 {
		t.Errorf("%d remain in a server that has lost all", out[0].Remaining)
	}
}
