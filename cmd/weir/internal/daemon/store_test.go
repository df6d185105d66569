package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/rules"
)

const fallbackRules = `domain: d
descriptors:
  - {key: local, limits: [4/day], nodes: 2}
  - {key: open, limits: [4/day], fallback: open}
  - {key: closed, limits: [4/day], fallback: closed}
`

const password = "secret-word"

// asked is the answer to one event of a key at the HTTP listener.
func asked(t *testing.T, r *running, path, key string) (status int, head http.Header, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.http+path, strings.NewReader(
		`{"domain":"d","descriptors":[{"entries":[{"key":"`+key+`","value":"ann"}]}]}`))
	if strings.HasPrefix(path, "/auth") {
		q, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.http+path+"&domain=d&e="+key+"=ann", http.NoBody)
	}
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}

// decided is the answer of the store. It asks again when that was not in time, on a
// machine with other work, and says how often: each of those may have been charged.
func decided(t *testing.T, r *running, key string) (status int, body string, late int) {
	t.Helper()
	for ; late < 100; late++ {
		if status, _, body = asked(t, r, "/v1/check", key); strings.Contains(body, `"degraded":""`) {
			return status, body, late
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the store never decides: ", body)
	return 0, "", 0
}

// shareOfFour asks two daemons by turns until both deny: four pass, together.
func shareOfFour(t *testing.T, one, other *running) {
	t.Helper()
	passed, lost := 0, 0
	for range 4 {
		for _, r := range []*running{one, other} {
			status, _, late := decided(t, r, "closed")
			lost += late
			if status == 200 {
				passed++
			}
		}
	}
	if passed > 4 || passed+lost < 4 {
		t.Errorf("%d passed of 4, and %d answers were late", passed, lost)
	}
}

// redisCommand is what the Redis listener answers to a command, so many lines.
func redisCommand(t *testing.T, r *running, command string, lines int) string {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", r.resp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	var answer strings.Builder
	in := bufio.NewReader(c)
	for range lines {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(answer.String(), err)
		}
		answer.WriteString(strings.TrimSpace(line) + " ")
	}
	return strings.TrimSpace(answer.String())
}

// TestSharedCounts: two daemons of one Redis have one count behind all listeners.
func TestSharedCounts(t *testing.T) {
	server := redistest.Start(t, "requirepass", password)
	c := Config{Store: "redis://:" + password + "@" + server.Addr + "/3", RESP: "127.0.0.1:0", Rules: rulesFile(t, fallbackRules)}
	l, log := newLog()
	c.Log = log
	one := start(t, c)
	other := start(t, c)
	if !strings.Contains(one.line, " store=redis ") {
		t.Error(one.line)
	}
	shareOfFour(t, one, other)
	for _, r := range []*running{one, other} {
		status := 503
		for range 100 { // 503: it was not in time
			if status, _, _ = asked(t, r, "/json", "closed"); status != 503 {
				break
			}
		}
		if status != 429 {
			t.Error(status)
		}
		q := &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "closed", Value: "ann"}},
		}}}
		if a, err := rls.NewRateLimitServiceClient(client(t, r.grpc)).ShouldRateLimit(t.Context(), q); err != nil || a.OverallCode != rls.RateLimitResponse_OVER_LIMIT {
			t.Error(a, err)
		}
	}
	if got := redisCommand(t, one, "CL.THROTTLE k 0 1 3600", 6); got != "*5 :0 :1 :0 :-1 :3600" {
		t.Error(got)
	}
	got := redisCommand(t, other, "CL.THROTTLE k 0 1 3600", 6)
	late := metric(t, one, `weir_store_fallback_decisions_total{fallback="local"} `) + metric(t, other, `weir_store_fallback_decisions_total{fallback="local"} `)
	if late == "00" && !strings.HasPrefix(got, "*5 :1 :1 :0 :3") {
		t.Error(got)
	}
	for name, want := range map[string]string{
		"weir_redis_decision_mismatches_total ": "0",
		"weir_redis_abandoned_takes_total ":     "0",
		"weir_memory_rules ":                    "",
	} {
		if got := metric(t, one, name); got != want {
			t.Errorf("%s%s, want %s", name, got, want)
		}
	}
	away, _ := strconv.ParseFloat(metric(t, one, "weir_store_latency_seconds "), 64) // what is no number is 0
	if deadline, _ := strconv.ParseFloat(metric(t, one, "weir_store_deadline_seconds "), 64); away <= 0 || deadline < away {
		t.Errorf("a store %v s away is given %v s", away, deadline)
	}
	if got := metric(t, one, "weir_redis_takes_total "); got == "0" || got == "" {
		t.Error("takes:", got)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if said := l.text.String() + one.line + one.try; strings.Contains(said, password) {
		t.Error(said)
	}
}

// TestStoreAway: a daemon whose store is away begins, decides by fallbacks at all
// listeners, says so once, and is back with its store.
func TestStoreAway(t *testing.T) {
	server := redistest.Start(t, "requirepass", password)
	server.Kill()
	l, log := newLog()
	r := start(t, Config{Store: "redis://:" + password + "@" + server.Addr, RESP: "127.0.0.1:0", Rules: rulesFile(t, fallbackRules), Log: log})
	said := l.until(t, `msg="the store is away`, "connection refused", "msg=ready")
	if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\nthe store is away: the fallbacks of the rules decide\n" {
		t.Error(body)
	}
	for _, c := range []struct {
		path, key    string
		status       int
		degraded     string
		retry, field string
	}{
		{"/v1/check", "local", 200, "local", "", `"d/local";r=1`},
		{"/v1/check", "local", 200, "local", "", `"d/local";r=0;t=`},
		{"/v1/check", "local", 429, "local", "", `"d/local";r=0;t=`}, // a half of 4 a day
		{"/v1/check", "open", 200, "open", "", `"d/open";r=4`},
		{"/v1/check", "closed", 503, "closed", "1", `"d/closed";r=0`},
		{"/json", "closed", 503, "", "", ""},
		{"/json", "local", 429, "", "", ""},
		{"/auth?", "open", 200, "", "", ""},
		{"/auth?", "closed", 503, "", "1", ""},
		{"/auth?deny=403", "closed", 403, "", "1", ""},
	} {
		status, head, body := asked(t, r, c.path, c.key)
		field := strings.Join(head.Values("RateLimit"), "")
		if status != c.status || c.degraded != "" && !strings.Contains(body, `"degraded":"`+c.degraded+`"`) ||
			c.retry != "" && head.Get("Retry-After") != c.retry || !strings.HasPrefix(field, c.field) {
			t.Errorf("%s %s: %d %s %s", c.path, c.key, status, head, body)
		}
	}
	q := &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "closed", Value: "ann"}},
	}}}
	if a, err := rls.NewRateLimitServiceClient(client(t, r.grpc)).ShouldRateLimit(t.Context(), q); err != nil || a.OverallCode != rls.RateLimitResponse_OVER_LIMIT {
		t.Error(a, err)
	}
	if got := redisCommand(t, r, "WEIR.CHECK d 1 closed ann", 8); got != "*6 :1 :4 :0 :1 :0 $8 d/closed" {
		t.Error(got)
	}
	if got := redisCommand(t, r, "CL.THROTTLE k 0 1 3600", 6); got != "*5 :0 :1 :0 :-1 :3600" {
		t.Error(got)
	}
	_, _, denial := asked(t, r, "/v1/check", "closed")
	id, _, _ := strings.Cut(strings.TrimPrefix(denial, `{"id":"`), `"`)
	if status, body := get(t, "http://"+r.admin+"/v1/explain?id="+id); status != 404 || !strings.Contains(body, "by a fallback") {
		t.Error(status, body)
	}
	for _, path := range []string{"/v1/explain", "/v1/reset"} {
		if status, body := do(t, http.MethodPost, "http://"+r.admin+path, `{"domain":"d","descriptors":[{"entries":[{"key":"local","value":"ann"}]}]}`); status != 503 || !strings.Contains(body, "the store of the counts is away") {
			t.Error(path, status, body)
		}
	}
	for name, want := range map[string]string{
		"weir_ready ": "1", "weir_store_unavailable_servers ": "1",
		`weir_store_fallback_decisions_total{fallback="open"} `: "2",
	} {
		if got := metric(t, r, name); got != want {
			t.Errorf("%s%s, want %s", name, got, want)
		}
	}

	server.Restart(t)
	said += l.until(t, `msg="the store is back"`)
	if n := strings.Count(said, `msg="the store is away`); n != 1 || strings.Contains(said, password) {
		t.Errorf("said %d times:\n%s", n, said)
	}
	if got := metric(t, r, "weir_store_unavailable_servers "); got != "0" {
		t.Error("away:", got)
	}
	if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\n" {
		t.Error(body)
	}
	if status, body, _ := decided(t, r, "closed"); status != 200 {
		t.Error(status, body)
	}
	// The half that passed meanwhile is known to the store now.
	if _, body, late := decided(t, r, "local"); late == 0 && !strings.Contains(body, `"remaining":1,`) || strings.Contains(body, `"remaining":3,`) {
		t.Error(body)
	}
	server.Kill()
	l.until(t, `msg="the store is away`) // nobody has called
}

// TestUncountable: a key that another program has written to is decided by its
// fallback; the log says why, once, and a metric counts.
func TestUncountable(t *testing.T) {
	server := redistest.Start(t)
	l, log := newLog()
	r := start(t, Config{Store: "redis://" + server.Addr, Rules: rulesFile(t, fallbackRules), Log: log})
	if status, body, _ := decided(t, r, "closed"); status != 200 || !strings.Contains(body, `"degraded":""`) {
		t.Fatal(status, body)
	}
	const name = "weir:{d/closed:ann}#gcra"
	if got := server.Ask(t, "DEL", name) + server.Ask(t, "RPUSH", name, "a list"); got != "11" {
		t.Fatal(got)
	}
	for range 3 {
		if status, _, body := asked(t, r, "/v1/check", "closed"); status != 503 || !strings.Contains(body, `"degraded":"closed"`) {
			t.Error(status, body)
		}
	}
	said := l.until(t, "level=ERROR", "can't count a key", "another program writes there")
	if n := strings.Count(said, "can't count a key"); n != 1 || strings.Contains(said, "ann") {
		t.Errorf("said %d times:\n%s", n, said)
	}
	for name, want := range map[string]string{"weir_store_unusable_key_takes_total ": "3", "weir_store_unavailable_servers ": "0"} {
		if got := metric(t, r, name); got != want {
			t.Errorf("%s%s, want %s", name, got, want)
		}
	}
}

// TestUnfitRules: rules that the store can't keep do not come into force.
func TestUnfitRules(t *testing.T) {
	server := redistest.Start(t)
	store := "redis://" + server.Addr + "?prefix=unfit:"
	file := rulesFile(t, limits("d", "10/s warm-up 1min"))
	_, err := New(Config{Store: store, Rules: file})
	bad, ok := errors.AsType[*rules.Error](err)
	if !ok || !strings.Contains(bad.Error(), "rules.yaml:3:24: error: the store can't keep") || !strings.Contains(bad.Error(), "take leaky-queue") {
		t.Fatal(err)
	}
	if _, err := New(Config{Rules: file}); err != nil {
		t.Error("memory keeps all:", err)
	}
	rewrite(t, file, limits("d", "1/day"))
	l, log := newLog()
	r := start(t, Config{Store: store, Rules: file, Log: log})
	rewrite(t, file, limits("d", "10/s warm-up 1min"))
	l.until(t, "level=ERROR", "rules.yaml:3:24: error: the store can't keep")
	if _, words := get(t, "http://"+r.admin+"/v1/findings"); !strings.Contains(words, "take leaky-queue") {
		t.Error(words)
	}
	if got := metric(t, r, `weir_rules_reloads_total{result="refused"} `); got != "1" {
		t.Error("refused:", got)
	}
	if got := [2]int{ask(t, r, "k0", 1), ask(t, r, "k0", 1)}; got != [2]int{200, 429} {
		t.Error("the old rule is not in force:", got)
	}
}

// TestMemcachedServers: of two servers one is away, and is named; the daemon goes on
// with the other.
func TestMemcachedServers(t *testing.T) {
	one, two := memcachedtest.Start(t, "-m", "64"), memcachedtest.Start(t, "-m", "64")
	two.Kill()
	l, log := newLog()
	r := start(t, Config{Store: "memcached://" + one.Addr + "," + two.Addr, Rules: rulesFile(t, fallbackRules), Log: log})
	l.until(t, `msg="the store is away`, "server="+two.Addr)
	if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\n1 of 2 servers of the store are away: the fallbacks of the rules decide their keys\n" {
		t.Error(body)
	}
	if got := metric(t, r, "weir_store_unavailable_servers "); got != "1" {
		t.Error("away:", got)
	}
	two.Restart(t)
	l.until(t, `msg="the store is back"`, "server="+two.Addr)
	one.Kill()
	two.Kill()
	l.until(t, `msg="the store is away`, "server="+one.Addr)
	for end := time.Now().Add(patience); metric(t, r, "weir_store_unavailable_servers ") != "2"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("two servers are away, and weir_store_unavailable_servers is", metric(t, r, "weir_store_unavailable_servers "))
		}
	}
	if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\nthe store is away: the fallbacks of the rules decide\n" {
		t.Error(body)
	}
}

// TestPostgres: two daemons of one PostgreSQL have one count, and go on without it.
func TestPostgres(t *testing.T) {
	server := postgrestest.StartTCP(t)
	l, log := newLog()
	c := Config{Store: server.Database(t), Rules: rulesFile(t, fallbackRules), Log: log}
	one, other := start(t, c), start(t, c)
	if !strings.Contains(one.line, " store=postgres ") {
		t.Error(one.line)
	}
	shareOfFour(t, one, other)
	if got := metric(t, one, "weir_postgres_takes_total "); got == "0" || got == "" {
		t.Error("takes:", got)
	}
	server.Kill()
	l.until(t, `msg="the store is away`, "is PostgreSQL running there?")
	denial := "" // for a second it is that of the store, remembered
	for end := time.Now().Add(patience); !strings.Contains(denial, `"degraded":"closed"`) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, _, denial = asked(t, one, "/v1/check", "closed")
	}
	if status, _, body := asked(t, one, "/v1/check", "open"); status != 200 || !strings.Contains(body, `"degraded":"open"`) {
		t.Error(status, body)
	}
	server.Restart(t)
	l.until(t, `msg="the store is back"`)
	if status, body, _ := decided(t, one, "closed"); status != 429 {
		t.Error("what was used is kept over a restart:", status, body)
	}
	_, err := New(Config{Store: c.Store, Rules: rulesFile(t, limits("d", "10/s strict burst 2"))})
	if bad, ok := errors.AsType[*rules.Error](err); !ok || !strings.Contains(bad.Error(), "take a smaller burst") {
		t.Error(err)
	}
}

// TestMemcached: two daemons of one memcached have one count, and go on without
// it.
func TestMemcached(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "64") // options keep it apart from a server that others name
	l, log := newLog()
	c := Config{Store: "memcached://" + server.Addr, Rules: rulesFile(t, fallbackRules), Log: log}
	one, other := start(t, c), start(t, c)
	if !strings.Contains(one.line, " store=memcached ") {
		t.Error(one.line)
	}
	shareOfFour(t, one, other)
	if got := metric(t, one, "weir_memcached_takes_total "); got == "0" || got == "" {
		t.Error("takes:", got)
	}
	server.Kill()
	l.until(t, `msg="the store is away`, "is memcached running there?")
	denial := "" // for a second it is that of the store, remembered
	for end := time.Now().Add(patience); !strings.Contains(denial, `"degraded":"closed"`) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, _, denial = asked(t, one, "/v1/check", "closed")
	}
	if status, _, body := asked(t, one, "/v1/check", "open"); status != 200 || !strings.Contains(body, `"degraded":"open"`) {
		t.Error(status, body)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(denial, `{"id":"`), `"`)
	if status, body := get(t, "http://"+one.admin+"/v1/explain?id="+id); status != 404 || !strings.Contains(body, "by a fallback") {
		t.Error(status, body)
	}
	server.Restart(t)
	l.until(t, `msg="the store is back"`)
	if status, body, _ := decided(t, one, "closed"); status != 200 {
		t.Error(status, body)
	}
	_, err := New(Config{Store: c.Store, Rules: rulesFile(t, limits("d", "10/s strict burst 2"))})
	if bad, ok := errors.AsType[*rules.Error](err); !ok || !strings.Contains(bad.Error(), "take a smaller burst") {
		t.Error(err)
	}
}

// TestNATS: two daemons of one bucket have one count, and go on without it.
func TestNATS(t *testing.T) {
	server := natstest.Start(t)
	l, log := newLog()
	c := Config{Store: "nats://me:secret-word@" + server.Addr, Rules: rulesFile(t, fallbackRules), Log: log}
	one, other := start(t, c), start(t, c)
	if !strings.Contains(one.line, " store=nats ") || strings.Contains(one.line, "secret") {
		t.Error(one.line)
	}
	shareOfFour(t, one, other)
	if got := metric(t, one, "weir_nats_takes_total "); got == "0" || got == "" {
		t.Error("takes:", got)
	}
	server.Stop()
	l.until(t, `msg="the store is away`)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // for a second a denial is that of the store, remembered
		if _, _, body := asked(t, one, "/v1/check", "closed"); strings.Contains(body, `"degraded":"closed"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no fallback decides")
		}
	}
	server.Restart(t)
	l.until(t, `msg="the store is back"`)
	_, err := New(Config{Store: c.Store, Rules: rulesFile(t, limits("d", "10/s strict burst 2"))})
	if bad, ok := errors.AsType[*rules.Error](err); !ok || !strings.Contains(bad.Error(), "take a smaller burst") {
		t.Error(err)
	}
}

// TestFarStore: a store 30 ms away decides, by gRPC, too, and the daemon says how far
// it is.
func TestFarStore(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	addr, away := proxytest.Delay(t, server.Addr)
	away(30 * time.Millisecond)
	r := start(t, Config{Store: "redis://" + addr, Rules: rulesFile(t, fallbackRules)})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		status, _, _ := decided(t, r, "closed")
		q := &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "open", Value: "ann"}},
		}}}
		a, err := rls.NewRateLimitServiceClient(client(t, r.grpc)).ShouldRateLimit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if status == 429 && a.OverallCode == rls.RateLimitResponse_OVER_LIMIT { // open never denies by itself
			break
		}
		if time.Now().After(end) {
			t.Fatal("the store never decides by gRPC")
		}
	}
	if _, body := get(t, "http://"+r.http+"/readyz"); !strings.Contains(body, "ms to answer") {
		t.Error(body)
	}
}
