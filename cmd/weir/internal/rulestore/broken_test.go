package rulestore

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestBroken: a database that can't be written says why and what to do, loses
// nothing, is read as before, and takes changes again when it is mended.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct{ harm, mend, says string }{
		"full":      {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", "the disk is full: make room; nothing was changed"},
		"read-only": {"PRAGMA query_only = 1", "PRAGMA query_only = 0", "let this user write the file and its folder; nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop(t, t.TempDir())
			put(t, s, rule("user", "1/s"))
			before := file(t, s).File
			if _, err := s.write.ExecContext(t.Context(), c.harm); err != nil {
				t.Fatal(err)
			}
			var err error
			for i := 0; err == nil && i < 1000; i++ { // until its pages are used up
				text := fmt.Sprintf("- key: k%d # %s\n  limits: [1/s]\n", i, strings.Repeat("x", 10_000))
				_, err = s.Propose(t.Context(), root(), Proposal{Domain: "shop", Text: text})
			}
			if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
			if after := file(t, s).File; after != before {
				t.Error(after)
			}
			if _, err := s.write.ExecContext(t.Context(), c.mend); err != nil {
				t.Fatal(err)
			}
			put(t, s, rule("user", "2/s"))
		})
	}
}

// TestNewerSchema: a database of a newer Weir is left alone, and says so.
func TestNewerSchema(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	for _, place := range []string{t.TempDir(), url} {
		s := shop(t, place)
		if _, err := s.write.ExecContext(t.Context(), `UPDATE weir_schema SET version = 99`); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), place); !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "schema 99, of a newer Weir") {
			t.Error(err)
		}
	}
}

// TestOlderSchema: a database that an older Weir made is brought up to date, with
// all that is in it.
func TestOlderSchema(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	for _, place := range []string{t.TempDir(), url} {
		s := open(t, place)
		ctx := t.Context()
		var all strings.Builder
		for _, made := range regexp.MustCompile(`CREATE (?:UNLOGGED )?TABLE (\w+)`).FindAllStringSubmatch(strings.Join(migrations(), ""), -1) {
			all.WriteString("DROP TABLE " + made[1] + ";\n")
		}
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		run := func(script string) error {
			_, err := tx.ExecContext(ctx, script)
			return err
		}
		if err := errors.Join(run(all.String()), run(s.types.Replace(migrations()[0])), run(`
INSERT INTO domains (name, team, shared, review, indent, bytes, revision, deleted) VALUES ('old', 'mail', 0, 0, 2, 0, 0, 0);
INSERT INTO tokens (id, hash, actor, role, teams, made, expires, revoked, author) VALUES ('abcdefghij', '`+hash("secret")+`', 'ann', 'propose', 'shop', 1, 0, 0, 'root');
INSERT INTO audit VALUES (1, 0, 1, 'root', '', '', 'token.create', '', '', 0, 'ü', ''), (2, 0, 2, 'ann', '', 'shop', 'import', 'shop', '', 0, '', 'no');
UPDATE counters SET audited = 2;
UPDATE weir_schema SET version = 1;
`), tx.Commit()); err != nil {
			t.Fatal(err)
		}
		again := open(t, place)
		if by, err := again.Authenticate(ctx, "weir_abcdefghij_secret"); err != nil || by.Name != "ann" {
			t.Error(by, err)
		}
		if d, err := again.Domain(ctx, "old"); err != nil || d.Public {
			t.Error(d, err)
		}
		if v := verdict(t, again); v.Lines != 2 || len(v.Faults) > 0 {
			t.Error(v)
		}
		testAppendOnly(t, shop(t, place))
		refusedAs(t, second(again.AuthenticateCertificate(ctx, "")), Unknown)
	}
}

// TestPostgresReadOnly: a node whose user may only read starts, and says why it
// changes nothing.
func TestPostgresReadOnly(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	put(t, shop(t, url), rule("user", "1/s"))
	reader := open(t, url+"&default_transaction_read_only=on")
	if got := file(t, reader).File; !strings.Contains(got, "key: user") {
		t.Error(got)
	}
	_, err := reader.Propose(t.Context(), root(), Proposal{Domain: "shop", Text: rule("b", "1/s")})
	if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "it is read-only: name the primary server") {
		t.Error(err)
	}
}
