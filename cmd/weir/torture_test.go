package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// torture also runs what takes long and fills the machine: make torture.
var torture = flag.Bool("torture", false, "run the slow proofs, too")

// holders is how many processes hold idle connections, each from an address of
// its own, as neither files nor ports of one suffice.
const holders = 6

// TestTortureIdle fills all listeners of a daemon with a hundred thousand idle
// connections, and asks from new ones meanwhile.
func TestTortureIdle(t *testing.T) {
	if !*torture {
		t.Skip("slow: make torture")
	}
	p := serve(t, build(t), "--resp", "127.0.0.1:0")
	defer end(t, p)
	t.Logf("before: %s", resident(t, p))
	var held []*exec.Cmd
	for i := range holders {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHold$", "-test.v")
		c.Env = append(os.Environ(), fmt.Sprintf("WEIR_HOLD=127.0.0.%d %d %s %s %s", 2+i, 18_000, p.http, p.grpc, p.resp))
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		ready := make([]byte, 1)
		for ready[0] != '!' {
			if _, err := out.Read(ready); err != nil {
				t.Fatal("the holder of connections ended:", err)
			}
		}
		worst := time.Duration(0)
		for range 200 {
			worst = max(worst, fresh(t, p))
		}
		t.Logf("%6d connections made: %s; the slowest of 200 newcomers had its answer after %v", (i+1)*18_000, resident(t, p), worst.Round(time.Millisecond))
	}
	for line := range strings.Lines(body(t, "http://"+p.admin+"/metrics")) {
		if strings.HasPrefix(line, "weir_connections") {
			t.Log(strings.TrimSpace(line))
		}
	}
	for _, c := range held {
		_ = errors.Join(c.Process.Kill(), c.Wait()) // it has nothing to say any more
	}
}

// TestHold is no test: it is the process that holds connections.
func TestHold(t *testing.T) {
	var from string
	var n int
	var doors [3]string
	if _, err := fmt.Sscanf(os.Getenv("WEIR_HOLD"), "%s %d %s %s %s", &from, &n, &doors[0], &doors[1], &doors[2]); err != nil {
		t.Skip("only TestTortureIdle runs it")
	}
	says := [3]string{"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "PING\r\n"}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	all := make([]net.Conn, 0, n)
	for i := range n {
		c, err := d.DialContext(t.Context(), "tcp", doors[i%3])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, says[i%3]) // the listener may have dropped it
		all = append(all, c)
	}
	fmt.Print("!")
	time.Sleep(10 * time.Minute) // until it is killed
	t.Log(len(all))
}

// fresh asks by a connection of its own, and says how long that took.
func fresh(t *testing.T, p *process) time.Duration {
	t.Helper()
	start := time.Now()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http+"/auth?domain=demo&e=client_id=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Error("a newcomer was not answered:", err)
		return time.Since(start)
	}
	_ = response.Body.Close()
	return time.Since(start)
}

func resident(t *testing.T, p *process) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		return "memory unknown: " + err.Error()
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return "resident " + strings.TrimSpace(rest)
		}
	}
	return "memory unknown"
}

func end(t *testing.T, p *process) {
	t.Helper()
	if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
}

// TestTortureConnection tells what an idle connection costs at each listener.
func TestTortureConnection(t *testing.T) {
	if !*torture {
		t.Skip("slow: make torture")
	}
	p := serve(t, build(t), "--resp", "127.0.0.1:0")
	defer end(t, p)
	const n = 5000
	for _, door := range []struct{ name, address, says string }{
		{"http", p.http, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"grpc", p.grpc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{"resp", p.resp, "PING\r\n"},
	} {
		before := live(t, p)
		var all []net.Conn
		var d net.Dialer
		for range n {
			c, err := d.DialContext(t.Context(), "tcp", door.address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, door.says); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		t.Logf("an idle connection at the %s listener: %d bytes", door.name, (live(t, p)-before)/n)
		for _, c := range all {
			_ = c.Close() // nothing is left to say
		}
		for gone := fmt.Sprintf("weir_connections{listener=%q} 0\n", door.name); !strings.Contains(body(t, "http://"+p.admin+"/metrics"), gone); {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// live is how much memory is in use by a daemon when it has just cleaned up.
func live(t *testing.T, p *process) int64 {
	t.Helper()
	body(t, "http://"+p.admin+"/debug/pprof/heap?gc=1")
	var sum float64
	for line := range strings.Lines(body(t, "http://"+p.admin+"/metrics")) {
		for _, name := range []string{"go_memstats_heap_alloc_bytes ", "go_memstats_stack_inuse_bytes "} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return int64(sum)
}

// TestTortureSlow: clients that begin and do not go on are cut off in time, and
// no slot is lost to them.
func TestTortureSlow(t *testing.T) {
	if !*torture {
		t.Skip("slow: make torture")
	}
	p := serve(t, build(t), "--resp", "127.0.0.1:0")
	defer end(t, p)
	var g sync.WaitGroup
	const body = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{"
	for _, half := range []struct {
		address, text, says string
		most                time.Duration
	}{
		{p.http, "POST /v1/check HTTP/1.1\r\nHost: a\r\nX", "", 6 * time.Second},
		{p.http, body, "came too slowly", 16 * time.Second},
		{p.grpc, "PRI * HTTP/2.0\r\n", "", 11 * time.Second},
		{p.resp, "*3\r\n$11\r\nCL.THR", "did not end within 15s", 17 * time.Second},
	} {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", half.address)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := io.WriteString(c, half.text); err != nil {
			t.Fatal(err)
		}
		g.Go(func() {
			defer c.Close()
			answer, _ := io.ReadAll(c) // until it is cut off, which may be an error
			took := time.Since(start)
			t.Logf("%q: cut off after %v", half.text, took.Round(time.Millisecond))
			if !strings.Contains(string(answer), half.says) || took > half.most+5*time.Second {
				t.Errorf("%q: %v, %q", half.text, took, answer)
			}
		})
	}
	g.Wait()
}

// TestTortureReloads tells what reloads of very many rules leave in memory.
func TestTortureReloads(t *testing.T) {
	if !*torture {
		t.Skip("slow: make torture")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(n int) {
		var text strings.Builder
		text.WriteString("domain: demo\ndescriptors:\n")
		for i := range 100_000 {
			fmt.Fprintf(&text, "- {key: user, value: u%d, limits: [%d/min]}\n", i, i+n+1)
		}
		next := file + ".new"
		if err := errors.Join(os.WriteFile(next, []byte(text.String()), 0o600), os.Rename(next, file)); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	p := serve(t, build(t), "--rules", file)
	defer end(t, p)
	t.Logf("100,000 rules: %s", resident(t, p))
	before := live(t, p)
	for n := range 3 {
		for write(n + 1); !strings.Contains(limitOf(t, p), fmt.Sprintf(`"%d/min"`, n+2)); {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second) // what is left behind is given back
		t.Logf("reload %d: %s", n+1, resident(t, p))
	}
	if after := live(t, p); after > before+before/4 {
		t.Errorf("%d MB are in use after three reloads, and were %d before", after>>20, before>>20)
	}
}

// limitOf is what the daemon says of the first of many rules.
func limitOf(t *testing.T, p *process) string {
	t.Helper()
	const request = `{"domain":"demo","descriptors":[{"entries":[{"key":"user","value":"u0"}]}],"peek":true}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.http+"/v1/check", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}
