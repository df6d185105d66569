package telemetry

import (
	"bufio"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

// server takes what is told by TCP, each line once.
type server struct {
	net.Listener
	lines chan string
}

func listenAt(t *testing.T, address string) *server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan string, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					s.lines <- in.Text()
				}
			}()
		}
	}()
	return s
}

// sums adds up the next n lines by name.
func (s *server) sums(t *testing.T, n int) map[string]int {
	t.Helper()
	all := map[string]int{}
	for range n {
		select {
		case line := <-s.lines:
			name, rest, _ := strings.Cut(line, ":")
			number, kind, _ := strings.Cut(rest, "|")
			grown, err := strconv.Atoi(number)
			if err != nil || kind != "c" {
				t.Errorf("%q is no counter", line)
			}
			all[name] += grown
		case <-time.After(10 * time.Second):
			t.Fatalf("%d lines are missing; there are %v", n, all)
		}
	}
	return all
}

// TestStatsd: a server is told what statistics have grown by, once, with what was counted while it was away.
func TestStatsd(t *testing.T) {
	m, _, told := toldOf(t, "domain: d\ndescriptors: [{key: k, limits: [100/day]}, {key: l, limits: [100/day]}]\n", "zone", "z.1")
	ask := func(key string, times int) {
		for range times {
			asks(t, m, "d", 2, nil, rules.Entry{Key: key, Value: "v"})
		}
	}
	first := listenAt(t, "127.0.0.1:0")
	s, err := ParseStatsd("tcp://" + first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Open(told, slog.New(slog.DiscardHandler))
	const k, l = "ratelimit.service.rate_limit.d.k", "ratelimit.service.rate_limit.d.l"
	tell := func() error { return s.Tell(t.Context()) }
	ask("k", 3)
	if err := tell(); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{k + ".total_hits.__zone=z_1": 6, k + ".within_limit.__zone=z_1": 6}
	if d := cmp.Diff(want, first.sums(t, 2)); d != "" {
		t.Error(d)
	}
	if err := tell(); err != nil { // nothing has grown, so nothing is said
		t.Fatal(err)
	}
	ask("k", 1)
	ask("l", 1)
	if err := tell(); err != nil {
		t.Fatal(err)
	}
	want = map[string]int{
		k + ".total_hits.__zone=z_1": 2, k + ".within_limit.__zone=z_1": 2, l + ".total_hits.__zone=z_1": 2, l + ".within_limit.__zone=z_1": 2,
	}
	if d := cmp.Diff(want, first.sums(t, 4)); d != "" {
		t.Error(d)
	}

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	_ = s.conn.Close() // as when the server is gone
	s.mu.Unlock()
	ask("l", 5)
	for range 2 {
		if err := tell(); err == nil {
			t.Error("a server that is gone took something")
		}
	}
	second := listenAt(t, first.Addr().String())
	defer second.Close()
	ask("l", 1)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = map[string]int{l + ".total_hits.__zone=z_1": 12, l + ".within_limit.__zone=z_1": 12}
	if d := cmp.Diff(want, second.sums(t, 2)); d != "" {
		t.Error(d)
	}
	if n := s.failed.Load(); n != 2 {
		t.Errorf("%d failures", n)
	}
}

// TestStatsdBeginsAgain: a rule that comes again begins at 0, and is told from there.
func TestStatsdBeginsAgain(t *testing.T) {
	m, _, told := toldOf(t, "domain: d\ndescriptors: [{key: k, limits: [100/day]}]\n")
	to := listenAt(t, "127.0.0.1:0")
	defer to.Close()
	s, err := ParseStatsd("tcp://" + to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Open(told, slog.New(slog.DiscardHandler))
	for _, n := range []int{5, 3} {
		for range n {
			asks(t, m, "d", 1, nil, rules.Entry{Key: "k", Value: "v"})
		}
		if err := s.Tell(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := to.sums(t, 2)["ratelimit.service.rate_limit.d.k.total_hits"]; got != n {
			t.Errorf("%d hits, want %d", got, n)
		}
		m.Replace(parsed(t, "domain: other\ndescriptors: []\n"))
		m.Replace(parsed(t, "domain: d\ndescriptors: [{key: k, limits: [100/day]}]\n"))
	}
}

// TestStatsdPackets: by UDP a packet has whole lines, and no more than a network carries in one piece.
func TestStatsdPackets(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: d\ndescriptors:\n")
	for i := range 60 {
		text.WriteString("  - {key: some-quite-long-key-" + strconv.Itoa(i) + ", limits: [100/day]}\n")
	}
	m, _, told := toldOf(t, text.String(), "build", "4|2", "zone", "a")
	for i := range 60 {
		asks(t, m, "d", 1, nil, rules.Entry{Key: "some-quite-long-key-" + strconv.Itoa(i), Value: "v"})
	}
	to, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	s, err := ParseStatsd("udp://" + to.LocalAddr().String() + "?tags=dogstatsd&every=1s")
	if err != nil {
		t.Fatal(err)
	}
	s.Open(told, slog.New(slog.DiscardHandler))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for len(names) < 120 {
		packet := make([]byte, 2*statsdPacket)
		if err := to.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, _, err := to.ReadFrom(packet)
		if err != nil {
			t.Fatalf("%v after %d lines", err, len(names))
		}
		if n > statsdPacket {
			t.Errorf("a packet of %d bytes", n)
		}
		for line := range strings.Lines(string(packet[:n])) {
			name, rest, _ := strings.Cut(line, ":")
			if names[name]++; rest != "1|c|#build:4_2,zone:a\n" {
				t.Errorf("%q", line)
			}
		}
	}
	for name, times := range maps.All(names) {
		if times != 1 {
			t.Errorf("%s was told %d times", name, times)
		}
	}
}

func TestParseStatsd(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "is no statsd server",
		"localhost:8125":                "is no statsd server",
		"http://localhost:8125":         "is no statsd server",
		"tcp://u:p@localhost:8125":      "is no statsd server",
		"tcp://localhost":               "is no host:port",
		"tcp://localhost:0":             "is no port number",
		"tcp://localhost:8125/x":        "is no statsd server",
		"udp://localhost:8125?x=1":      "unknown option",
		"udp://localhost:8125?tags=y":   "tags=y means nothing",
		"udp://localhost:8125?every=0s": "every=0s is no time from 100ms on",
		"udp://localhost:8125?every=10": "every=10 is no time",
	} {
		if _, err := ParseStatsd(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), statsdForm) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if s, err := ParseStatsd("udp://[::1]:8125?every=2s"); err != nil || s.network != "udp" || s.address != "[::1]:8125" || s.every != 2*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
}
