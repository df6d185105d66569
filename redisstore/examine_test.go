package redisstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// said is the findings of an examination, a line each.
func said(e *Examination) string {
	var lines []string
	for _, f := range e.Findings {
		severity := "warning"
		if f.Fault {
			severity = "fault"
		}
		lines = append(lines, fmt.Sprintf("%s: %s; %s", severity, f.Text, f.Remedy))
	}
	return strings.Join(lines, "\n")
}

// TestExamine: what is unwise about a server is told, and nothing else.
func TestExamine(t *testing.T) {
	well := []string{"maxmemory", "100mb", "maxmemory-policy", "volatile-ttl", "appendonly", "yes"}
	with := func(more ...string) []string { return slices.Concat(well, more) }
	for _, c := range []struct {
		name    string
		options []string
		before  func(*redistest.Server)
		want    []string
	}{
		{"well", well, nil, nil},
		{"as it comes", []string{"timeout", "0"}, nil, []string{"warning: there is no maxmemory", "warning: it writes nothing to disk"}},
		{"evicts all", with("maxmemory-policy", "allkeys-lru"), nil, []string{"warning: maxmemory-policy allkeys-lru"}},
		{"evicts at random", with("maxmemory-policy", "volatile-random"), nil, []string{"warning: maxmemory-policy volatile-random"}},
		{
			"full",
			[]string{"maxmemory", "1mb", "maxmemory-policy", "noeviction", "appendonly", "yes"},
			nil,
			[]string{"fault: takes fail: ", "% of maxmemory are used; when it is full, takes fail"},
		},
		{"replica", with("replicaof", "127.0.0.1 1"), nil, []string{"fault: this is a replica", "fault: takes fail: ", "give the URL of the primary"}},
		{"node of a cluster", with("cluster-enabled", "yes"), nil, []string{"fault: this is a node of a Redis Cluster", "fault: takes fail: "}},
		{"keys that stay", well, func(s *redistest.Server) { s.Ask(t, "SET", "weir:{x}", "1") }, []string{"fault: 1 of 1 keys under Weir's prefix never expire"}},
		{"another's key", well, func(s *redistest.Server) { s.Ask(t, "SET", "other", "1") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, c.options...)
			if c.before != nil {
				c.before(server)
			}
			e, err := Examine(t.Context(), "redis://"+server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			got := said(e)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not say %q:\n%s", want, got)
				}
			}
			slow := strings.Count(got, "one take of 100") // this machine has other work
			if len(e.Findings)-slow != len(c.want) && !strings.Contains(got, "takes fail") {
				t.Errorf("it says more than %q:\n%s", c.want, got)
			}
			n := e.Nodes[0]
			if n.Version == "" || n.Role == "" || e.Ping.Median <= 0 || e.Ping.Median > e.Ping.P99 || e.Skew.Abs() > 50*time.Millisecond {
				t.Errorf("%+v", e)
			}
			if strings.Contains(got, "takes fail") != (e.Take.Median == 0) {
				t.Errorf("%+v, %s", e.Take, got)
			}
		})
	}
}

// TestExamineKinds: clusters, sentinels and sockets.
func TestExamineKinds(t *testing.T) {
	nodes := redistest.StartCluster(t, 0)
	e, err := Examine(t.Context(), "redis+cluster://"+nodes[0].Addr)
	if err != nil || e.Kind != "cluster" || len(e.Nodes) != 3 || e.Take.Median == 0 || !strings.Contains(said(e), "the cluster has no replicas") || strings.Contains(said(e), "fault:") {
		t.Errorf("%+v %v", e, err)
	}
	sentinel, _, _ := redistest.StartSentinel(t, "main")
	e, err = Examine(t.Context(), "redis+sentinel://"+sentinel.Addr+"/main")
	if err != nil || e.Kind != "sentinel" || e.Take.Median == 0 || strings.Contains(said(e), "fault:") || strings.Contains(said(e), "no replica") {
		t.Errorf("%+v %v", e, err)
	}
	e, err = Examine(t.Context(), "redis://"+sentinel.Addr)
	if err == nil && !strings.Contains(said(e), "fault: this is a sentinel; write redis+sentinel") || err != nil && !strings.Contains(err.Error(), "sentinel") {
		t.Errorf("%+v %v", e, err)
	}
	alone := redistest.Start(t, "timeout", "0")
	e, err = Examine(t.Context(), "redis+cluster://"+alone.Addr)
	if err != nil || !strings.Contains(said(e), "warning: this is no cluster; write redis://") {
		t.Errorf("%+v %v", e, err)
	}
	path := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Start(t, "unixsocket", path)
	e, err = Examine(t.Context(), "redis+unix://"+path)
	if err != nil || e.Take.Median == 0 || len(e.Nodes) != 1 {
		t.Errorf("%+v %v", e, err)
	}
}

// leastRights are those of docs/stores.md.
const leastRights = "~weir:* resetchannels -@all +hello +auth +ping +evalsha +eval +get +set +time"

// TestLeastRights: the store needs no more than the documents say, and none of it
// can be left out. Examine needs more, and says so.
func TestLeastRights(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	user := func(rights string) {
		if answer := server.Ask(t, append([]string{"ACL", "SETUSER", "least", "reset", "on", ">secret-word"}, strings.Fields(rights)...)...); answer != "OK" {
			t.Fatal(answer)
		}
	}
	user(leastRights)
	url := "redis://least:secret-word@" + server.Addr
	s := opened(t, url)
	asks := asksOf("5/s fixed-window", "k")
	asks[0].Receipt = 7
	d := take(t, s, asks)
	take(t, s, asksOf("5/s", "k"))
	if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: d.Receipt}}); err != nil {
		t.Error(err)
	}
	if err := s.Reset(t.Context(), []weir.StateKey{asks[0].State}); err != nil {
		t.Error(err)
	}
	e, err := Examine(t.Context(), url)
	if err != nil || e.Take.Median == 0 || !strings.Contains(said(e), "+info") || strings.Contains(said(e), "fault:") || strings.Contains(said(e), "secret-word") {
		t.Errorf("%+v %v", e, err)
	}
	for _, right := range []string{"+evalsha", "+get", "+set", "+time", "~weir:*"} {
		user(strings.Replace(leastRights, right, "", 1))
		if e, err := Examine(t.Context(), url); err != nil || !strings.Contains(said(e), "fault: takes fail") || !strings.Contains(said(e), "ACL SETUSER") {
			t.Errorf("without %s: %+v %v", right, e, err)
		}
	}
}

// TestLeastRightsOnCluster: a Cluster is asked for its slots beside that, and a
// database for itself.
func TestLeastRightsOnCluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 0)
	for _, n := range nodes {
		if answer := n.Ask(t, append([]string{"ACL", "SETUSER", "least", "on", ">secret-word"}, strings.Fields(leastRights+" +cluster|slots +cluster|shards")...)...); answer != "OK" {
			t.Fatal(answer)
		}
	}
	s := opened(t, "redis+cluster://least:secret-word@"+nodes[0].Addr)
	for i := range 20 {
		take(t, s, asksOf("5/s", fmt.Sprint(i)))
	}
	alone := redistest.Start(t, "timeout", "0")
	alone.Ask(t, append([]string{"ACL", "SETUSER", "least", "on", ">secret-word"}, strings.Fields(leastRights+" +select")...)...)
	take(t, opened(t, "redis://least:secret-word@"+alone.Addr+"/3"), asksOf("5/s", "k"))
}

// TestExamineNobody: who does not answer, or does not let in, is an error that
// says why, without the password.
func TestExamineNobody(t *testing.T) {
	guarded := redistest.Start(t, "requirepass", "secret-word")
	sentinel, _, _ := redistest.StartSentinel(t, "main")
	for url, want := range map[string]string{
		"redis://:other-word@" + guarded.Addr:                  "user or password in the URL",
		"redis://" + guarded.Addr:                              "write the password into the URL",
		"redis://127.0.0.1:1":                                  "connection refused",
		"redis+sentinel://:secret-word@" + guarded.Addr + "/x": "this is no sentinel",
		"redis+sentinel://" + sentinel.Addr + "/other":         "watches no such master",
		"mysql://h:1": "is no scheme",
	} {
		e, err := Examine(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "-word") {
			t.Errorf("%s: %+v %v, want %q", url, e, err, want)
		}
	}
}

// TestJudge: what no server here can be made to tell.
func TestJudge(t *testing.T) {
	for want, change := range map[string]func(*examiner){
		"fault: it is Redis 4.0.9; take Redis 5 or later":                         func(e *examiner) { e.Nodes[0].Version = "4.0.9" },
		"warning: the server's clock is 3s apart":                                 func(e *examiner) { e.Skew = 3 * time.Second },
		"warning: the server's clock is -3s apart":                                func(e *examiner) { e.Skew = -3 * time.Second },
		"warning: one take of 100 needs 450ms, and none is given more than 400ms": func(e *examiner) { e.Take.P99 = 450 * time.Millisecond },
		"warning: one take of 100 needs 20ms; by way of Envoy":                    func(e *examiner) { e.Take.P99 = 20 * time.Millisecond },
		"warning: the password goes over the network without TLS":                 func(e *examiner) { e.secret, e.Nodes[0].Address = true, "10.0.0.1:6379" },
		"warning: 90 % of maxmemory are used; then counts are forgotten":          func(e *examiner) { e.Nodes[0].Used = 90e6 },
		"": func(e *examiner) { e.secret, e.TLS, e.Nodes[0].Address = true, true, "10.0.0.1:6379" },
	} {
		e := &examiner{Examination: Examination{Kind: "standalone", Nodes: []Node{
			{Address: "127.0.0.1:6379", Version: "7.0.15", Role: "primary", Mode: "standalone", Used: 1e6, Max: 100e6, Policy: "volatile-ttl", AOF: "yes", RDB: "no"},
		}}}
		change(e)
		e.judge()
		if got := said(&e.Examination); len(e.Findings) > 1 || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
