package daemon

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

func root() rulestore.Actor {
	return rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

// enforceRules puts a file in force in the rule database.
func enforceRules(t *testing.T, s *rulestore.Store, text string) {
	t.Helper()
	match := int64(0)
	if d, err := s.Domain(t.Context(), domainOf(text)); err == nil {
		match = d.Revision
	}
	if _, _, err := s.Import(t.Context(), root(), rulestore.Import{Text: text, Team: "shop", Match: match, To: rulestore.Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
}

func domainOf(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "domain: "), "\n")
	return name
}

// untilExport waits until a daemon serves rules that have want in them.
func untilExport(t *testing.T, r *running, want string) {
	t.Helper()
	text := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, text = peek(t, r, "/v1/export"); strings.Contains(text, want) {
			return
		}
	}
	t.Fatalf("%q is not in force: %s", want, text)
}

// withToken is a Config whose admin listener opens with oneToken, whether its database is away or not.
func withToken(t *testing.T, c Config) Config {
	t.Helper()
	c.AdminTokenFile = certtest.File(t, "tokens", []byte(oneToken))
	return c
}

// peek gets a path of the admin listener with oneToken, if it takes one.
func peek(t *testing.T, r *running, path string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer(oneToken)(q)
	return answered(t, q)
}

// asUser asks whether a user may pass in the domain shop.
func asUser(t *testing.T, r *running) int {
	t.Helper()
	status, _ := do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`)
	return status
}

func domainText(name, limit string) string {
	return "domain: " + name + "\ndescriptors:\n  - key: user\n    limits: [" + limit + "]\n"
}

// TestFirstToken: the first token of a database is in a file that only its owner reads,
// and not in what is printed, which ends up in logs.
func TestFirstToken(t *testing.T) {
	data := t.TempDir()
	printed, _ := newLog()
	d, err := New(Config{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: data, LameDuck: time.Millisecond, Stdout: printed})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	file := filepath.Join(data, "rules.first-token")
	said := printed.until(t, "token: in "+file)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if secret := strings.TrimSpace(string(token)); !strings.HasPrefix(secret, "weir_") || strings.Contains(said, secret) {
		t.Errorf("%q has the token %q", said, secret)
	}
	s, err := rulestore.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	who, err := s.Authenticate(t.Context(), strings.TrimSpace(string(token)))
	if err := errors.Join(err, s.Close()); err != nil || who.Role != rulestore.Admin {
		t.Error(who, err)
	}
}

// TestDatabase: rules of the database come into force at once, are there after a
// restart, and give way to files of the same domain.
func TestDatabase(t *testing.T) {
	data := t.TempDir()
	log, logger := newLog()
	r := start(t, withToken(t, Config{Data: data, Log: logger}))
	if want := "try: open http://" + r.admin + "/ui/ in a browser, "; !strings.HasSuffix(r.line, " domains=0 rules=0") || !strings.HasPrefix(r.try, want) {
		t.Error(r.line, r.try)
	}
	enforceRules(t, r.daemon.feed.Store(), domainText("shop", "1/h"))
	untilExport(t, r, "limits: [1/h]")
	if first, second := asUser(t, r), asUser(t, r); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Error(first, second)
	}
	enforceRules(t, r.daemon.feed.Store(), domainText("shop", "3/h"))
	untilExport(t, r, "limits: [3/h]")
	if status := asUser(t, r); status != http.StatusOK { // 1 of 3 was used
		t.Error("a changed rule has forgotten, or is not in force", status)
	}
	log.until(t, `msg="rules of the database are active" revision=2`)
	if _, body := peek(t, r, "/metrics"); !strings.Contains(body, "\nweir_rules_database_revision 2\n") {
		t.Error("no metric tells the revision")
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil

	files := rulesFile(t, domainText("shop", "7/h"))
	both := start(t, withToken(t, Config{Data: data, Rules: files, Log: logger}))
	untilExport(t, both, "limits: [7/h]")
	said := log.until(t, "is in the files and in the rule database")
	if _, body := get(t, "http://"+both.http+"/readyz"); !strings.Contains(body, "domain shop is in the files and in the rule database") || strings.Contains(said, "panic") {
		t.Error(body)
	}
	enforceRules(t, both.daemon.feed.Store(), domainText("other", "2/h"))
	untilExport(t, both, "domain: other")
	if err := os.WriteFile(files, []byte(domainText("files", "7/h")), 0o600); err != nil {
		t.Fatal(err)
	}
	untilExport(t, both, "limits: [3/h]") // the database's, now that the files let go of it
}

// TestDatabaseIsAway: a node keeps its rules while the database is away, over a
// restart too, says so, and goes on when it is back.
func TestDatabaseIsAway(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	server := postgrestest.Start(t)
	url := server.Database(t)
	log, logger := newLog()
	one, other := start(t, withToken(t, Config{Data: url, Log: logger})), start(t, withToken(t, Config{Data: url}))
	enforceRules(t, one.daemon.feed.Store(), domainText("shop", "5/h"))
	untilExport(t, one, "limits: [5/h]")
	untilExport(t, other, "limits: [5/h]")
	server.Kill()
	log.until(t, "see that it runs and can be reached")
	if _, body := get(t, "http://"+one.http+"/readyz"); !strings.Contains(body, "the rule database") {
		t.Error("nobody is told that the database is away:", body)
	}
	for _, r := range []*running{one, other} {
		if status := asUser(t, r); status != http.StatusOK {
			t.Error(status)
		}
		r.stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	}
	again := start(t, withToken(t, Config{Data: url, Log: logger}))
	untilExport(t, again, "limits: [5/h]")
	if status, body := get(t, "http://"+again.http+"/readyz"); status != http.StatusOK || !strings.Contains(body, "the rule database") {
		t.Error(status, body)
	}
	server.Restart(t)
	for end := time.Now().Add(patience); again.daemon.feed.Store() == nil && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	enforceRules(t, again.daemon.feed.Store(), domainText("shop", "6/h"))
	untilExport(t, again, "limits: [6/h]")
	if _, body := get(t, "http://"+again.http+"/readyz"); strings.Contains(body, "database") {
		t.Error("the database is back, and nobody says so:", body)
	}
}

// TestNoDatabase: without a database and without a copy there is no start, and the
// reason tells what to do.
func TestNoDatabase(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, rulestore.File), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	file := rulesFile(t, "")
	for data, want := range map[string]string{
		broken:                                  "the file is damaged or no database: restore it from a backup",
		file:                                    "is a file; name the folder that has, or gets, weir.db",
		"postgres://u:secret@127.0.0.1:1/x":     "see that it runs and can be reached; this node has no copy of its rules yet, and can't begin without it",
		"postgres://u:secret@127.0.0.1:port/x":  "write postgres://USER@HOST:PORT/DATABASE",
		"postgres://u:secret@127.0.0.1:1/x?a=b": "see that it runs",
	} {
		_, err := New(Config{Data: data})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// token makes a token of the rule database.
func token(t *testing.T, r *running, role rulestore.Role, teams ...string) string {
	t.Helper()
	_, text, err := r.daemon.feed.Store().CreateToken(t.Context(), root(), rulestore.Token{Actor: "ann", Role: role, Teams: teams}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRuleAPI: rules are changed at the admin listener with a token, and with nothing
// else, and come into force.
func TestRuleAPI(t *testing.T) {
	r := start(t, withToken(t, Config{Data: t.TempDir(), Rules: rulesFile(t, domainText("files", "7/h"))}))
	admin, reader := token(t, r, rulestore.Admin, rulestore.AllTeams), token(t, r, rulestore.Read, "shop")
	for _, path := range []string{"/v1/domains", "/v1/rules", "/v1/whoami", "/v1/tokens/x", "/v1/audit", "/v1/teams", "/v1/validate"} {
		if status := knock(t, r, path, func(*http.Request) {}); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
		if status := knock(t, r, path, func(q *http.Request) { bearer(admin)(q); q.Host = "evil.example" }); status != http.StatusMisdirectedRequest {
			t.Errorf("%s as another host: %d", path, status)
		}
	}
	post := func(token, path, body string) (int, string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		bearer(token)(q)
		return answered(t, q)
	}
	if status, body := post(admin, "/v1/domains", `{"name":"files","team":"shop","reason":"x"}`); status != http.StatusConflict || !strings.Contains(body, "comes from the files") {
		t.Error(status, body)
	}
	if status, body := post(admin, "/v1/domains", `{"name":"shop","team":"shop","reason":"x"}`); status != http.StatusCreated {
		t.Error(status, body)
	}
	if status, body := post(reader, "/v1/rules", `{"domain":"shop","text":"- {key: user, limits: [1/h]}"}`); status != http.StatusForbidden {
		t.Error(status, body)
	}
	if status, body := post(admin, "/v1/rules", `{"domain":"shop","text":"- {key: user, limits: [1/h]}","to":"enforced","reason":"x","force":true}`); status != http.StatusCreated {
		t.Error(status, body)
	}
	untilExport(t, r, "{key: user, limits: [1/h]}")
	if first, second := asUser(t, r), asUser(t, r); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Error(first, second)
	}
	for range 11 {
		knock(t, r, "/v1/rules", bearer("weir_aaaaaaaaaa_guess"))
	}
	if status := knock(t, r, "/v1/rules", bearer("weir_aaaaaaaaaa_guess")); status != http.StatusTooManyRequests {
		t.Error("guessing has no end:", status)
	}
	if status := knock(t, r, "/v1/rules", bearer(admin)); status != http.StatusOK {
		t.Error("who has a right token is locked out by others:", status)
	}
}

// TestDatabaseWantsTokens: with a rule database all of the admin listener but health wants a token, on loopback too: a
// proxy there would let strangers in.
func TestDatabaseWantsTokens(t *testing.T) {
	r := start(t, Config{Data: t.TempDir()})
	admin := token(t, r, rulestore.Admin, rulestore.AllTeams)
	for _, path := range append(adminPaths(), "/v1/openapi.json", "/v1/findings", "/v1/cluster", "/v1/rules") {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			of := func(q *http.Request) { q.Method = method }
			if status := knock(t, r, path, of); status != http.StatusUnauthorized {
				t.Errorf("%s %s without a token: %d", method, path, status)
			}
			if status := knock(t, r, path, func(q *http.Request) { of(q); bearer(admin)(q) }); status == http.StatusUnauthorized || status == http.StatusForbidden {
				t.Errorf("%s %s of an administrator: %d", method, path, status)
			}
		}
	}
	for _, path := range []string{"/healthz", "/healthcheck", "/readyz", "/ui/sign-in"} {
		if status := knock(t, r, path, func(*http.Request) {}); status != http.StatusOK {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
}

// TestRolesAtTheDoor: with tokens needed for all, a token of the database opens
// what its role is for.
func TestRolesAtTheDoor(t *testing.T) {
	r := start(t, Config{Data: t.TempDir(), Admin: "0.0.0.0:0"}) // its tokens are enough off loopback
	r.admin = strings.Replace(r.admin, "[::]", "127.0.0.1", 1)
	admin, reader := token(t, r, rulestore.Admin, rulestore.AllTeams), token(t, r, rulestore.Read, "shop")
	for path, opens := range map[string]bool{"/metrics": true, "/v1/export": true, "/v1/rules": true, "/v1/explain": true, "/debug/pprof/cmdline": false} {
		if status := knock(t, r, path, func(*http.Request) {}); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
		if status := knock(t, r, path, bearer(reader)); opens != (status != http.StatusForbidden) || status == http.StatusUnauthorized {
			t.Errorf("%s of a reader: %d", path, status)
		}
		if status := knock(t, r, path, bearer(admin)); status == http.StatusUnauthorized {
			t.Errorf("%s of an administrator: %d", path, status)
		}
	}
	// While nobody can tell whose a token is, it is not taken for a wrong one.
	if err := r.daemon.feed.Store().Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if status := knock(t, r, "/metrics", bearer(admin)); status != http.StatusServiceUnavailable {
			t.Fatal("while the database is away:", status)
		}
	}
}

// TestTokensEnd: a token that has expired or was revoked opens nothing, and its
// holder is told why and what to do.
func TestTokensEnd(t *testing.T) {
	r := start(t, Config{Data: t.TempDir()})
	store := r.daemon.feed.Store()
	create := func(expires time.Time) (rulestore.Token, string) {
		t.Helper()
		k, text, err := store.CreateToken(t.Context(), root(), rulestore.Token{Actor: "ann", Role: rulestore.Publish, Teams: []string{"shop"}, Expires: expires}, "a test")
		if err != nil {
			t.Fatal(err)
		}
		return k, text
	}
	gone, revoked := create(time.Time{})
	if err := store.RevokeToken(t.Context(), root(), gone.ID, "she left"); err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(50 * time.Millisecond)
	_, expired := create(ends)
	time.Sleep(time.Until(ends) + time.Millisecond)
	for token, says := range map[string]string{revoked: "the token was revoked at ", expired: "the token has expired at "} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.admin+"/v1/rules", strings.NewReader(`{"domain":"shop"}`))
			if err != nil {
				t.Fatal(err)
			}
			bearer(token)(q)
			response, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != http.StatusUnauthorized || response.Header.Get("Content-Type") != "application/problem+json" ||
				!strings.Contains(string(text), says) || !strings.Contains(string(text), "ask an administrator for another") {
				t.Errorf("%s: %d %s", method, response.StatusCode, text)
			}
		}
	}
}

// TestReadOnlyFolder: a node that may not write its folder keeps the rules that it
// knows and says what to do, and goes on when it may.
func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("SKIPPED ALOUD: root may write everything")
	}
	data := t.TempDir()
	r := start(t, withToken(t, Config{Data: data}))
	enforceRules(t, r.daemon.feed.Store(), domainText("shop", "5/h"))
	untilExport(t, r, "limits: [5/h]")
	admin := token(t, r, rulestore.Admin, rulestore.AllTeams)
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	may := func(file, dir os.FileMode) {
		t.Helper()
		if err := errors.Join(os.Chmod(data, 0o700), os.Chmod(filepath.Join(data, rulestore.File), file), os.Chmod(data, dir)); err != nil {
			t.Fatal(err)
		}
	}
	may(0o400, 0o500)
	defer may(0o600, 0o700)
	r = start(t, withToken(t, Config{Data: data}))
	untilExport(t, r, "limits: [5/h]")
	if status, body := get(t, "http://"+r.http+"/readyz"); status != http.StatusOK || !strings.Contains(body, "let this user write the file and its folder") {
		t.Error(status, body)
	}
	change := func() (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.admin+"/v1/rules", strings.NewReader(`{"domain":"shop","text":"- {key: ip, limits: [1/s]}"}`))
		if err != nil {
			t.Fatal(err)
		}
		bearer(admin)(q)
		return answered(t, q)
	}
	if status, body := change(); status != http.StatusServiceUnavailable || !strings.Contains(body, "/readyz says why") {
		t.Error(status, body)
	}
	may(0o600, 0o700)
	for end := time.Now().Add(patience); r.daemon.feed.Store() == nil && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if status, body := change(); status != http.StatusCreated {
		t.Error(status, body)
	}
}

// TestNewerDatabase: a database that a newer Weir has brought up to date is left
// alone: a node that knows its rules keeps them and says why nothing can be
// changed, and one that does not know them tells that it can't begin.
func TestNewerDatabase(t *testing.T) {
	data := t.TempDir()
	r := start(t, withToken(t, Config{Data: data}))
	enforceRules(t, r.daemon.feed.Store(), domainText("shop", "5/h"))
	untilExport(t, r, "limits: [5/h]")
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	db, err := sql.Open("sqlite", filepath.Join(data, rulestore.File))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `UPDATE weir_schema SET version = 99`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	const why = "the rule database has schema 99, of a newer Weir"
	old := start(t, withToken(t, Config{Data: data}))
	untilExport(t, old, "limits: [5/h]")
	if status, body := get(t, "http://"+old.http+"/readyz"); status != http.StatusOK || !strings.Contains(body, why) {
		t.Error(status, body)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+old.admin+"/v1/rules", strings.NewReader(`{"domain":"shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	bearer("weir_aaaaaaaaaa_b")(q)
	if status, body := answered(t, q); status != http.StatusServiceUnavailable || !strings.Contains(body, "the rule database can't be reached yet; /readyz says why") {
		t.Error(status, body)
	}
	if err := os.Remove(filepath.Join(data, "rules.copy")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Data: data}); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "can't begin without it") {
		t.Error(err)
	}
}
