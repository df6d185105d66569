package rulestore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// freed has the database take changes of the audit, as somebody does who owns it.
func freed(t *testing.T, s *Store) {
	t.Helper()
	drop := `DROP TRIGGER audit_update; DROP TRIGGER audit_delete; DROP TRIGGER audit_insert`
	if s.dir == "" {
		drop = `DROP TRIGGER audit_append_only ON audit`
	}
	does(t, s.write, drop)
}

func does(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(statement, err)
	}
}

func verdict(t *testing.T, s *Store, kept ...Head) Verdict {
	t.Helper()
	v, err := s.Verify(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// record adds n lines to the audit.
func record(t testing.TB, s *Store, by Actor, n int) {
	t.Helper()
	list := make([]Event, n)
	for i := range list {
		list[i] = Event{Action: Reset, Domain: "shop", Rule: "user", At: time.Now(), Reason: fmt.Sprint("number ", i)}.By(by)
	}
	if err := s.Record(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// testAppendOnly: the database itself refuses to change, remove or replace a line of the audit, and one without a hash.
func testAppendOnly(t *testing.T, s *Store) {
	put(t, s, rule("user", "1/s"))
	statements := []string{
		`UPDATE audit SET actor = 'eve'`, `UPDATE audit SET reason = '' WHERE seq = 1`, `DELETE FROM audit`, `DELETE FROM audit WHERE seq = 2`,
		`INSERT INTO audit (seq, revision, at, actor, token, team, action, domain, rule, version, reason, refused) VALUES (99, 0, 0, 'eve', '', '', 'open', '', '', 0, '', '')`,
	}
	if s.dir == "" {
		statements = append(statements, `TRUNCATE audit`, `INSERT INTO audit SELECT * FROM audit ON CONFLICT (seq) DO UPDATE SET actor = 'eve'`)
	} else {
		statements = append(statements, `INSERT OR REPLACE INTO audit SELECT * FROM audit`, `INSERT INTO audit SELECT * FROM audit WHERE true ON CONFLICT (seq) DO UPDATE SET actor = 'eve'`)
	}
	for _, statement := range statements {
		if _, err := s.write.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "append-only") && !strings.Contains(err.Error(), "audit_hash") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if v := verdict(t, s); v.Lines < 2 || len(v.Faults) > 0 {
		t.Error(v)
	}
}

// testTampered: whatever somebody does to the lines who may change them, the chain shows it, or a head that was kept does.
func testTampered(t *testing.T, s *Store) {
	record(t, s, root(), 9)
	all, err := s.Audit(t.Context(), Audited{})
	if err != nil || len(all) != 10 {
		t.Fatal(len(all), err)
	}
	good := verdict(t, s)
	if good.Lines != 10 || good.Head != all[9].Head() || len(good.Faults) > 0 {
		t.Fatal(good)
	}
	freed(t, s)
	anew := func(from int64) { // hashes all lines anew, as they are now
		t.Helper()
		list, err := s.Audit(t.Context(), Audited{Behind: from - 1})
		if err != nil {
			t.Fatal(err)
		}
		prior := list[0].Prior
		for i := range list {
			e := &list[i]
			e.Prior = prior
			e.Hash = e.sum()
			prior = e.Hash
			does(t, s.write, `UPDATE audit SET prior = $1, hash = $2 WHERE seq = $3`, e.Prior, e.Hash, e.Seq)
		}
	}
	swap := func(a, b int64) {
		does(t, s.write, `UPDATE audit SET seq = 77 WHERE seq = $1`, a)
		does(t, s.write, `UPDATE audit SET seq = $1 WHERE seq = $2`, a, b)
		does(t, s.write, `UPDATE audit SET seq = $1 WHERE seq = 77`, b)
	}
	kept := all[7].Head() // of line 8
	for name, c := range map[string]struct {
		tamper func()
		want   []string
	}{
		"nothing":   {func() {}, nil},
		"changed":   {func() { does(t, s.write, `UPDATE audit SET actor = 'eve' WHERE seq = 5`) }, []string{"line 5 was changed: its hash is not of what it says"}},
		"a hash":    {func() { does(t, s.write, `UPDATE audit SET hash = $1 WHERE seq = 5`, strings.Repeat("0", 64)) }, []string{"line 5 was changed: its hash is not of what it says", "line 6 does not follow line 5: it has the hash of another line before it"}},
		"anew":      {func() { does(t, s.write, `UPDATE audit SET actor = 'eve' WHERE seq = 10`); anew(10) }, nil}, // the last one, behind the head that was kept
		"kept":      {func() { does(t, s.write, `UPDATE audit SET actor = 'eve' WHERE seq = 5`); anew(5) }, []string{"line 8 has another hash than the head that was kept: it, or a line before it, was changed and hashed anew"}},
		"removed":   {func() { does(t, s.write, `DELETE FROM audit WHERE seq IN (4, 5)`) }, []string{"lines 4…5 are missing"}},
		"the first": {func() { does(t, s.write, `DELETE FROM audit WHERE seq = 1`) }, []string{"line 1 is missing"}},
		"cut off": {func() {
			does(t, s.write, `DELETE FROM audit WHERE seq > 6`)
		}, []string{"lines 7…10 are missing at the end: the database has numbered 10", "the audit ends with line 6, and the head of line 8 was kept: its end was cut off"}},
		"cut off well": {func() {
			does(t, s.write, `DELETE FROM audit WHERE seq > 6`)
			does(t, s.write, `UPDATE counters SET audited = 6`)
		}, []string{"the audit ends with line 6, and the head of line 8 was kept: its end was cut off"}},
		"inserted": {func() {
			for seq := 10; seq >= 5; seq-- {
				does(t, s.write, `UPDATE audit SET seq = $1 WHERE seq = $2`, seq+1, seq)
			}
			does(t, s.write, `INSERT INTO audit SELECT 5, revision, at, actor, token, team, action, domain, rule, version, reason, refused, teams, address, prior, hash FROM audit WHERE seq = 4`)
		}, []string{"line 5 does not follow line 4", "line 5 was changed", "line 6 was changed", "line 7 was changed", "line 8 was changed", "line 8 has another hash", "line 9 was changed", "line 10 was changed", "line 11 was changed", "line 11 is added by another hand: the database has numbered 10"}},
		"swapped": {func() { swap(3, 4) }, []string{"line 3 does not follow line 2", "line 3 was changed", "line 4 does not follow line 3", "line 4 was changed", "line 5 does not follow line 4"}},
		"before the first": {func() {
			does(t, s.write, `UPDATE audit SET seq = -1 WHERE seq = 10`)
		}, []string{"line -1 stands behind line 0", "line -1 was changed", "line 1 does not follow", "line 10 is missing at the end"}},
	} {
		c.tamper()
		v := verdict(t, s, kept)
		ok := len(v.Faults) == len(c.want)
		for i := range v.Faults {
			ok = ok && strings.HasPrefix(v.Faults[i].Text, c.want[i])
		}
		if !ok && name != "before the first" || len(v.Faults) == 0 && len(c.want) > 0 {
			t.Errorf("%s: %+v, want %q", name, v.Faults, c.want)
		}
		// As it was.
		does(t, s.write, `DELETE FROM audit`)
		does(t, s.write, `UPDATE counters SET audited = 0`)
		again := &tx{by: root()}
		if again.Tx, err = s.write.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if err := again.append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if err := again.Commit(); err != nil {
			t.Fatal(err)
		}
		if now := verdict(t, s, kept); now.Head != good.Head || len(now.Faults) > 0 {
			t.Fatal(name, now)
		}
	}
	record(t, s, root(), 1)
	if v := verdict(t, s, kept, good.Head); v.Lines != 11 || len(v.Faults) > 0 {
		t.Error(v)
	}
}

// testLines: a line names the token, its teams and where the request came from, and no text harms the chain.
func testLines(t *testing.T, s *Store) {
	ann := Actor{Name: "ann", Token: "abcdefghij", Role: Publish, Teams: []string{"mail", "shop"}, Address: "2001:db8::7"}
	if _, err := s.Propose(t.Context(), ann, Proposal{Domain: "shop", Text: rule("user", "1/s"), To: Shadow, Reason: "ü <b> \" \\ é 日本 & a\nb"}); err != nil {
		t.Fatal(err)
	}
	record(t, s, Actor{Name: strings.Repeat("x", 500), Address: "\xff\x00"}, 1)
	err := s.Record(t.Context(), []Event{{Action: SignInRefused, At: time.Now(), Reason: strings.Repeat("é\x00\xff", 5000), Refused: strings.Repeat("\xff", 5000)}})
	if err != nil {
		t.Fatal(err)
	}
	refusedAs(t, second(s.CreateDomain(t.Context(), ann, NewDomain{Name: "mail", Team: "mail"}, "no")), Forbidden)
	list, err := s.Audit(t.Context(), Audited{})
	if err != nil || len(list) != 5 {
		t.Fatal(len(list), err)
	}
	for _, e := range []Event{list[1], list[4]} {
		if e.Actor != "ann" || e.Token != "abcdefghij" || cmp.Diff([]string{"mail", "shop"}, e.Teams) != "" || e.Address != "2001:db8::7" {
			t.Errorf("%+v", e)
		}
	}
	if list[4].Refused == "" || list[4].Revision != 0 {
		t.Error(list[4])
	}
	// The lines as the API gives them have the same chain.
	var c Chain
	for i := range list {
		line, err := json.Marshal(list[i])
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		c.Add(&e)
	}
	if v := c.Verdict(Unnumbered); v.Lines != 5 || len(v.Faults) > 0 || v.Head != verdict(t, s).Head {
		t.Error(v)
	}
	// History is not crowded out by resets.
	if history, err := s.Audit(t.Context(), Audited{Domain: "shop", Rule: "user", History: true}); err != nil || len(history) != 1 || history[0].Action != "shadow" {
		t.Error(history, err)
	}
	// So has the part behind a head, and no other has.
	for kept, want := range map[Head]int{list[2].Head(): 0, {3, strings.Repeat("0", 64)}: 1, {2, list[1].Hash}: 1} {
		part := Chain{Kept: []Head{kept}}
		part.Add(&list[3])
		part.Add(&list[4])
		if v := part.Verdict(Unnumbered); len(v.Faults) != want {
			t.Error(kept, v)
		}
	}
	for _, text := range []string{"", "5", "5:", "5:abc", "0:" + list[0].Hash, "x:" + list[0].Hash, list[0].Hash} {
		if _, err := ParseHead(text); !IsKind(err, Invalid) {
			t.Error(text, err)
		}
	}
	if h, err := ParseHead(list[4].Head().String()); err != nil || h != list[4].Head() {
		t.Error(h, err)
	}
}

// TestSum holds the form of what is hashed: audits that were kept elsewhere have it.
func TestSum(t *testing.T) {
	e := Event{
		Seq: 7, Revision: 3, At: time.UnixMicro(1_700_000_000_123_456).UTC(), Actor: "ann", Token: "abcdefghij", Teams: []string{"mail", "shop"}, Address: "192.0.2.7",
		Team: "shop", Action: "enforce", Domain: "shop", Rule: "user", Version: 2, Reason: "größer", Prior: strings.Repeat("ab", 32),
	}
	if got := e.sum(); got != "383575793079432a351d75537a33aae97264bf83371255b97aefb189130d6614" {
		t.Error(got)
	}
	if got := (&Event{At: moment(0)}).sum(); got == (&Event{At: moment(1)}).sum() {
		t.Error(got)
	}
}

// testNames: nobody makes a token by the name of another team's actor, nor of one who needs none.
func testNames(t *testing.T, s *Store) {
	ctx := t.Context()
	makes := func(by Actor, actor string, teams ...string) error {
		_, _, err := s.CreateToken(ctx, by, Token{Actor: actor, Role: Propose, Teams: teams}, "a test")
		return err
	}
	shop, pay, both := as("shop-admin", Admin, "shop"), as("pay-admin", Admin, "pay"), as("head", Admin, "shop", "pay")
	for _, err := range []error{makes(pay, "pay-publish", "pay"), makes(root(), "ops", AllTeams), makes(root(), "both", "pay", "shop"), makes(shop, "ann", "shop"), makes(shop, "ann", "shop")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pay-publish", "PAY-Publish", "ops", "both"} {
		err := makes(shop, name, "shop")
		refusedAs(t, err, Forbidden)
		if bad, ok := errors.AsType[*Error](err); !ok || bad.Field != "actor" || !strings.Contains(bad.Text, "choose another name") {
			t.Error(err)
		}
	}
	if err := makes(both, "both", "shop"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{FileAdmin, FirstStart, Local, "local/root", "LOCAL/root", "Admin-Token-File"} {
		refusedAs(t, makes(root(), name, AllTeams), Invalid)
	}
	if err := makes(shop, "locally", "shop"); err != nil {
		t.Error(err)
	}
	// Nor when its tokens have ended: history goes on to name it.
	tokens, _, err := s.Tokens(ctx, pay, "", 0)
	if err != nil || len(tokens) != 1 {
		t.Fatal(tokens, err)
	}
	if err := s.RevokeToken(ctx, pay, tokens[0].ID, "gone"); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, makes(shop, "pay-publish", "shop"), Forbidden)
	if err := makes(pay, "pay-publish", "pay"); err != nil {
		t.Error(err)
	}
}

// TestManyLines: many lines are verified in the memory of a few.
func TestManyLines(t *testing.T) {
	s := shop(t, t.TempDir())
	const many = 10_000
	for range many / 1000 {
		record(t, s, root(), 1000)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC() // so that what is in use is measured, not what is left over
				runtime.ReadMemStats(&after)
				peak = max(peak, after.HeapAlloc)
			}
		}
	}()
	v := verdict(t, s)
	close(done)
	<-stopped
	if v.Lines != many+1 || len(v.Faults) > 0 {
		t.Error(v)
	}
	if used := int64(peak) - int64(before.HeapAlloc); used > 5<<20 {
		t.Errorf("%d lines took %d bytes", v.Lines, used)
	}
	// Nor are faults without end.
	freed(t, s)
	does(t, s.write, `UPDATE audit SET actor = 'eve'`)
	if v := verdict(t, s); len(v.Faults) != maxFaults || v.More != many+1-maxFaults {
		t.Error(len(v.Faults), v.More)
	}
}

// TestTwoWriters: nodes that share PostgreSQL write one chain, by changes, refusals and what is recorded at the same time.
func TestTwoWriters(t *testing.T) {
	place := postgrestest.Start(t).Database(t)
	nodes := []*Store{shop(t, place), open(t, place)}
	const each = 20
	var g sync.WaitGroup
	for n, s := range nodes {
		for w := range 3 {
			g.Go(func() {
				for i := range each {
					var err error
					switch w {
					case 0:
						_, err = s.Propose(t.Context(), root(), Proposal{Domain: "shop", Text: rule(fmt.Sprintf("k%d-%d", n, i), "1/s"), To: Enforced, Reason: "a test"})
					case 1:
						if _, err = s.CreateDomain(t.Context(), as("eve", Read), NewDomain{Name: "x", Team: "x"}, "no"); IsKind(err, Forbidden) && !IsKind(err, Unavailable) {
							err = nil
						}
					case 2:
						err = s.Record(t.Context(), []Event{Event{Action: SignIn, At: time.Now()}.By(root()), Event{Action: SignOut, At: time.Now()}.By(root())})
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	g.Wait()
	for _, s := range nodes {
		if v := verdict(t, s); v.Lines != 1+2*each*4 || len(v.Faults) > 0 {
			t.Error(v)
		}
	}
}

// TestRestrictedRole: a node works by a role that may add lines to the audit, and do nothing else to it; docs/operating.md has its
// grants.
func TestRestrictedRole(t *testing.T) {
	server := postgrestest.Start(t)
	place := server.Database(t)
	put(t, shop(t, place), rule("user", "1/s"))
	does(t, open(t, place).write, grants(t))
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("weir_daemon")
	s := open(t, u.String())
	put(t, s, rule("user", "2/s"))
	if _, _, err := s.CreateToken(t.Context(), root(), Token{Actor: "ann", Role: Read, Teams: []string{"shop"}}, "a test"); err != nil {
		t.Error(err)
	}
	record(t, s, root(), 3)
	err = errors.Join(
		s.Tell(t.Context(), Node{Name: "a"}), s.Leave(t.Context(), "a"), s.Forget(t.Context()),
		s.Add(t.Context(), "a", []Tally{{Domain: "shop", Rule: "user", Version: 2, Beside: 1}}),
		s.Override(t.Context(), root(), Override{Domain: "shop", Until: time.Now().Add(time.Hour), Reason: "a test"}),
	)
	if err != nil {
		t.Error(err)
	}
	refusedAs(t, second(s.CreateDomain(t.Context(), as("eve", Read), NewDomain{Name: "x", Team: "x"}, "no")), Forbidden)
	for _, statement := range []string{
		`UPDATE audit SET actor = 'eve'`, `DELETE FROM audit`, `TRUNCATE audit`, `DROP TABLE audit`, `DROP TRIGGER audit_append_only ON audit`, `ALTER TABLE audit DISABLE TRIGGER ALL`,
		`UPDATE weir_schema SET version = 1`, `SET session_replication_role = replica`,
	} {
		if _, err := s.write.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if v := verdict(t, s); v.Lines != 9 || len(v.Faults) > 0 {
		t.Error(v)
	}
	// It can't bring the tables of a new Weir, and says who can.
	does(t, open(t, place).write, `UPDATE weir_schema SET version = 4`)
	if _, err := Open(t.Context(), u.String()); !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "have their owner open it once") {
		t.Error(err)
	}
}

// TestRestored: a dump of PostgreSQL is restored whole, with a chain that goes on and is guarded.
func TestRestored(t *testing.T) {
	server := postgrestest.Start(t)
	from, to := server.Database(t), server.Database(t)
	put(t, shop(t, from), rule("user", "1/s"))
	server.Copy(t, from, to)
	s := open(t, to)
	put(t, s, rule("user", "2/s"))
	testAppendOnly(t, s)
	if v := verdict(t, s); v.Lines != 4 {
		t.Error(v)
	}
}

// grants is the statements of docs/operating.md.
func grants(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```sql\n")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("docs/operating.md has no grants")
	}
	return strings.ReplaceAll(block, "weir_owner", "weir") // who has made the tables here
}
