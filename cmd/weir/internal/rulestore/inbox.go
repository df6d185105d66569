package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Waiting is a thing that waits for a person. The API gives it as it is.
type Waiting struct {
	Kind    string `json:"kind"` // one of the kinds below
	Domain  string `json:"domain,omitempty"`
	Rule    string `json:"rule,omitempty"`    // empty: all of the domain, or a token
	Version int64  `json:"version,omitempty"` // to be enforced or disabled; 0: none
	State   State  `json:"state,omitempty"`   // of the version
	// Actor is the person that proposed or asked, or opened or tightened alone; of a token its holder.
	Actor  string    `json:"actor"`
	Since  time.Time `json:"since"`          // UTC, in microseconds
	Until  time.Time `json:"until,omitzero"` // when it ends by itself; zero: never
	Reason string    `json:"reason,omitempty"`
	Held   string    `json:"held,omitempty"` // why the guard last refused to enforce the version; empty: it did not
	// Added and Removed are lines of the rule that would come and go; changes.Inbox counts them.
	Added   int64  `json:"added"`
	Removed int64  `json:"removed"`
	Percent int64  `json:"percent,omitempty"` // of each limit that passes, of an override; 0: they are open
	Token   string `json:"token,omitempty"`   // Token.ID
	// Exception is Exception.ID of one that was set alone.
	Exception string   `json:"exception,omitempty"`
	Comments  int64    `json:"comments"` // on the version
	Last      *Comment `json:"last_comment,omitempty"`

	Before, After string `json:"-"` // the text of the rule now, and then; empty: there is none
}

// The kinds of things that wait.
const (
	ToPublish = "publish" // a version is proposed in a domain under review, or the guard refused it
	ToDisable = "disable" // somebody asks to disable a version
	ToConfirm = "confirm" // somebody opened or tightened limits or set an exception alone, in a domain under review
	ToRenew   = "token"   // a token ends soon, and its holder has no other one like it
)

// Inbox is what waits for people.
type Inbox struct {
	ForMe     []Waiting `json:"for_me"`     // the actor may do it
	ForOthers []Waiting `json:"for_others"` // the actor asks for it, and others have to do it
	More      bool      `json:"more"`       // one of the lists has more than MaxInbox, and the newest are left out
}

// MaxInbox is how many things a list of an inbox has.
const MaxInbox = 100

// Inbox lists what waits for an actor, and what of its own waits for others, each the oldest first.
func (s *Store) Inbox(ctx context.Context, by Actor) (Inbox, error) {
	in := Inbox{ForMe: []Waiting{}, ForOthers: []Waiting{}} // not nil, which would be null
	err := s.look(ctx, func(tx *sql.Tx) error {
		for _, list := range []*[]Waiting{&in.ForMe, &in.ForOthers} {
			for _, w := range by.waits(list == &in.ForOthers) {
				found, err := find(ctx, tx, w.scan, `SELECT `+w.columns+w.from+` ORDER BY since LIMIT `+strconv.Itoa(MaxInbox+1), w.args...)
				if err != nil {
					return err
				}
				*list = append(*list, found...)
			}
			ending, err := tokensWaiting(ctx, tx, by, list == &in.ForOthers)
			if err != nil {
				return err
			}
			*list = append(*list, ending...)
			slices.SortStableFunc(*list, func(a, b Waiting) int {
				return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule))
			})
			if len(*list) > MaxInbox {
				*list, in.More = (*list)[:MaxInbox], true
			}
		}
		return nil
	})
	return in, err
}

// InboxCount is how many things wait for an actor: MaxInbox+1 stands for more than MaxInbox.
func (s *Store) InboxCount(ctx context.Context, by Actor) (n int64, err error) {
	for _, w := range by.waits(false) {
		if n > MaxInbox {
			break
		}
		some, err := count(ctx, s.read, `(SELECT 1 AS one`+w.from+` LIMIT `+strconv.Itoa(MaxInbox+1)+`) AS things`, "", w.args...)
		if err != nil {
			return 0, s.failed(err)
		}
		n += some
	}
	ending, err := tokensWaiting(ctx, s.read, by, false)
	return min(n+int64(len(ending)), MaxInbox+1), s.failed(err)
}

// waits is a query for things that wait: columns that scan reads, one of them since, and where they come from.
type waits struct {
	columns, from string
	args          []any
	scan          func(row) (Waiting, error)
}

// waits is the queries for what waits for an actor, or with mine what of its own waits for others.
func (a *Actor) waits(mine bool) []waits {
	if !mine && a.Role < Publish {
		return nil
	}
	me := []any{personOf(a.Name)}
	among, args := a.among(Publish, me)
	toPublish := args
	may := `(r.team` + among + ` OR d.team` + among + `) AND (v.team = r.team OR v.team` + among + ` OR d.team` + among + `)`
	publish, disable, confirm := samePersons(`v.author`, true), samePersons(`r.disabling`, true), samePersons(`o.author`, true)
	switch {
	case mine: // what is held up, and the actor may publish, waits for the actor
		toPublish, args = args, me
		publish += ` AND (d.review = 1 OR NOT (` + may + `))`
	default:
		publish = `(d.review = 0 OR ` + samePersons(`v.author`, false) + `) AND ` + may
		disable = samePersons(`r.disabling`, false) + ` AND (r.team` + among + ` OR d.team` + among + `)`
		confirm = samePersons(`o.author`, false) + ` AND (r.team` + among + ` OR d.team` + among + `)`
	}
	return []waits{
		versionsWait(ToPublish, `v.author, v.made AS since, v.reason, COALESCE(h.refused, ''), v.text`, `v.number IN (r.draft, r.shadow)`,
			`(d.review = 1 OR h.seq IS NOT NULL) AND `+publish, toPublish),
		versionsWait(ToDisable, `r.disabling, `+lastAt(`a.domain = r.domain AND a.rule = r.id`, `'disable.asked'`)+` AS since, r.disabling_reason, '', ''`,
			`v.number = r.enforced AND r.disabling <> ''`, disable, args),
		doneAlone(`overrides`, lastAt(`a.domain = o.domain AND a.rule = o.rule`, `'open.unreviewed', 'tighten.unreviewed'`), `o.percent, ''`, confirm, args),
		doneAlone(`exceptions`, `o.made`, `0, o.id`, confirm, args),
	}
}

// doneAlone is what one person did alone in a domain under review: rows of a table, since when, and what they did, as percent and exception.
func doneAlone(table, since, what, where string, args []any) waits {
	return waits{
		`o.domain, o.rule, o.author, ` + since + ` AS since, o.ends, o.reason, ` + what,
		` FROM ` + table + ` o JOIN domains d ON d.name = o.domain AND d.deleted = 0 AND d.review = 1
			JOIN rules r ON r.domain = o.domain AND r.id = o.rule
			WHERE o.unreviewed = 1 AND o.ends > ` + strconv.FormatInt(time.Now().UnixMicro(), 10) + ` AND ` + where,
		args, scanAlone,
	}
}

// lastAt is the time of the last of some actions in the audit.
func lastAt(of, actions string) string {
	return `COALESCE((SELECT MAX(a.at) FROM audit a WHERE ` + of + ` AND a.action IN (` + actions + `) AND a.refused = ''), 0)`
}

// versionsWait is the versions of rules that are found by a condition on, and where.
func versionsWait(kind, columns, on, where string, args []any) waits {
	const (
		ofVersion = `domain = v.domain AND c.rule = v.rule AND c.version = v.number`
		comments  = ` FROM audit c WHERE c.` + ofVersion + ` AND ` + isComment
	)
	return waits{
		`v.domain, v.rule, v.number, v.state, ` + columns + `, COALESCE(b.text, ''), (SELECT COUNT(*)` + comments + `),
			COALESCE(l.seq, 0), COALESCE(l.at, 0), COALESCE(l.actor, ''), COALESCE(l.reason, '')`,
		` FROM rules r JOIN domains d ON d.name = r.domain AND d.deleted = 0
			JOIN versions v ON v.domain = r.domain AND v.rule = r.id AND ` + on + `
			LEFT JOIN versions b ON b.domain = r.domain AND b.rule = r.id AND b.number = r.enforced
			LEFT JOIN audit h ON h.seq = (SELECT MAX(c.seq) FROM audit c WHERE c.` + ofVersion + ` AND c.action = 'enforce.held')
			LEFT JOIN audit l ON l.seq = (SELECT MAX(c.seq)` + comments + `)
			WHERE (r.draft > 0 OR r.shadow > 0 OR r.disabling <> '') AND r.id <> '' AND ` + where,
		args, func(found row) (Waiting, error) { return scanVersionWaiting(kind, found) },
	}
}

func scanVersionWaiting(kind string, found row) (Waiting, error) {
	w := Waiting{Kind: kind}
	var since, at int64
	var last Comment
	err := found.Scan(&w.Domain, &w.Rule, &w.Version, &w.State, &w.Actor, &since, &w.Reason, &w.Held, &w.After, &w.Before,
		&w.Comments, &last.Line, &at, &last.Author, &last.Text)
	w.Since = moment(since)
	if last.Line > 0 {
		last.At = moment(at)
		w.Last = &last
	}
	return w, err
}

func scanAlone(found row) (Waiting, error) {
	w := Waiting{Kind: ToConfirm}
	var since, ends int64
	err := found.Scan(&w.Domain, &w.Rule, &w.Actor, &since, &ends, &w.Reason, &w.Percent, &w.Exception)
	w.Since, w.Until = moment(since), moment(ends)
	return w, err
}

// tokensWaiting is the tokens that end soon and that the actor may renew, or with mine its own that it may not. One whose holder has another
// one like it, which goes on, waits for nobody.
func tokensWaiting(ctx context.Context, q queryer, by Actor, mine bool) (list []Waiting, err error) {
	if !mine && by.Role < Admin {
		return nil, nil
	}
	now := time.Now()
	args, where := []any{now.UnixMicro(), now.Add(EndNotice).UnixMicro()}, ""
	if mine {
		args, where = append(args, personOf(by.Name)), ` AND LOWER(k.actor) = $3`
	}
	found, err := find(ctx, q, scanToken, `SELECT `+tokenColumns+` FROM tokens k WHERE revoked = 0 AND expires > $1 AND expires <= $2`+where+`
		AND NOT EXISTS (SELECT 1 FROM tokens o WHERE LOWER(o.actor) = LOWER(k.actor) AND o.role = k.role AND o.teams = k.teams AND o.revoked = 0 AND (o.expires = 0 OR o.expires > $2))
		ORDER BY expires, id`, args...)
	for i := range found {
		k := &found[i]
		if renews := by.Role >= Admin && by.mayEnd(k) == nil; renews == mine {
			continue
		}
		list = append(list, Waiting{Kind: ToRenew, Actor: k.Actor, Since: k.Expires.Add(-EndNotice), Until: k.Expires, Token: k.ID})
	}
	return list, err
}
