package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// waitsRules are those that the clients of docs/clients.md ask here.
const waitsRules = `domain: jobs
descriptors:
  - key: user
    limits: [5/s burst 5]
  - key: line
    limits: [5/s leaky-queue]
  - key: report
    limits: [5/h]
`

// The same program in both languages. It writes nothing when all is well.
const (
	pythonProgram = `
import os, waits
weir, server = os.environ["WEIR"], os.environ["SERVER"]
for _ in range(12):
    assert waits.take(weir, "jobs", [("user", "ann")], timeout=30)
for _ in range(3):
    assert waits.take(weir, "jobs", [("line", "ann")], timeout=30)
try:
    waits.take(weir, "jobs", [("user", "ann")], cost=6)
    print("more than can ever pass was allowed")
except waits.Denied as denied:
    assert denied.retry_after is None, denied
waits.take(weir, "jobs", [("report", "ann")], cost=5, timeout=30)
try:
    waits.take(weir, "jobs", [("report", "ann")], timeout=30)
    print("it waits for longer than it may")
except waits.Denied as denied:
    assert denied.retry_after > 30, denied
assert waits.take(os.environ["NOBODY"], "jobs", [("user", "ann")]) is False
if not waits.take(weir, "jobs", [("user", "cy")], patience=30):
    print("weir is away")  # go on without it, or not
with waits.get(server + "/seconds") as response:
    body = response.read()
assert body == b"well"
with waits.get(server + "/date") as response:
    assert response.read() == b"well"
try:
    waits.get(server + "/hour")
    print("it waited for an hour")
except waits.urllib.error.HTTPError as error:
    assert error.code == 429, error
try:
    waits.get(waits.urllib.request.Request(server + "/busy", b"body"))
    print("a POST was sent again after 503")
except waits.urllib.error.HTTPError as error:
    assert error.code == 503, error
`
	nodeProgram = `
import assert from 'node:assert';
const waits = await import(process.env.WAITS);
const { WEIR: weir, SERVER: server } = process.env;
for (let i = 0; i < 12; i++) assert(await waits.take(weir, 'jobs', { user: 'ann' }, { timeout: 30 }));
for (let i = 0; i < 3; i++) assert(await waits.take(weir, 'jobs', { line: 'ann' }, { timeout: 30 }));
await assert.rejects(waits.take(weir, 'jobs', { user: 'ann' }, { cost: 6 }), (e) => e instanceof waits.Denied && e.retryAfter === undefined);
await waits.take(weir, 'jobs', { report: 'ann' }, { cost: 5, timeout: 30 });
await assert.rejects(waits.take(weir, 'jobs', { report: 'ann' }, { timeout: 30 }), (e) => e.retryAfter > 30);
assert.strictEqual(await waits.take(process.env.NOBODY, 'jobs', { user: 'ann' }), false);
if (!(await waits.take(weir, 'jobs', { user: 'cy' }, { patience: 30 }))) {
  console.log('weir is away'); // go on without it, or not
}
const response = await waits.get(server + '/seconds');
assert.strictEqual(await response.text(), 'well');
assert.strictEqual(await (await waits.get(server + '/date')).text(), 'well');
assert.strictEqual((await waits.get(server + '/hour')).status, 429);
assert.strictEqual((await waits.get(server + '/busy', { method: 'POST', body: 'body' })).status, 503);
`
)

// TestPythonWaits and TestNodeWaits run the recipes of docs/clients.md, as they
// stand, against weir and a server that denies.
func TestPythonWaits(t *testing.T) {
	t.Parallel()
	python := program(t, "python3")
	for _, at := range []string{"", "--http=unix://" + socket(t)} {
		waits(t, at, exec.CommandContext(t.Context(), python, "-c", pythonProgram), "PYTHONPATH="+absolute(t, recipes), "PYTHONDONTWRITEBYTECODE=1")
	}
}

func TestNodeWaits(t *testing.T) {
	t.Parallel()
	node := program(t, "node")
	for _, at := range []string{"", "--http=unix://" + socket(t)} {
		waits(t, at, exec.CommandContext(t.Context(), node, "--input-type=module", "-e", nodeProgram),
			"WAITS=file://"+absolute(t, filepath.Join(recipes, "waits.mjs")))
	}
}

// waits runs a client of weir, which is at a socket if at is the flag for it.
func waits(t *testing.T, at string, cmd *exec.Cmd, env ...string) {
	t.Helper()
	flags := []string{"--rules", write(t, filepath.Join(t.TempDir(), "rules.yaml"), waitsRules)}
	if at != "" {
		flags = append(flags, at)
	}
	d := serve(t, flags...)
	s := newDenier(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	cmd.Env = append(append(os.Environ(), env...), "WEIR="+d.url(), "SERVER="+s.URL, "NOBODY=http://"+porttest.Free(t))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	if s.tries["/seconds"].Load() != 2 || s.tries["/date"].Load() != 2 || s.tries["/hour"].Load() != 1 || s.tries["/busy"].Load() != 1 {
		t.Errorf("%d, %d, %d, %d tries", s.tries["/seconds"].Load(), s.tries["/date"].Load(), s.tries["/hour"].Load(), s.tries["/busy"].Load())
	}
	// Twelve of ann and one of cy pass; none of the seven beyond the burst comes back
	// too early.
	allowed := d.metric(t, `weir_decisions_total{domain="jobs",outcome="allowed",rule="jobs/user",shadow="false"}`)
	denied := d.metric(t, `weir_decisions_total{domain="jobs",outcome="denied",rule="jobs/user",shadow="false"}`)
	if allowed != 12+1 || denied > 7 {
		t.Errorf("%v were allowed, %v denied", allowed, denied)
	}
}

// TestClientsPage: what docs/clients.md shows in these languages is run here.
func TestClientsPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(?:python|js)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		if !strings.Contains(pythonProgram+nodeProgram, block[1]) {
			t.Errorf("no program that is tried has\n%s", block[1])
		}
	}
	if len(blocks) != 2 {
		t.Errorf("%d blocks", len(blocks))
	}
}

// denier is a server that denies, each path in its way.
type denier struct {
	*httptest.Server

	tries map[string]*atomic.Int64
}

func newDenier(t *testing.T) *denier {
	d := &denier{tries: map[string]*atomic.Int64{"/seconds": {}, "/date": {}, "/hour": {}, "/busy": {}}}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := d.tries[r.URL.Path].Add(1)
		status := http.StatusTooManyRequests
		switch r.URL.Path {
		case "/seconds":
			w.Header().Set("Retry-After", "1")
		case "/date": // by a clock that is a day late
			now := time.Now().Add(-24 * time.Hour).UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Retry-After", now.Add(time.Second).Format(http.TimeFormat))
		case "/hour":
			w.Header().Set("Retry-After", "3600")
		case "/busy":
			status = http.StatusServiceUnavailable
		}
		if n == 1 {
			w.WriteHeader(status)
			return
		}
		_, _ = w.Write([]byte("well"))
	}))
	t.Cleanup(d.Close)
	return d
}
