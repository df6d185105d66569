package rulestore

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestCommitFails: a change that fails at its very end, when all its writes were
// taken, is told as failed and leaves nothing, and so does a refusal that the
// audit could not take; the next change is made.
func TestCommitFails(t *testing.T) {
	const raise = `
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN %; RETURN NULL; END';
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
`
	server := postgrestest.Start(t)
	for name, c := range map[string]struct {
		place      string
		harm, mend []string
	}{
		"a constraint of SQLite": {t.TempDir(), []string{
			`CREATE TABLE nobody (id BIGINT PRIMARY KEY)`,
			`CREATE TABLE late (id BIGINT REFERENCES nobody (id) DEFERRABLE INITIALLY DEFERRED)`,
			`CREATE TRIGGER late AFTER INSERT ON audit BEGIN INSERT INTO late VALUES (1); END`,
		}, []string{`DROP TRIGGER late`}},
		"a constraint of PostgreSQL": {
			server.Database(t), strings.Split(strings.Replace(raise, "%", "RAISE EXCEPTION ''at the end''", 1), "\n"), []string{`DROP TRIGGER late ON audit`},
		},
		"a connection that PostgreSQL ends": {
			server.Database(t), strings.Split(strings.Replace(raise, "%", "PERFORM pg_terminate_backend(pg_backend_pid())", 1), "\n"), []string{`DROP TRIGGER late ON audit`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop(t, c.place)
			put(t, s, rule("user", "1/s"))
			does := func(statements []string) {
				t.Helper()
				for _, q := range statements {
					if _, err := s.write.ExecContext(t.Context(), q); err != nil {
						t.Fatal(q, err)
					}
				}
			}
			stands := func() (State string) {
				t.Helper()
				revision, err := s.Revision(t.Context())
				events, lost := s.Audit(t.Context(), Audited{})
				if err != nil || lost != nil {
					t.Fatal(err, lost)
				}
				return strings.Join([]string{file(t, s).File, strings.Repeat("r", int(revision)), strings.Repeat("a", len(events))}, "\n")
			}
			before := stands()
			does(c.harm)
			for range 3 {
				_, err := s.Propose(t.Context(), root(), Proposal{Domain: "shop", Text: rule("b", "1/s"), To: Enforced, Reason: "x"})
				if !IsKind(err, Unavailable) {
					t.Error("it was not made, and nobody is told:", err)
				}
				_, err = s.Propose(t.Context(), as("eve", Read), Proposal{Domain: "shop", Text: rule("b", "1/s")})
				if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "takes the role propose") {
					t.Error("the refusal is not in the audit, and nobody is told:", err)
				}
				if after := stands(); after != before {
					t.Errorf("%s, want %s", after, before)
				}
			}
			does(c.mend)
			put(t, s, rule("b", "1/s"))
			if after := stands(); !strings.Contains(after, "key: b") {
				t.Error(after)
			}
		})
	}
}
