package daemon

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/rules"
)

// BenchmarkPages is how long pages take when a database has 1,000 domains, 100,000 rules that all have met requests, and the
// traffic that 50 nodes have told in 30 days, or with SQLite one; with few domains, as when all benchmarks are run, less of each.
func BenchmarkPages(b *testing.B) {
	for _, database := range []struct {
		name, driver string
		open         func(b *testing.B) (data, source string)
	}{
		{"sqlite", "sqlite", func(b *testing.B) (string, string) {
			b.Helper()
			dir := b.TempDir()
			return dir, filepath.Join(dir, rulestore.File)
		}},
		{"postgres", "pgx", func(b *testing.B) (string, string) {
			b.Helper()
			b.Setenv("XDG_CACHE_HOME", b.TempDir())
			url := postgrestest.Start(b).Database(b)
			return url, url
		}},
	} {
		b.Run(database.name, func(b *testing.B) {
			data, source := database.open(b)
			domains := manyDomains(b)
			fillPages(b, data, domains)
			db := direct{b, database.driver}
			db.fill(source, domains)
			d, admin := startBench(b, Config{Data: data, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", LameDuck: time.Millisecond})
			meetAll(b, d, domains)
			benchPages(b, d, admin)
		})
	}
}

// imported is how many domains are imported; the others are copies of the last one.
const imported = 10

// fillPages imports domains with 100 rules each; one rule with 100 versions, one domain that is tightened, and domains that were taken away.
func fillPages(b *testing.B, data string, domains int) {
	b.Helper()
	s := importMany(b, data, imported)
	for n := range 100 {
		r, err := s.Rule(b.Context(), "d0000", "path=/service/0")
		if err == nil {
			_, err = s.Propose(b.Context(), root(), rulestore.Proposal{
				Domain: "d0000", Text: fmt.Sprintf("- key: path\n  value: /service/0\n  owner: team0\n  limits: [%d/s burst 200]\n", 101+n),
				Rule: r.ID, Match: r.Revision, To: rulestore.Enforced, Reason: "a benchmark",
			})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Override(b.Context(), root(), rulestore.Override{Domain: "d0008", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "a benchmark"}); err != nil {
		b.Fatal(err)
	}
	for i := range domains / 5 { // also a page of them, if there are many
		d, err := s.CreateDomain(b.Context(), root(), rulestore.NewDomain{Name: fmt.Sprintf("gone%04d", i), Team: "team0"}, "a benchmark")
		if err == nil {
			err = s.DeleteDomain(b.Context(), root(), rulestore.Removal{Domain: d.Name, Confirm: d.Name, Match: d.Revision, Reason: "a benchmark"})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// direct writes into a database, past the store: an import of 100,000 rules takes minutes.
type direct struct {
	*testing.B

	driver string
}

// fill copies domains until there are enough, with their rules, versions and lines of the audit, and puts in what nodes tell that have seen 256 rules
// each, all of them others, and the sums of all domains: for 30 days, a row for each step that is kept, in the order of time.
func (d direct) fill(source string, domains int) {
	d.Helper()
	db, err := sql.Open(d.driver, source)
	if err != nil {
		d.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			d.Error(err)
		}
	}()
	db.SetMaxOpenConns(1)
	do := func(statement string) {
		if _, err := db.ExecContext(d.Context(), statement); err != nil {
			d.Fatal(err, statement)
		}
	}
	// A database takes so many rows faster without its care for each.
	names := `WITH RECURSIVE d(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM d WHERE n + 1 < %d), names(domain) AS (SELECT 'd' || SUBSTR('000' || n, -4) FROM d) `
	before, after := []string{`PRAGMA synchronous = off`, `PRAGMA cache_size = -2000000`}, []string{`PRAGMA wal_checkpoint(truncate)`}
	parts, seen := "(''), ('/path=/service/3')", "domain < 'd0256'" // one node
	if d.driver == "pgx" {
		names = `WITH d(n) AS (SELECT generate_series(%d, %d - 1)), names(domain) AS (SELECT 'd' || LPAD(n::text, 4, '0') FROM d) `
		before = []string{`ALTER TABLE traffic DROP CONSTRAINT traffic_pkey`, `DROP INDEX traffic_age`}
		after = []string{`ALTER TABLE traffic ADD PRIMARY KEY (domain, rule, shadow, step, began)`, `CREATE INDEX traffic_age ON traffic (step, began)`, `ANALYZE`}
		parts, seen = "('')", "1 = 1"
		for i := range 50 * 256 / 1000 { // of each domain
			parts += fmt.Sprintf(", ('/path=/service/%d')", i)
		}
	}
	began := time.Now()
	for _, statement := range before {
		do(statement)
	}
	if domains > imported {
		last := fmt.Sprintf("d%04d", imported-1)
		for table, columns := range map[string]string{
			"domains":  "name, team, shared, review, public, indent, bytes, revision, deleted",
			"rules":    "domain, id, team, latest, draft, shadow, enforced, disabled, gone, revision, disabling, disabling_reason",
			"versions": "domain, rule, number, state, text, place, base, author, team, reason, made, revision",
			"audit":    "domain, seq, revision, at, actor, token, team, action, rule, version, reason, refused, teams, address, prior, hash",
		} {
			key, rest, _ := strings.Cut(columns, ", ")
			rest = strings.Replace(rest, "text", "REPLACE(text, '"+last+"', names.domain)", 1)
			if table == "audit" {
				rest = strings.Replace(rest, "seq", "(SELECT MAX(seq) FROM audit) + ROW_NUMBER() OVER (ORDER BY names.domain, seq)", 1)
			}
			do(fmt.Sprintf(names+`INSERT INTO %s (%s) SELECT names.domain, %s FROM names, %s t WHERE t.%s = '%s'`, imported, domains, table, columns, rest, table, key, last))
		}
		do(`UPDATE counters SET audited = (SELECT MAX(seq) FROM audit)`)
	}
	for _, g := range rulestore.Grains() {
		for at := began.Add(-g.Kept).Truncate(g.Step); at.Before(began); at = at.Add(g.Step) {
			do(fmt.Sprintf(names+`, parts(rule) AS (VALUES `+parts+`)
				INSERT INTO traffic (domain, rule, shadow, step, began, passed, denied)
				SELECT domain, CASE WHEN parts.rule = '' THEN '' ELSE domain || parts.rule END, 0, %d, %d, 1000, 10 FROM names, parts WHERE parts.rule = '' OR `+seen,
				0, domains, g.Step.Microseconds(), at.UnixMicro()))
		}
	}
	for _, statement := range after {
		do(statement)
	}
	var rows, lines int64
	if err := db.QueryRowContext(d.Context(), `SELECT (SELECT COUNT(*) FROM traffic), (SELECT COUNT(*) FROM audit)`).Scan(&rows, &lines); err != nil {
		d.Fatal(err)
	}
	d.Logf("%d rows of traffic and %d lines of the audit, made in %v", rows, lines, time.Since(began).Round(time.Second))
}

// meetAll sends a request to each rule.
func meetAll(b *testing.B, d *Daemon, domains int) {
	b.Helper()
	for i := range domains {
		for j := range 100 {
			q := rules.Request{Domain: fmt.Sprintf("d%04d", i), Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "path", Value: fmt.Sprintf("/service/%d", j)}}, Cost: 1}}}
			if _, err := d.limiter.Check(b.Context(), &q); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchPages(b *testing.B, d *Daemon, admin string) {
	b.Helper()
	_, token, err := d.feed.Store().CreateToken(b.Context(), root(), rulestore.Token{Actor: "ann", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}, "a benchmark")
	if err != nil {
		b.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	r, err := browser.PostForm("http://"+admin+"/ui/sign-in", url.Values{"token": {token}}) //nolint:noctx // a benchmark ends with its daemon
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		b.Fatal(err)
	}
	const rule = "domain=d0000&rule=path%3D%2Fservice%2F0"
	for _, page := range []struct{ name, path string }{
		{"domains", "/ui/"},
		{"domains-last", "/ui/?behind=d0898"},
		{"rules", "/ui/rules?domain=d0007"},
		{"rules-tightened", "/ui/rules?domain=d0008"},
		{"search", "/ui/rules?search=service/99"},
		{"search-nothing", "/ui/rules?search=nowhere"},
		{"rule", "/ui/rule?" + rule},
		{"history", "/ui/history?" + rule},
		{"audit", "/ui/audit"},
		{"audit-old", "/ui/audit?before=200"},
		{"audit-domain", "/ui/audit?domain=d0007"},
		{"deletions", "/ui/deletions"},
		{"teams", "/ui/teams"},
		{"traffic", "/ui/traffic"},
		{"chart-rule-30d", "/ui/traffic?domain=d0007&rule=d0007/path%3D/service/3&span=30d"},
		{"chart-domain-30d", "/ui/traffic?domain=d0007&span=30d"},
		{"chart-domain-24h", "/ui/traffic?domain=d0007&span=24h"},
		{"chart-domain-1h", "/ui/traffic?domain=d0007&span=1h"},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				if text, err := visit(b.Context(), browser, "http://"+admin+page.path); err != nil {
					b.Fatal(err, text)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// visit reads a page whole.
func visit(ctx context.Context, browser *http.Client, page string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	r, err := browser.Do(q)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || r.Request.URL.Path != q.URL.Path) {
		err = fmt.Errorf("%s: %s", page, r.Status)
	}
	return string(text), err
}
