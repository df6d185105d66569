package rulefeed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/rules"
)

func root() rulestore.Actor {
	return rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

// enforce puts one limit in force in a domain.
func enforce(t *testing.T, f *Feed, domain, limit string) {
	t.Helper()
	s, match := f.Store(), int64(0)
	if d, err := s.Domain(t.Context(), domain); err == nil {
		match = d.Revision
	}
	text := "domain: " + domain + "\ndescriptors:\n  - key: user\n    limits: [" + limit + "]\n"
	if _, _, err := s.Import(t.Context(), root(), rulestore.Import{Text: text, Team: "shop", Match: match, To: rulestore.Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
}

// brief is what is in force, and what is wrong.
func brief(n News) string {
	var b strings.Builder
	for _, set := range n.Sets {
		for _, r := range set.Rules() {
			fmt.Fprintf(&b, "%s %v shadow=%v\n", r.Name, r.Limit, r.Shadow)
		}
	}
	for _, c := range n.Candidates {
		for _, r := range c.Item.Rules() {
			fmt.Fprintf(&b, "candidate %s %v, version %d beside %d\n", r.Name, r.Limit, c.Version, c.Beside)
		}
	}
	if n.Err != nil {
		b.WriteString(n.Err.Error())
	}
	return b.String()
}

// watched is a feed at work.
type watched struct {
	*Feed

	told     chan News
	end      func()
	patience time.Duration
}

// patience is how long a test waits for what must come. It fails no test that is merely slow.
const patience = 3 * time.Minute

func watch(t *testing.T, dir string, o Options) *watched {
	t.Helper()
	w := &watched{Feed: Open(dir, o), told: make(chan News, 100), patience: patience}
	if _, err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Watch(ctx, func(n News) { w.told <- n })
	}()
	w.end = func() {
		stop()
		<-ended
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	return w
}

// until waits for news that are want, and gives them.
func (w *watched) until(t *testing.T, want string) News {
	t.Helper()
	var got string
	for range cap(w.told) {
		select {
		case n := <-w.told:
			if got = brief(n); got == want {
				return n
			}
		case <-time.After(w.patience):
			t.Fatalf("nobody tells %q; the last was %q", want, got)
		}
	}
	t.Fatalf("nobody tells %q; the last was %q", want, got)
	return News{}
}

// TestOverridesEnd: what is open or tightened falls back at its time, without
// anybody's doing.
func TestOverridesEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, dir, Options{})
		defer w.end()
		w.patience = 2 * time.Hour // which pass at once here
		enforce(t, w.Feed, "shop", "10/s")
		w.until(t, "shop/user 10/s shadow=false\n")
		for _, o := range []rulestore.Override{
			{Domain: "shop", Until: time.Now().Add(time.Hour), Reason: "an incident"},
			{Domain: "shop", Rule: "user", Percent: 20, Until: time.Now().Add(time.Minute), Reason: "an attack"},
		} {
			if err := w.Store().Override(t.Context(), root(), o); err != nil {
				t.Fatal(err)
			}
		}
		n := w.until(t, "shop/user 2/s shadow=false\n")
		held := n.Sets[0].Temporary()
		if len(held) != 1 || held[0].Temporary.Reason != "an attack" || held[0].Temporary.Percent != 20 || held[0].Temporary.Written.Limit.String() != "10/s" {
			t.Errorf("%+v", held)
		}
		began := time.Now()
		w.until(t, "shop/user 10/s shadow=true\n") // that of the domain
		if took := time.Since(began); took > time.Minute || took < 58*time.Second {
			t.Errorf("tightened for %v", took)
		}
		w.until(t, "shop/user 10/s shadow=false\n")
		if took := time.Since(began); took > time.Hour || took < time.Hour-2*time.Second {
			t.Errorf("open for %v", took)
		}
	})
}

// TestCandidates: what is in shadow is told beside what is in force.
func TestCandidates(t *testing.T) {
	w := watch(t, t.TempDir(), Options{})
	defer w.end()
	enforce(t, w.Feed, "shop", "10/s")
	r, err := w.Store().Rule(t.Context(), "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Store().Propose(t.Context(), root(), rulestore.Proposal{Domain: "shop", Text: "- key: user\n  limits: [3/s]\n", Match: r.Revision, To: rulestore.Shadow, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, "shop/user 10/s shadow=false\ncandidate shop/user 3/s, version 2 beside 1\n")
	o := rulestore.Override{Domain: "shop", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "an incident"}
	if err := w.Store().Override(t.Context(), root(), o); err != nil {
		t.Fatal(err)
	}
	w.until(t, "shop/user 5/s shadow=false\n")
}

// TestUnreadableExceptions: it is told that an exception has no effect for as long as that is so, whatever else changes.
func TestUnreadableExceptions(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir, Options{Exceptions: new(rules.Exceptions)})
	if _, err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	enforce(t, f, "shop", "10/s")
	set := func(limit string) {
		t.Helper()
		e := rulestore.Exception{Domain: "shop", Entries: []rulestore.Entry{{Key: "user", Value: "4711"}}, Limit: limit, Until: time.Now().Add(time.Hour), Reason: "a test"}
		if _, err := f.Store().SetException(t.Context(), root(), e); err != nil {
			t.Fatal(err)
		}
	}
	set("20/s")
	db, err := sql.Open("sqlite", filepath.Join(dir, rulestore.File))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `UPDATE exceptions SET limit_text = '20/s of a newer Weir'`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := f.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if told := brief(f.news(nil)); !strings.Contains(told, "1 exceptions of the rule database have limits that this Weir can't read") {
			t.Errorf("it is not told: %s", told)
		}
		enforce(t, f, fmt.Sprint("mail", i), "10/s")
	}
	if err := f.unreadable(weir.InstantOf(time.Now().Add(2 * time.Hour))); err != nil {
		t.Error("it has ended:", err)
	}
	f.granted = Unread
	if err := f.read(t.Context()); err != nil || f.news(nil).Err == nil {
		t.Fatal(err, "it is not told")
	}
	set("30/s")
	if err := f.read(t.Context()); err != nil || f.news(nil).Err != nil {
		t.Error(err, f.news(nil).Err)
	}
}

// TestOneBadDomain: a domain that can't be used keeps what it had; the others go
// on, and it comes when it is mended.
func TestOneBadDomain(t *testing.T) {
	w := watch(t, t.TempDir(), Options{Check: func(set *rules.Set) error {
		for _, r := range set.Rules() {
			if r.Limit.Spec().Count > 50 {
				return errors.New("too much for this store")
			}
		}
		return nil
	}})
	defer w.end()
	enforce(t, w.Feed, "a", "1/s")
	enforce(t, w.Feed, "b", "1/s")
	enforce(t, w.Feed, "a", "99/s")
	w.until(t, "a/user 1/s shadow=false\nb/user 1/s shadow=false\ndomain a of the rule database: too much for this store")
	enforce(t, w.Feed, "b", "2/s")
	w.until(t, "a/user 1/s shadow=false\nb/user 2/s shadow=false\ndomain a of the rule database: too much for this store")
	enforce(t, w.Feed, "a", "3/s")
	w.until(t, "a/user 3/s shadow=false\nb/user 2/s shadow=false\n")
}

// TestCopy: without the database the last good copy is in force; a copy that can't
// be read is told of.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "copies", "rules")
	w := watch(t, dir, Options{Copy: file})
	enforce(t, w.Feed, "shop", "7/s")
	w.until(t, "shop/user 7/s shadow=false\n")
	w.end() // which writes what is in force last
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, rulestore.File)), os.Mkdir(filepath.Join(dir, rulestore.File), 0o700)); err != nil {
		t.Fatal(err)
	}
	f := Open(dir, Options{Copy: file})
	n, err := f.Load(t.Context())
	if err != nil || len(n.Sets) != 1 || n.Err == nil || n.Revision != Unread || !strings.HasPrefix(brief(n), "shop/user 7/s shadow=false\nthe rule database:") {
		t.Errorf("%v %q", err, brief(n))
	}
	if err := os.WriteFile(file, []byte(`{"Revision":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Copy: file}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "the rule database:") || !strings.Contains(err.Error(), "can't be read") {
		t.Error(err)
	}
}

// TestCopyOverrides: a start from the copy has the overrides that have not ended, and they end there.
func TestCopyOverrides(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.copy")
	w := watch(t, dir, Options{Copy: file})
	for _, o := range []rulestore.Override{
		{Domain: "open", Until: time.Now().Add(time.Hour), Reason: "an incident"},
		{Domain: "tight", Rule: "user", Percent: 20, Until: time.Now().Add(time.Hour), Reason: "an attack"},
	} {
		enforce(t, w.Feed, o.Domain, "10/s")
		if err := w.Store().Override(t.Context(), root(), o); err != nil {
			t.Fatal(err)
		}
	}
	const held = "open/user 10/s shadow=true\ntight/user 2/s shadow=false\n"
	w.until(t, held)
	w.end()
	database := filepath.Join(dir, rulestore.File)
	if err := errors.Join(os.RemoveAll(database), os.Mkdir(database, 0o700)); err != nil {
		t.Fatal(err)
	}
	f := Open(dir, Options{Copy: file})
	n, err := f.Load(t.Context())
	if err != nil || n.Revision != Unread || !strings.HasPrefix(brief(n), held+"the rule database:") {
		t.Errorf("%v %q", err, brief(n))
	}
	for name, d := range f.domains {
		if left := time.Until(d.until); left < 59*time.Minute || left > time.Hour {
			t.Errorf("that of %s ends in %v", name, left)
		}
	}
}

// TestCopySize: a copy is hardly longer than what it is of, whatever stands there, so
// that it can be read back.
func TestCopySize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "copy")
	k := kept{Documents: []rulestore.Document{{File: strings.Repeat("# <b>&</b>\n", 10_000)}}}
	if err := writeCopy(file, k); err != nil {
		t.Fatal(err)
	}
	at, err := os.Stat(file)
	if err != nil || at.Size() > int64(2*len(k.Documents[0].File)) {
		t.Error(at.Size(), err)
	}
	if again, err := readCopy(file); err != nil || again.Documents[0].File != k.Documents[0].File {
		t.Error(err)
	}
}

// TestEmptied: a database that was made anew while a node began with its copy takes the
// place of that, though nothing was ever changed in it.
func TestEmptied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.copy")
	w := watch(t, dir, Options{Copy: file})
	enforce(t, w.Feed, "shop", "7/s")
	w.until(t, "shop/user 7/s shadow=false\n")
	w.end()
	database := filepath.Join(dir, rulestore.File)
	if err := errors.Join(os.RemoveAll(database), os.Mkdir(database, 0o700)); err != nil {
		t.Fatal(err)
	}
	w = watch(t, dir, Options{Copy: file})
	defer w.end()
	if err := os.Remove(database); err != nil {
		t.Fatal(err)
	}
	w.until(t, "")
}

// TestSameFile: a revision that changed no domain is told of, so that nobody takes the
// node to be behind.
func TestSameFile(t *testing.T) {
	w := watch(t, t.TempDir(), Options{})
	defer w.end()
	for range 2 {
		enforce(t, w.Feed, "shop", "7/s")
	}
	last, err := w.Store().Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := (News{}); n.Revision != last; {
		select {
		case n = <-w.told:
		case <-time.After(w.patience):
			t.Fatalf("nobody tells of revision %d; the last was %d", last, n.Revision)
		}
	}
}

// TestSilent: a database that is there and answers nothing is told of, while overrides
// end; and what was changed comes when it answers again.
func TestSilent(t *testing.T) {
	url, stall := silenced(t)
	w := watch(t, url, Options{})
	defer w.end()
	enforce(t, w.Feed, "shop", "7/s")
	w.until(t, "shop/user 7/s shadow=false\n")
	stall(true)
	for n := (News{}); n.Err == nil; {
		select {
		case n = <-w.told:
		case <-time.After(w.patience):
			t.Fatal("nobody tells that the database is silent")
		}
	}
	stall(false)
	for n := (News{Err: errors.New("as before")}); n.Err != nil; {
		select {
		case n = <-w.told:
		case <-time.After(w.patience):
			t.Fatal("nobody tells that it is back")
		}
	}
	enforce(t, w.Feed, "shop", "8/s")
	w.until(t, "shop/user 8/s shadow=false\n")
}

// silenced is the URL of a database by a way that can be stalled: then it takes what
// is sent, and lets nothing through.
func silenced(t *testing.T) (through string, stall func(bool)) {
	t.Helper()
	server := postgrestest.StartTCP(t)
	var stalled atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(_ bool, b []byte) (int, bool) {
		if stalled.Load() {
			return 0, false
		}
		return len(b), false
	})
	return strings.Replace(server.Database(t), server.Addr, addr, 1), stalled.Store
}

// TestRestored: when an older state of the database is put back under a node, that
// is what comes into force.
func TestRestored(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, dir, Options{})
	defer w.end()
	enforce(t, w.Feed, "shop", "1/s")
	old := backup(t, dir)
	enforce(t, w.Feed, "shop", "2/s")
	enforce(t, w.Feed, "later", "3/s")
	w.until(t, "later/user 3/s shadow=false\nshop/user 2/s shadow=false\n")
	old()
	w.until(t, "shop/user 1/s shadow=false\n")
}

// backup keeps the tables of a database as they are, and gives what puts them back.
func backup(t *testing.T, dir string) func() {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "backup.db")
	run := func(statements ...string) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, rulestore.File)+"?_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatal(s, err)
			}
		}
	}
	run("VACUUM INTO '" + copied + "'")
	return func() {
		statements := []string{"ATTACH '" + copied + "' AS old", "BEGIN IMMEDIATE"}
		for _, trigger := range []string{"audit_delete", "audit_insert"} { // they refuse it to all but the file's owner
			statements = append(statements, "DROP TRIGGER "+trigger)
		}
		for _, table := range []string{"counters", "teams", "domains", "rules", "versions", "overrides", "tokens", "audit"} {
			statements = append(statements, "DELETE FROM main."+table, "INSERT INTO main."+table+" SELECT * FROM old."+table)
		}
		run(append(statements, "COMMIT")...)
	}
}

// TestExceptionsCopied: exceptions are there after a start without the database, and those that are set hold at once.
func TestExceptionsCopied(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "rules.copy")
	var here rules.Exceptions
	w := watch(t, dir, Options{Copy: copied, Exceptions: &here})
	enforce(t, w.Feed, "shop", "10/s")
	w.until(t, "shop/user 10/s shadow=false\n")
	set := func(user string) string {
		made, err := w.Store().SetException(t.Context(), root(), rulestore.Exception{
			Domain: "shop", Entries: []rulestore.Entry{{Key: "user", Value: user}}, Limit: "100/s", Until: time.Now().Add(time.Hour), Reason: "a launch",
		})
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	ended := set("a")
	set("b")
	if _, err := w.Store().EndException(t.Context(), root(), ended, "over"); err != nil {
		t.Fatal(err)
	}
	active := func(x *rules.Exceptions) int { return x.Active(weir.InstantOf(time.Now())) }
	set("c")
	for end := time.Now().Add(patience); active(&here) != 2 && time.Now().Before(end); {
		<-w.told
	}
	w.end()
	if n := active(&here); n != 2 {
		t.Fatalf("%d hold", n)
	}
	if err := os.WriteFile(filepath.Join(dir, rulestore.File), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	var later rules.Exceptions
	f := Open(dir, Options{Copy: copied, Exceptions: &later})
	n, err := f.Load(t.Context())
	if err != nil || n.Revision != Unread || active(&later) != 2 {
		t.Errorf("%d hold: %v, %v", active(&later), n, err)
	}
	if err := os.WriteFile(copied+grantedSuffix, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var none rules.Exceptions
	n, err = Open(dir, Options{Copy: copied, Exceptions: &none}).Load(t.Context())
	if err != nil || n.Err == nil || !strings.Contains(n.Err.Error(), "all have the limits of their rules") || active(&none) != 0 {
		t.Errorf("a damaged copy: %v, %v", n.Err, err)
	}
}
