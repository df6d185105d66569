package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/rulefeed"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// nodesPage waits until the page of a node says all of the words.
func nodesPage(t *testing.T, r *running, words ...string) {
	t.Helper()
	page, missing := "", ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		status, text := get(t, "http://"+r.admin+"/ui/nodes")
		if status != http.StatusOK {
			t.Fatal(status, text)
		}
		page, missing = text, ""
		for _, w := range words {
			if !strings.Contains(page, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
	}
	t.Fatalf("the page lacks %q:\n%s", missing, page)
}

// TestNodesPage: each node shows the other, with its state, listener and version, and how
// much they say to each other.
func TestNodesPage(t *testing.T) {
	rules := rulesFile(t, domainText("shop", "100/h"))
	node := func(version string, join ...string) *running {
		return start(t, Config{Rules: rules, Store: "cluster:", Cluster: "127.0.0.1:0", Join: strings.Join(join, ","), Version: version})
	}
	first := node("v1.0-first")
	name := func(r *running) string { return r.daemon.storage.node.Name() }
	second := node("v1.0-second", name(first))
	nodesPage(t, first, ">this node<", ">heard<", name(second), second.http, "v1.0-second", "2 nodes, and all reach each other", "gRPC listener", first.grpc, "Messages received in a second")
	nodesPage(t, second, name(first), first.http, "v1.0-first")

	settled := func(r *running) bool { s, _ := r.daemon.storage.node.Status(); return s.Settled }
	for end := time.Now().Add(patience); (!settled(first) || !settled(second)) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, r := range []*running{first, second} { // some keys are of each
		for i := range 50 {
			body := fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"%d"}]}]}`, i)
			if status, text := do(t, http.MethodPost, "http://"+r.http+"/v1/check", body); status != http.StatusOK && status != http.StatusTooManyRequests {
				t.Fatal(status, text)
			}
		}
	}
	s, _ := first.daemon.storage.node.Status()
	if s.Members[0].Keys+s.Members[1].Keys != s.Keys.Asked || s.Members[0].Keys == 0 || s.Members[1].Keys == 0 {
		t.Errorf("of %d keys the members own %d and %d", s.Keys.Asked, s.Members[0].Keys, s.Members[1].Keys)
	}
}

// TestLeadersOfOneName: rules may have one name, and metrics tell them as one. Of these, the first that has a leader is
// told; all other metrics are there too.
func TestLeadersOfOneName(t *testing.T) {
	text := "descriptors: [{key: a, name: one, limits: [1/s]}, {key: b, name: one, limits: [1/s], sharing: leader}, {key: c, name: one, limits: [1/s], sharing: hub}]\n"
	r := start(t, Config{Rules: rulesFile(t, "domain: d\n"+text), Store: "cluster:", Cluster: "127.0.0.1:0"})
	name := r.daemon.storage.node.Name()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s, _ := r.daemon.storage.node.Status(); s.Settled {
			break
		}
	}
	want := `weir_cluster_leader{leader="` + name + `",rule="one",seat="0"} 1`
	if status, text := get(t, "http://"+r.admin+"/metrics"); status != http.StatusOK || strings.Count(text, want) != 1 || strings.Count(text, "\nweir_cluster_leader{") != 1 {
		t.Errorf("%d, without %s: %.300s", status, want, text)
	}
	if status, text := get(t, "http://"+r.admin+"/v1/cluster/leader?rule=one"); status != http.StatusOK || !strings.Contains(text, `"sharing":"leader"`) || !strings.Contains(text, name) {
		t.Errorf("%d %s", status, text)
	}
}

// TestNodesPageRevision: the page says which revision of the rule database is active.
func TestNodesPageRevision(t *testing.T) {
	r := start(t, withToken(t, Config{Data: t.TempDir()}))
	d := r.daemon
	if said := d.revision(t.Context()); said != "revision 0 is active here, the last there is" {
		t.Error(said)
	}
	for _, limit := range []string{"1/h", "2/h"} {
		enforceRules(t, d.feed.Store(), domainText("shop", limit))
	}
	untilExport(t, r, "limits: [2/h]")
	if said := d.revision(t.Context()); said != "revision 2 is active here, the last there is" {
		t.Error(said)
	}
	d.update(func(p *parts) { p.revision = 1 })
	if said := d.revision(t.Context()); said != "revision 1 is active here; the database is at 2" {
		t.Error(said)
	}
	d.update(func(p *parts) { p.revision = rulefeed.Unread })
	if said := d.revision(t.Context()); said != "a copy is active here; the database is at 2" {
		t.Error(said)
	}
}

// TestSharers: nodes that share a rule database know of each other, and of what is in
// force there, until they leave.
func TestSharers(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	url := postgrestest.Start(t).Database(t)
	one, other := start(t, Config{Data: url, Version: "v1"}), start(t, Config{Data: url, Version: "v2"})
	store := one.daemon.feed.Store()
	enforceRules(t, store, domainText("shop", "5/h"))
	for _, n := range []rulestore.Node{{Name: "zz-copy", Revision: -1}, {Name: "zz-late", Revision: 0}} { // and who did not have the change
		if err := store.Tell(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(want ...membership.Sharer) {
		t.Helper()
		diff := ""
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			got := one.daemon.sharers().List(t.Context())
			for i := range got {
				got[i].Silent = 0
				got[i].State = strings.Replace(got[i].State, "silent", "heard", 1) // on a slow machine
			}
			slices.SortFunc(got, func(a, b membership.Sharer) int { return strings.Compare(a.Version+a.Name, b.Version+b.Name) })
			if diff = cmp.Diff(want, got); diff == "" {
				return
			}
		}
		t.Fatal(diff)
	}
	node := func(r *running, state string) membership.Sharer {
		return membership.Sharer{Name: r.daemon.name(), Version: r.daemon.config.Version, State: state, Active: "revision 1"}
	}
	copied, late := membership.Sharer{Name: "zz-copy", State: "heard", Active: "a copy", Behind: true}, membership.Sharer{Name: "zz-late", State: "heard", Active: "revision 0", Behind: true}
	sees(node(one, "self"), node(other, "heard"), copied, late)
	other.stop()
	if err := <-other.done; err != nil {
		t.Error(err)
	}
	other.done <- nil
	sees(node(one, "self"), copied, late)
}
