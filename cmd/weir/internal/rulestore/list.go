package rulestore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Listing asks for rules.
type Listing struct {
	Domain string // of this domain; empty: of all
	Team   string // of this team; empty: of all
	State  State  // Draft, Shadow, Enforced or Disabled: that have such a version; "proposed": of which none is active or disabled; empty: all
	Search string // whose ID or domain has this in it
	Gone   bool   // those that were taken away, too
	// BehindDomain and Behind are the last rule of the page before; empty: from
	// the first.
	BehindDomain, Behind string
	Limit                int // at most so many; 0: MaxPage
}

// Rules lists rules by domain and ID.
func (s *Store) Rules(ctx context.Context, q Listing) (list []Rule, err error) {
	column := map[State]string{Draft: "r.draft > 0", Shadow: "r.shadow > 0", Enforced: "r.enforced > 0 AND r.disabled = 0 AND v.text <> ''", Disabled: "r.disabled > 0", proposed: "r.gone = 0 AND (r.enforced = 0 OR v.text = '')"}[q.State]
	switch {
	case q.State == "":
		column = "1 = 1"
	case column == "":
		return nil, invalid("state", "%q can't be asked for; write proposed, draft, shadow, enforced or disabled", clip(string(q.State)))
	}
	where, args := []string{"(r.domain, r.id) > ($1, $2)", "r.id <> ''", column}, []any{printable(q.BehindDomain, MaxName+1), printable(q.Behind, MaxID+1)}
	add := func(condition, value string) { // only what is asked for, so that an index is found
		if value != "" {
			args = append(args, value)
			where = append(where, strings.ReplaceAll(condition, "$", "$"+strconv.Itoa(len(args))))
		}
	}
	if !q.Gone {
		where = append(where, "r.gone = 0")
	}
	add("r.domain = $", printable(q.Domain, MaxName+1))
	add("r.team = $", printable(q.Team, MaxName+1))
	add("(REPLACE(r.id, $, '') <> r.id OR REPLACE(r.domain, $, '') <> r.domain)", printable(q.Search, MaxID))
	list, err = find(ctx, s.read, scanRule, `SELECT `+ruleColumns+shownText+`
		WHERE `+strings.Join(where, " AND ")+` ORDER BY r.domain, r.id LIMIT `+strconv.Itoa(page(q.Limit)), args...)
	return list, s.failed(err)
}

// shownText is, behind ruleColumns, the text that people see of a rule.
const shownText = `, v.text FROM rules r
		JOIN versions v ON v.domain = r.domain AND v.rule = r.id AND v.number = CASE WHEN r.enforced > 0 THEN r.enforced ELSE r.latest END`

func scanRule(found row) (r Rule, err error) {
	err = found.Scan(append(r.fields(), &r.Text)...)
	return r, err
}

// Rule is one rule, also one that is gone. It fails as NotFound.
func (s *Store) Rule(ctx context.Context, domain, id string) (Rule, error) {
	r, err := scanRule(s.read.QueryRowContext(ctx, `SELECT `+ruleColumns+shownText+`
		WHERE r.domain = $1 AND r.id = $2`, printable(domain, MaxName+1), printable(id, MaxID+1)))
	if isNone(err) {
		return r, notFound("there is no rule %s in domain %s", nameOf(id), clip(domain))
	}
	return r, s.failed(err)
}

// Version is one version of a rule. It fails as NotFound.
func (s *Store) Version(ctx context.Context, domain, rule string, number int64) (Version, error) {
	v, err := findVersion(ctx, s.read, domain, rule, number)
	return v, s.failed(err)
}

// Versions lists the versions of a rule, the newest first: those under before
// (0: from the newest), at most limit (0: MaxPage).
func (s *Store) Versions(ctx context.Context, domain, rule string, before int64, limit int) (list []Version, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	list, err = versions(ctx, s.read, `FROM versions v WHERE v.domain = $1 AND v.rule = $2 AND v.number < $3 ORDER BY v.number DESC LIMIT $4`,
		printable(domain, MaxName+1), printable(rule, MaxID+1), before, page(limit))
	return list, s.failed(err)
}

// Document is a domain with its file in force, as it was at one moment.
type Document struct {
	Domain

	File string // as it was written
	// Candidate is the file with all versions in shadow in their places; empty:
	// nothing is in shadow.
	Candidate string
	Trials    []Trial   // in the order of the file
	Overrides Overrides // also those that have ended
}

// Trial is a version in shadow.
type Trial struct {
	Rule    string
	Version int64
	Beside  int64  // the version that is active; 0: none
	Text    string // empty: the rule would be taken away
}

// Document is a domain's file. It fails as NotFound.
func (s *Store) Document(ctx context.Context, domain string) (Document, error) {
	var list []Document
	err := s.look(ctx, func(tx *sql.Tx) error {
		d, err := findDomain(ctx, tx, domain)
		if err != nil {
			return err
		}
		list, err = documents(ctx, tx, []Domain{d}, d.Name)
		return err
	})
	if err != nil {
		return Document{}, err
	}
	return list[0], nil
}

// documents reads what is active and in shadow of domains that are sorted by
// name; only names the one there is, or is empty.
func documents(ctx context.Context, q queryer, domains []Domain, only string) ([]Document, error) {
	list := make([]Document, len(domains))
	at := map[string]*Document{}
	for i, d := range domains {
		list[i].Domain = d
		at[d.Name] = &list[i]
	}
	if err := readTexts(ctx, q, at, only); err != nil {
		return nil, err
	}
	return list, readOverrides(ctx, q, at, only)
}

// readTexts puts the files of documents together.
func readTexts(ctx context.Context, q queryer, at map[string]*Document, only string) error {
	and, args := "", []any(nil)
	if only != "" { // said so that an index is found
		and, args = " AND d.name = $1", []any{only}
	}
	var f files
	err := each(ctx, q, func(found row) error {
		var domain string
		var p part
		err := found.Scan(&domain, &p.trial.Rule, &p.trial.Version, &p.trial.Text, &p.indent, &p.shadow)
		d := at[domain]
		if err != nil || d == nil {
			return err
		}
		if d != f.document {
			f.end()
			f = files{document: d}
		}
		f.add(p)
		return nil
	}, `SELECT v.domain, v.rule, v.number, v.text, d.indent, v.number = r.shadow FROM domains d
		JOIN rules r ON r.domain = d.name AND r.gone = 0 AND (r.enforced > 0 AND r.disabled = 0 OR r.shadow > 0)
		JOIN versions v ON v.domain = r.domain AND v.rule = r.id AND (v.number = r.enforced AND r.disabled = 0 OR v.number = r.shadow)
		WHERE d.deleted = 0`+and+` ORDER BY v.domain, v.place, v.rule`, args...)
	f.end()
	return err
}

// files are those of one document, while they are put together.
type files struct {
	document *Document
	parts    []part
}

type part struct {
	trial  Trial
	indent int
	shadow bool
}

func (f *files) add(p part) {
	f.parts = append(f.parts, p)
	if p.shadow {
		f.document.Trials = append(f.document.Trials, p.trial)
	}
}

// end writes the file in force, and the one with what is in shadow.
func (f *files) end() {
	if f.document == nil {
		return
	}
	tried := map[string]*Trial{}
	for i := range f.document.Trials {
		tried[f.document.Trials[i].Rule] = &f.document.Trials[i]
	}
	var file, candidate strings.Builder
	for _, p := range f.parts {
		indent := p.indent
		if p.trial.Rule == Frame {
			indent = 0
		}
		trial := tried[p.trial.Rule]
		if !p.shadow {
			writeIndented(&file, p.trial.Text, indent)
			if trial != nil {
				trial.Beside = p.trial.Version
			}
		}
		if p.shadow || trial == nil {
			writeIndented(&candidate, p.trial.Text, indent)
		}
	}
	f.document.File = file.String()
	if len(tried) > 0 {
		f.document.Candidate = candidate.String()
	}
}
