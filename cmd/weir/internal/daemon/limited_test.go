package daemon

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
)

const limitedRules = `domain: shop
descriptors:
  - {key: user, limits: [6/day]}
  - key: path
    value: /export/*
    descriptors: [{key: user, limits: [3/day]}]
`

// limitedNodes starts nodes that share a rule database: with counts of their own, or as a cluster. A node that has all rules, and hears
// the others, is ready.
func limitedNodes(t *testing.T, data, store string, n int) []*running {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var nodes []*running
	for range n {
		c := withToken(t, Config{Data: data, Store: store})
		if store == "cluster:" {
			c.Cluster = "127.0.0.1:0"
			if len(nodes) > 0 {
				c.Join = nodes[0].daemon.name()
			}
		}
		nodes = append(nodes, start(t, c))
	}
	enforceRules(t, nodes[0].daemon.feed.Store(), limitedRules)
	for _, r := range nodes {
		untilTrue(t, "the node has the rules, and is listed", func() bool {
			set := r.daemon.limiter.Set()
			return set != nil && len(set.Rules()) == 2 && len(r.daemon.sharers().List(t.Context())) == n
		})
		if store == "cluster:" {
			untilTrue(t, "the cluster is settled", func() bool {
				s, joined := r.daemon.storage.node.Status()
				return joined && s.Settled && len(s.Members) == n
			})
		}
	}
	return nodes
}

func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not yet: ", what)
		}
	}
}

// sends sends one request of the entries, KEY and VALUE by turns, and tells whether it passes.
func sends(t *testing.T, r *running, entries ...string) bool {
	t.Helper()
	query := url.Values{"domain": {"shop"}}
	for i := 0; i < len(entries); i += 2 {
		query.Add("e", entries[i]+"="+entries[i+1])
	}
	status, body := get(t, "http://"+r.http+"/auth?"+query.Encode()) // which takes any bytes
	if status != http.StatusOK && status != http.StatusTooManyRequests {
		t.Fatal(status, body)
	}
	return status == http.StatusOK
}

// exhaust sends requests to nodes by turns until each has denied so many.
func exhaust(t *testing.T, nodes []*running, denials int, entries ...string) {
	t.Helper()
	for _, r := range nodes {
		for denied := 0; denied < denials; {
			if !sends(t, r, entries...) {
				denied++
			}
		}
	}
}

// limitedAt is what a node says of limited clients.
func limitedAt(t *testing.T, r *running, query string) httpapi.Limited {
	t.Helper()
	status, body := peek(t, r, "/v1/limited?"+query)
	var l httpapi.Limited
	if err := json.Unmarshal([]byte(body), &l); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	return l
}

func clientOf(l httpapi.Limited, rule, key string) *httpapi.LimitedClient {
	i := slices.IndexFunc(l.Clients, func(c httpapi.LimitedClient) bool { return c.Rule == rule && c.Key == key })
	if i < 0 {
		return nil
	}
	return &l.Clients[i]
}

// TestLimitedNow: whichever node is asked, it tells at once of the clients of all, and one click unblocks a client on every node. With counts
// of each node for itself, and in a cluster.
func TestLimitedNow(t *testing.T) {
	server := postgrestest.Start(t)
	for _, c := range []struct {
		store string
		nodes int
	}{{"memory:", 2}, {"cluster:", 3}} {
		t.Run(c.store, func(t *testing.T) {
			nodes := limitedNodes(t, server.Database(t), c.store, c.nodes)
			exhaust(t, nodes, 4, "user", "ann")
			exhaust(t, nodes[c.nodes-1:], 2, "path", "/export/<i>a b", "user", `"eve"`)
			hostile := []string{"<script>x</script>", "\u202eeve", "a\x00\x1b[2J", "\xff\xfe", strings.Repeat("k", 3000), ""}
			for _, name := range hostile {
				exhaust(t, nodes[c.nodes-1:], 1, "user", name)
			}
			for i, r := range nodes {
				l := limitedAt(t, r, "")
				if len(l.Nodes) != c.nodes || len(l.Silent) != 0 || l.Alone != "" || l.Total != 2+len(hostile) || len(l.Clients) != l.Total {
					t.Fatalf("node %d: %+v", i, l)
				}
				ann := clientOf(l, "shop/user", "ann")
				if ann == nil || ann.Denied != int64(4*c.nodes) || ann.Error != 0 || ann.Lately != ann.Denied || len(ann.Nodes) != c.nodes || ann.Limit != "6/day" || ann.Again == nil || *ann.Again > 86400 {
					t.Errorf("node %d: %+v", i, ann)
				}
				if eve := clientOf(l, "shop/path=/export/*/user", `"/export/<i>a b" "\"eve\""`); eve == nil || eve.Denied != 2 || len(eve.Nodes) != 1 || eve.Nodes[0] != nodes[c.nodes-1].daemon.name() {
					t.Errorf("node %d: %+v", i, eve)
				}
			}
			if l := limitedAt(t, nodes[0], "client=AN&domain=sho&rule=user&n=1"); len(l.Clients) != 1 || l.Clients[0].Key != "ann" || l.Total != 1 || l.Next != 0 {
				t.Errorf("%+v", l)
			}
			if l := limitedAt(t, nodes[0], "n=3&after=3"); len(l.Clients) != 3 || l.Next != 6 {
				t.Errorf("%+v", l)
			}
			unblocks(t, nodes)
		})
	}
}

// unblocks unblocks ann and eve at the pages of the first node, in a real browser.
func unblocks(t *testing.T, nodes []*running) {
	t.Helper()
	_, ann, err := nodes[0].daemon.feed.Store().CreateToken(t.Context(), root(), rulestore.Token{Actor: "pat", Role: rulestore.Publish, Teams: []string{"shop"}}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	p := browsertest.Start(t).Open(t, browsertest.Views()[0], "http://"+nodes[0].admin+"/ui/sign-in")
	browsertest.Do(t, p, chromedp.SendKeys("#token", ann+"\r"))
	browsertest.Do(t, p, chromedp.WaitVisible("nav[aria-label=Main]"))
	open := func(path string) string {
		t.Helper()
		browsertest.Do(t, p, chromedp.Navigate("http://"+nodes[0].admin+path))
		return browsertest.Do(t, p, chromedp.Evaluate[string]("document.body.innerText"))
	}
	page := open("/ui/limited")
	for _, want := range []string{"ann", `\xff\xfe`, `\u{202E}eve`, `a\u{0}\u{1B}[2J`, "<script>x</script>", "longer than 128 bytes", fmt.Sprintf("of %d nodes", len(nodes))} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	p.Inspect(t, fmt.Sprintf("limited-%d-nodes", len(nodes)))

	// The page goes on by itself, and keeps what the reader does.
	follow := func(text string) {
		t.Helper()
		browsertest.Do(t, p, chromedp.Evaluate[bool](`document.querySelector("#client").value = "half a wo", document.querySelector("[data-live=limited] tbody a").focus(), true`))
		id := browsertest.Do(t, p, chromedp.Evaluate[string]("document.activeElement.id"))
		exhaust(t, nodes[1:2], 1, "user", "newcomer")
		untilTrue(t, "the page shows a client that was denied later", func() bool {
			return strings.Contains(browsertest.Do(t, p, chromedp.Evaluate[string]("document.body.innerText")), text)
		})
		if now := browsertest.Do(t, p, chromedp.Evaluate[string]("document.activeElement.id + ' ' + document.querySelector('#client').value")); now != id+" half a wo" {
			t.Errorf("the focus was at %q, and then %q", id, now)
		}
	}
	follow("newcomer")

	for client, entries := range map[string][]string{"ann": {"user", "ann"}, "eve": {"path", "/export/<i>a b", "user", `"eve"`}, `\xff\xfe`: {"user", "\xff\xfe"}} {
		shown := client
		if client == "eve" {
			shown = `"/export/<i>a b" "\"eve\""`
		}
		row := fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.querySelector("th").textContent === %q)`, shown)
		if client == "ann" || client == "eve" {
			open("/ui/limited")
			browsertest.Do(t, p, chromedp.Evaluate[bool](row+`.querySelector("a[href*='/ui/try']").click(), true`))
			browsertest.Do(t, p, chromedp.WaitVisible("#answer"))
			if why := browsertest.Do(t, p, chromedp.Evaluate[string]("document.body.innerText")); !strings.Contains(why, "denied") || !strings.Contains(why, "/day") {
				t.Errorf("why %s is denied:\n%s", client, why)
			}
		}
		open("/ui/limited")
		browsertest.Do(t, p, chromedp.Evaluate[bool](row+`.querySelector("a[href*='/ui/unblock']").click(), true`))
		browsertest.Do(t, p, chromedp.WaitVisible("#reason"))
		if client == "eve" {
			p.Inspect(t, "unblock")
		}
		browsertest.Do(t, p, chromedp.SendKeys("#reason", "a call <b>\r"))
		browsertest.Do(t, p, chromedp.WaitVisible(".notice"))
		if said := browsertest.Do(t, p, chromedp.Evaluate[string](`document.querySelector(".notice").innerText`)); !strings.Contains(said, fmt.Sprintf("reset on %d nodes", len(nodes))) || strings.Contains(said, "Not yet") {
			t.Error(said)
		}
		if names := browsertest.Do(t, p, chromedp.Evaluate[string](`[...document.querySelectorAll("tbody th")].map((h) => h.textContent).join("|")`)); slices.Contains(strings.Split(names, "|"), shown) {
			t.Errorf("%s is in the list still: %s", client, names)
		}
		for i, r := range nodes {
			if !sends(t, r, entries...) {
				t.Errorf("%s is denied at node %d", client, i)
			}
		}
	}
	if sends(t, nodes[len(nodes)-1], "user", "<script>x</script>") {
		t.Error("another client was unblocked")
	}
	lines, err := nodes[0].daemon.feed.Store().Audit(t.Context(), rulestore.Audited{Domain: "shop", Before: 1 << 40, Limit: 3})
	if err != nil || len(lines) != 3 || !slices.ContainsFunc(lines, func(e rulestore.Event) bool {
		return e.Actor == "pat" && e.Action == rulestore.Reset && e.Rule == "user" && e.Reason == "shop/user of ann: a call <b>" && e.Address == "127.0.0.1"
	}) {
		t.Errorf("%+v %v", lines, err)
	}
	if complaints := p.Complaints(); len(complaints) > 0 {
		t.Error(complaints)
	}
}

// TestLimitedLeaves: the names of clients are in the database only while somebody reads: not of a node that has left, of one that has
// died, nor when no reader is left; and while the database is away, a node tells of itself, and says so.
func TestLimitedLeaves(t *testing.T) {
	server := postgrestest.StartTCP(t)
	data := server.Database(t)
	nodes := limitedNodes(t, data, "memory:", 2)
	db, err := sql.Open("pgx", data)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (names []string) {
		t.Helper()
		found, err := db.QueryContext(t.Context(), `SELECT node FROM limited ORDER BY node`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = found.Close() }()
		for found.Next() {
			var name string
			if err := found.Scan(&name); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return names
	}
	exhaust(t, nodes, 1, "user", "ann")
	exhaust(t, nodes[1:], 1, "user", "bob")
	if names := rows(); len(names) != 0 {
		t.Error("nobody reads, and nodes tell:", names)
	}
	if l := limitedAt(t, nodes[0], ""); clientOf(l, "shop/user", "bob") == nil {
		t.Errorf("%+v", l)
	}
	exec(`UPDATE readers SET ends = 0`)
	untilTrue(t, "what was told is gone with its last reader", func() bool { return len(rows()) == 0 })

	// A node that has died: its clients leave the list, and its name stays in it as long as it is listed at all.
	dead := limited.Tell([]offenders.Limited{{
		ID: offenders.ID{Domain: "shop", Rule: "shop/user"}, Clients: []offenders.Client{{Count: offenders.Count{Name: "cyd", N: 3}, Last: time.Now()}},
	}}, time.Now(), func(name string) string { return name })
	store := nodes[0].daemon.feed.Store()
	if err := store.Tell(t.Context(), rulestore.Node{Name: "zz-dead:1"}); err != nil {
		t.Fatal(err)
	}
	if err := store.TellLimited(t.Context(), "zz-dead:1", dead.Pack()); err != nil {
		t.Fatal(err)
	}
	if l := limitedAt(t, nodes[1], ""); clientOf(l, "shop/user", "cyd") == nil || len(l.Nodes) != 3 || len(l.Silent) != 0 {
		t.Errorf("%+v", l)
	}
	exec(fmt.Sprintf(`UPDATE limited SET told = told - %d WHERE node = 'zz-dead:1'`, limitedLost.Microseconds()))
	if l := limitedAt(t, nodes[1], ""); clientOf(l, "shop/user", "cyd") != nil || fmt.Sprint(l.Silent) != "[zz-dead:1]" {
		t.Errorf("%+v", l)
	}
	// Nobody waits long for it, and it is named.
	begun := time.Now()
	by := rulestore.Actor{Name: "pat", Role: rulestore.Publish, Teams: []string{"shop"}}
	done, late, err := nodes[0].daemon.unblock(t.Context(), by, rulestore.Unblock{Domain: "shop", Item: "user", Rule: "shop/user", Client: []byte("bob"), Reason: "a test"})
	if err != nil || done != 2 || fmt.Sprint(late) != "[zz-dead:1]" || time.Since(begun) > unblockTime+patience {
		t.Error(done, late, err)
	}
	exec(`DELETE FROM nodes WHERE name = 'zz-dead:1'`)

	nodes[1].stop()
	if err := <-nodes[1].done; err != nil {
		t.Fatal(err)
	}
	nodes[1].done <- nil
	if slices.Contains(rows(), nodes[1].daemon.name()) {
		t.Error("a node that has left has left names behind")
	}
	if l := limitedAt(t, nodes[0], ""); len(l.Nodes) != 1 || len(l.Silent) != 0 || clientOf(l, "shop/user", "ann") == nil {
		t.Errorf("%+v", l)
	}
	server.Signal(t, os.Interrupt) // a fast shutdown
	var l httpapi.Limited
	untilTrue(t, "the database is away", func() bool {
		l = limitedAt(t, nodes[0], "")
		return l.Alone != ""
	})
	if clientOf(l, "shop/user", "ann") == nil || !strings.Contains(l.Alone, "can't be asked now") {
		t.Errorf("%+v", l)
	}
}

// TestLimitedOfTeams: a token of a team is told of its own clients alone, and unblocks no others.
func TestLimitedOfTeams(t *testing.T) {
	r := start(t, withToken(t, Config{Data: t.TempDir()}))
	enforceRules(t, r.daemon.feed.Store(), "domain: shop\ndescriptors:\n  - {key: user, limits: [1/day]}\n  - {key: letter, owner: mail, limits: [1/day]}\n")
	untilExport(t, r, "letter")
	exhaust(t, []*running{r}, 1, "user", "secret-user")
	exhaust(t, []*running{r}, 1, "letter", "secret-letter")
	for team, want := range map[string][2]bool{"shop": {true, true}, "mail": {false, true}, "web": {false, false}, rulestore.AllTeams: {true, true}} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.admin+"/v1/limited", nil)
		if err != nil {
			t.Fatal(err)
		}
		bearer(token(t, r, rulestore.Read, team))(q)
		status, body := answered(t, q)
		for i, name := range []string{"secret-user", "secret-letter"} {
			if strings.Contains(body, name) != want[i] || status != http.StatusOK || !strings.Contains(body, `"nodes":["`) {
				t.Errorf("%s is told %s: %v: %s", team, name, !want[i], body)
			}
		}
	}
	for _, bad := range []string{"n=1001", "n=x", "after=-1", "client=a&client=b", "nodes=1", "client=%zz"} {
		if status, body := peek(t, r, "/v1/limited?"+bad); status != http.StatusBadRequest {
			t.Error(bad, status, body)
		}
	}
	// The list tells what holds for a rule for a time, also when its limit denies nobody any more.
	for percent, want := range map[int64]string{50: "50 % until", 0: "open until"} {
		if err := r.daemon.feed.Store().Override(t.Context(), root(), rulestore.Override{Domain: "shop", Rule: "user", Percent: percent, Until: time.Now().Add(time.Hour), Reason: "a flood"}); err != nil {
			t.Fatal(err)
		}
		untilTrue(t, "the override holds", func() bool {
			held := r.daemon.limiter.Set().Temporary()
			return len(held) == 1 && held[0].Temporary.Percent == percent
		})
		if c := clientOf(limitedAt(t, r, ""), "shop/user", "secret-user"); c == nil || c.Override == nil || c.Override.Percent != percent {
			t.Errorf("%+v", c)
		}
		if _, page := signedIn(t, r).page(t, "/ui/limited"); !strings.Contains(page, want) {
			t.Error(page)
		}
	}
	if err := r.daemon.feed.Store().Override(t.Context(), root(), rulestore.Override{Domain: "shop", Rule: "user", Until: time.Now(), Reason: "it is over"}); err != nil {
		t.Fatal(err)
	}
	untilTrue(t, "the override has ended", func() bool { return len(r.daemon.limiter.Set().Temporary()) == 0 })
	done, late, err := r.daemon.unblock(t.Context(), root(), rulestore.Unblock{Domain: "shop", Item: "user", Rule: "shop/user", Client: []byte("secret-user"), Reason: "a test"})
	if err != nil || done != 1 || len(late) != 0 || !sends(t, r, "user", "secret-user") {
		t.Error(done, late, err)
	}
	hashed := start(t, Config{Rules: rulesFile(t, domainText("shop", "1/day")), HashKeys: true})
	exhaust(t, []*running{hashed}, 1, "user", "secret-user")
	for _, path := range []string{"/v1/limited", "/ui/limited"} {
		status, body := get(t, "http://"+hashed.admin+path)
		if status != http.StatusOK || strings.Contains(body, "secret-user") || !strings.Contains(body, "~") || !strings.Contains(body, "has no rule database") {
			t.Error(path, status, body)
		}
	}
}

// visitor is a browser without a screen.
type visitor struct {
	http.Client
	at string
}

// signedIn is one that has signed in with oneToken.
func signedIn(t testing.TB, r *running) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{at: "http://" + r.admin}
	v.Jar = jar
	said, err := v.PostForm(v.at+"/ui/sign-in", url.Values{"token": {oneToken}}) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = said.Body.Close()
	return v
}

func (v *visitor) page(t testing.TB, path string) (status int, page string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer(oneToken)(q)
	answer, err := v.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// BenchmarkLimited is what a list of 50 nodes with 1,000 clients each costs at the page and at GET /v1/limited, with the rule database, and
// what it costs the database when a node tells.
func BenchmarkLimited(b *testing.B) {
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	data, tokens := postgrestest.Start(b).Database(b), filepath.Join(b.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(oneToken), 0o600); err != nil {
		b.Fatal(err)
	}
	d, admin := startBench(b, Config{Data: data, AdminTokenFile: tokens, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", LameDuck: time.Millisecond})
	store := d.feed.Store()
	tell := func(node int) []byte {
		now, told := time.Now(), limited.Told{At: time.Now()}
		for r := range 10 {
			rule := limited.Rule{Domain: fmt.Sprint("team-", r), Name: fmt.Sprint("team-", r, "/user"), Least: 3}
			for i := range limited.MaxClients / 10 {
				rule.Clients = append(rule.Clients, offenders.Client{
					Count: offenders.Count{Name: fmt.Sprintf("client-%d-of-%d", i, node*i%997), N: int64(i + 1)}, Lately: 1, Since: now.Add(-time.Minute), Last: now.Add(-time.Duration(i%50) * time.Second),
				})
			}
			told.Rules = append(told.Rules, rule)
		}
		return told.Pack()
	}
	b.Run("telling", func(b *testing.B) {
		packed := tell(1)
		b.SetBytes(int64(len(packed)))
		for b.Loop() {
			if err := store.TellLimited(b.Context(), "node", packed); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("idle", func(b *testing.B) { // each limitedEvery
		for b.Loop() {
			if _, err := store.Asked(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	packed := make([][]byte, 50)
	for i := range packed {
		packed[i] = tell(i)
	}
	browser := signedIn(b, &running{admin: admin})
	for name, path := range map[string]string{"page": "/ui/limited", "API": "/v1/limited", "search": "/ui/limited?client=client-77-&rule=user"} {
		b.Run(name, func(b *testing.B) {
			told := time.Time{}
			for b.Loop() {
				if time.Since(told) > limitedLost/2 {
					b.StopTimer()
					for i, p := range packed {
						if err := store.TellLimited(b.Context(), fmt.Sprint("node-", i), p); err != nil {
							b.Fatal(err)
						}
					}
					told = time.Now()
					b.StartTimer()
				}
				if status, body := browser.page(b, path); status != http.StatusOK || !strings.Contains(body, "client-77-") && name == "search" {
					b.Fatal(status, body)
				}
			}
		})
	}
}

// TestUnblockByAPI: a client is unblocked at all nodes by its requests, also where its name was cut, and the list has the limit that decides
// about a client.
func TestUnblockByAPI(t *testing.T) {
	nodes := limitedNodes(t, postgrestest.Start(t).Database(t), "memory:", 2)
	long := strings.Repeat("k", 300)
	for _, user := range []string{"ann", long} {
		exhaust(t, nodes, 1, "user", user)
		body := fmt.Sprintf(`{"domain":"shop","entries":[{"key":"user","value":%q}],"reason":"she called"}`, user)
		if status, text := askAdmin(t, nodes[0], "/v1/limited/unblock", body); status != http.StatusOK || !strings.Contains(text, `"nodes":2,"late":[]`) || !strings.Contains(text, `{"rule":"shop/user","limit":"6/day"}`) {
			t.Fatal(status, text)
		}
		for i, r := range nodes {
			if !sends(t, r, "user", user) {
				t.Errorf("%.3s is denied at node %d", user, i)
			}
		}
	}
	_, err := nodes[0].daemon.feed.Store().SetException(t.Context(), root(), rulestore.Exception{
		Domain: "shop", Entries: []rulestore.Entry{{Key: "user", Value: "bob"}}, Limit: "1/day", Until: time.Now().Add(time.Hour), Reason: "a flood",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range nodes {
		untilLimit(t, r, "bob", "1/day")
	}
	exhaust(t, nodes, 1, "user", "bob")
	exhaust(t, nodes, 1, "user", "eve")
	l := limitedAt(t, nodes[1], "")
	for user, limit := range map[string]string{"bob": "1/day", "eve": "6/day"} {
		if c := clientOf(l, "shop/user", user); c == nil || c.Limit != limit {
			t.Errorf("%s: %+v; want %s", user, c, limit)
		}
	}
}
