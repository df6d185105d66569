package rulestore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Message is what a webhook is told: a line of the audit, or a Notice. As JSON it is what is sent.
type Message struct {
	ID      string    `json:"id"`   // the same at each try
	Kind    string    `json:"type"` // one of MessageKinds, or ping
	At      time.Time `json:"at"`   // when it happened; UTC, in microseconds
	Text    string    `json:"text"` // all of it in words
	Line    int64     `json:"line,omitempty"`
	Action  string    `json:"action"` // Event.Action, or Notice.Kind
	Domain  string    `json:"domain,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Version int64     `json:"version,omitempty"`
	Actor   string    `json:"actor,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Refused string    `json:"refused,omitempty"` // why the guard refused it

	done cursor // of the webhook when it is delivered
}

// cursor is how far a webhook was told.
type cursor struct{ audited, noticed int64 }

// Ping is the message of a test.
const Ping = "ping"

// outboxBatch is how many lines of the audit are read at a time for a webhook.
const outboxBatch = 100

// told is the actions of which webhooks are told, by the kinds of their messages. A message is of the first kind that a webhook wants.
func told() map[string][]string {
	return map[string][]string{
		"enforce": {TellPublish}, "enforce.forced": {TellPublish}, "disable": {TellPublish}, "disable.forced": {TellPublish}, "domain.delete": {TellPublish}, "domain.restore": {TellPublish},
		"open": {TellOverride}, "open.unreviewed": {TellOverride, TellReview}, "tighten": {TellOverride}, "tighten.unreviewed": {TellOverride, TellReview}, "override.end": {TellOverride},
		exceptionSet: {TellOverride}, exceptionSet + ".unreviewed": {TellOverride, TellReview}, exceptionImport: {TellOverride}, exceptionImport + ".unreviewed": {TellOverride, TellReview}, exceptionEnd: {TellOverride},
		Held: {TellGuard}, "propose": {TellReview}, "shadow": {TellReview}, "disable.asked": {TellReview}, commented: {TellComment},
		NearLimit: {TellLimit}, Denying: {TellLimit}, TokenEnding: {TellToken}, OverrideOver: {TellOverride},
	}
}

// kind is what a webhook calls a message about an action; empty: it does not want it.
func (w *Webhook) kind(action string) string {
	for _, kind := range told()[action] {
		if len(w.Kinds) == 0 || slices.Contains(w.Kinds, kind) {
			return kind
		}
	}
	return ""
}

// Keys are the secrets that sign what a webhook is sent at a time, as bytes.
func (w *Webhook) Keys(now time.Time) (keys [][]byte) {
	for _, secret := range []string{w.secret, w.old} {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err == nil && len(key) > 0 && (secret == w.secret || now.Before(w.oldUntil)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Target is the whole URL. It may be a secret.
func (w *Webhook) Target() string { return w.url }

// Outbox is what a webhook is to be told next, the oldest first. Lines that are not for it count as told.
func (s *Store) Outbox(ctx context.Context, w *Webhook) (list []Message, err error) {
	at := cursor{w.audited, w.noticed}
	err = s.look(ctx, func(tx *sql.Tx) error {
		var end cursor
		if err := tx.QueryRowContext(ctx, `SELECT audited, noticed FROM counters`).Scan(&end.audited, &end.noticed); err != nil {
			return err
		}
		lines, upTo, err := outboxLines(ctx, tx, w)
		if err != nil {
			return err
		}
		for _, m := range lines {
			at.audited = m.Line
			m.done = at
			list = append(list, m)
		}
		if upTo > 0 {
			at.audited = upTo
			return nil
		}
		at.audited = end.audited
		notices, last, err := outboxNotices(ctx, tx, w)
		for _, m := range notices {
			at.noticed = m.done.noticed
			m.done = at
			list = append(list, m)
		}
		if at.noticed = last; last == 0 {
			at.noticed = end.noticed
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(list); n > 0 {
		list[n-1].done = at
		return list, nil
	}
	if at == (cursor{w.audited, w.noticed}) {
		return nil, nil
	}
	_, err = s.write.ExecContext(ctx, `UPDATE webhooks SET audited = $2, noticed = $3 WHERE id = $1 AND audited <= $2 AND noticed <= $3`, w.ID, at.audited, at.noticed)
	return nil, s.failed(err)
}

// ofTeam is the condition that a line is for a webhook's team: that whose thing it was, or that of the domain, when the line was written. A team
// that makes a domain anew, or is given it, is told nothing of what was before.
func ofTeam() string {
	return ` AND ($2 = '*' OR a.team = $2 OR COALESCE((SELECT o.team FROM audit o WHERE o.domain = a.domain AND o.rule = '' AND o.seq <= a.seq AND o.refused = ''
		AND o.action IN ('` + strings.Join(domainActions(), `', '`) + `') ORDER BY o.seq DESC LIMIT 1), d.team) = $2)`
}

// outboxLines is lines of the audit that a webhook is to be told of, up to a line; 0: to the last.
func outboxLines(ctx context.Context, q queryer, w *Webhook) (list []Message, upTo int64, err error) {
	var actions []string
	for action := range told() {
		if w.kind(action) != "" {
			actions = append(actions, "'"+action+"'")
		}
	}
	if len(actions) == 0 {
		return nil, 0, nil
	}
	slices.Sort(actions)
	err = each(ctx, q, func(found row) error {
		var l line
		err := l.scan(found)
		upTo = l.Seq
		list = append(list, l.message(w))
		return err
	}, `SELECT a.seq, a.at, a.actor, a.action, a.domain, a.rule, a.version, a.reason, a.refused, COALESCE(v.text, '-') = '',
			EXISTS (SELECT 1 FROM audit o WHERE o.domain = a.domain AND o.rule = a.rule AND o.seq < a.seq AND o.version > a.version AND o.refused = '' AND o.action IN ('enforce', 'enforce.forced'))
		FROM audit a LEFT JOIN domains d ON d.name = a.domain LEFT JOIN versions v ON v.domain = a.domain AND v.rule = a.rule AND v.number = a.version
		WHERE a.seq > $1 AND a.action IN (`+strings.Join(actions, ", ")+`) AND (a.refused = '' OR a.action = 'enforce.held')
			AND (a.action NOT IN ('propose', 'shadow') OR d.review = 1 AND a.rule <> '')`+ofTeam()+`
		ORDER BY a.seq LIMIT `+strconv.Itoa(outboxBatch), w.audited, w.Team)
	if len(list) < outboxBatch {
		upTo = 0
	}
	return list, upTo, err
}

// line is a line of the audit, and what else a message needs.
type line struct {
	Event

	removal, back bool // what it enforced has no text; it was active before a newer one was
}

func (l *line) scan(found row) error {
	var at int64
	err := found.Scan(&l.Seq, &at, &l.Actor, &l.Action, &l.Domain, &l.Rule, &l.Version, &l.Reason, &l.Refused, &l.removal, &l.back)
	l.At = moment(at)
	return err
}

// message is what a webhook is told of the line.
func (l *line) message(w *Webhook) Message {
	return Message{
		ID: messageID(w, "a", l.Seq), Kind: w.kind(l.Action), At: l.At, Line: l.Seq, Action: l.Action, Domain: l.Domain, Rule: l.Rule, Version: l.Version,
		Actor: l.Actor, Reason: l.Reason, Refused: l.Refused, Text: l.words(),
	}
}

// messageID is the same whenever and by whichever node a message is sent.
func messageID(w *Webhook, of string, n int64) string {
	return fmt.Sprintf("msg_%s_%s%d", w.ID, of, n)
}

// words is the line as a sentence.
func (l *line) words() string {
	what := "domain " + l.Domain
	if l.Rule != "" {
		what = "rule " + nameOf(l.Rule) + " of " + what
	} else if l.Version > 0 {
		what = "the text before the rules of " + what
	}
	version := fmt.Sprintf("version %d of %s", l.Version, what)
	did := map[string]string{
		"enforce": "published " + version, "disable": "disabled " + version, "domain.delete": "took " + what + " away", "domain.restore": "restored " + what,
		"open": "opened limits of " + what, "tighten": "tightened limits of " + what, "override.end": "ended what was opened or tightened of " + what,
		Held: "tried to publish " + version + ", and the guard refused it", "propose": "proposes " + version, "shadow": "runs " + version + " in shadow, to be published by another person",
		exceptionSet: "set an exception of " + what, exceptionImport: "imported exceptions of " + what, exceptionEnd: "ended an exception of " + what,
		"disable.asked": "asks to disable " + version + "; another person has to do it", commented: "says of " + version,
	}
	action := strings.TrimSuffix(strings.TrimSuffix(l.Action, ".forced"), ".unreviewed")
	text := did[action]
	switch {
	case action == "enforce" && l.removal:
		text = "took " + what + " away"
	case action == "enforce" && l.back:
		text = "rolled back to " + version
	}
	if strings.HasSuffix(l.Action, ".forced") {
		text += ", although the guard objected"
	}
	if strings.HasSuffix(l.Action, ".unreviewed") {
		text += " alone; another person has to confirm it"
	}
	text = l.Actor + " " + text
	if l.Reason != "" {
		text += ": " + l.Reason
	}
	if l.Refused != "" {
		text += ". It was refused: " + l.Refused
	}
	return text
}

// outboxNotices is notices that a webhook is to be told of, up to a number; 0: to the last.
func outboxNotices(ctx context.Context, q queryer, w *Webhook) (list []Message, upTo int64, err error) {
	read := 0
	err = each(ctx, q, func(found row) error {
		var n Notice
		var seq, told int64
		var teams string
		if err := found.Scan(&seq, &n.Kind, &n.Domain, &n.Rule, &told, &n.Detail, &teams); err != nil {
			return err
		}
		read, upTo = read+1, seq
		m := Message{ID: messageID(w, "n", seq), Kind: w.kind(n.Kind), At: moment(told), Action: n.Kind, Domain: n.Domain, Rule: n.Rule, Text: n.words(), done: cursor{noticed: seq}}
		if m.Kind != "" && (w.Team == AllTeams || slices.Contains(strings.Fields(teams), w.Team)) {
			list = append(list, m)
		}
		return nil
	}, `SELECT a.seq, a.kind, a.domain, a.rule, a.told, a.detail, a.teams FROM notices a
		WHERE a.seq > $1 ORDER BY a.seq LIMIT `+strconv.Itoa(MaxPage), w.noticed)
	if read < MaxPage {
		upTo = 0
	}
	return list, upTo, err
}

// lockNotices has a transaction be alone among those that write notices: two nodes then wait for each other at one place, tell
// nothing twice, and no notice appears behind one that was told already.
func lockNotices(ctx context.Context, t *sql.Tx) error {
	_, err := t.ExecContext(ctx, `UPDATE counters SET noticed = noticed`)
	return err
}

// Delivered writes down a try to deliver a message that succeeded: the webhook goes on with the next.
func (s *Store) Delivered(ctx context.Context, w *Webhook, m *Message, d Delivery) error {
	return s.tried(ctx, w, d, `UPDATE webhooks SET audited = $2, noticed = $3, failed = 0, error = '', next_try = 0 WHERE id = $1 AND audited <= $2 AND noticed <= $3`,
		w.ID, m.done.audited, m.done.noticed)
}

// Undelivered writes down a try that failed, and when the next is.
func (s *Store) Undelivered(ctx context.Context, w *Webhook, d Delivery, next time.Time) error {
	return s.tried(ctx, w, d, `UPDATE webhooks SET failed = failed + 1, error = $2, next_try = $3 WHERE id = $1`, w.ID, printable(d.Error, maxRefused), next.UnixMicro())
}

// GiveUp leaves messages out that could not be delivered, up to m. The webhook is tried with the next one when it would have been with these.
func (s *Store) GiveUp(ctx context.Context, w *Webhook, m *Message, messages int64) error {
	_, err := s.write.ExecContext(ctx, `UPDATE webhooks SET audited = $2, noticed = $3, given_up = given_up + $4 WHERE id = $1 AND audited <= $2 AND noticed <= $3`,
		w.ID, m.done.audited, m.done.noticed, messages)
	return s.failed(err)
}

// Pinged writes down a test.
func (s *Store) Pinged(ctx context.Context, w *Webhook, d Delivery) error {
	return s.tried(ctx, w, d, "")
}

func (s *Store) tried(ctx context.Context, w *Webhook, d Delivery, update string, args ...any) error {
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		if update != "" {
			if _, err := t.ExecContext(ctx, update, args...); err != nil {
				return err
			}
		}
		_, err := t.ExecContext(ctx, `INSERT INTO deliveries (webhook, at, message, kind, status, error, tries, millis)
			SELECT id, CAST($2 AS BIGINT), $3, $4, CAST($5 AS BIGINT), $6, CAST($7 AS BIGINT), CAST($8 AS BIGINT) FROM webhooks WHERE id = $1 ON CONFLICT (webhook, at) DO NOTHING`,
			w.ID, d.At.UnixMicro(), d.Message, d.Kind, d.Status, printable(d.Error, maxRefused), d.Tries, d.Millis)
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `DELETE FROM deliveries WHERE webhook = $1 AND at < (SELECT MIN(l.at) FROM (SELECT at FROM deliveries WHERE webhook = $1 ORDER BY at DESC LIMIT `+strconv.Itoa(keptDeliveries)+`) AS l)`, w.ID)
		return err
	}))
}

// Lease makes holder the one of its kind for a time, unless another one is. It is renewed by asking again.
func (s *Store) Lease(ctx context.Context, name, holder string, long time.Duration) (held bool, err error) {
	done, err := s.write.ExecContext(ctx, fmt.Sprintf(`INSERT INTO leases (name, holder, until) VALUES ($1, $2, %[1]s + $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE leases.holder = excluded.holder OR leases.until < %[1]s`, s.clock),
		name, printable(holder, MaxName), long.Microseconds())
	if err != nil {
		return false, s.failed(err)
	}
	n, err := done.RowsAffected()
	return n > 0, s.failed(err)
}

// EndLease lets another one hold a lease at once.
func (s *Store) EndLease(ctx context.Context, name, holder string) error {
	_, err := s.write.ExecContext(ctx, `DELETE FROM leases WHERE name = $1 AND holder = $2`, name, printable(holder, MaxName))
	return s.failed(err)
}

// Notice is what webhooks are told and the audit has not, because nobody did it.
type Notice struct {
	Kind   string // one of those below
	Domain string
	Rule   string // its name as counts have it; of OverrideOver its ID; of TokenEnding the ID of the token
	Detail string // for people
	teams  string // whose it is, but for the team of its domain
}

// The kinds of notices.
const (
	NearLimit    = "limit.near"    // a request passed when 80 % of a limit were used
	Denying      = "limit.denied"  // a limit denied a request
	TokenEnding  = "token.ends"    // a token ends within EndNotice
	OverrideOver = "override.over" // what was opened or tightened ended by itself
)

const (
	// noticeEvery is how often it is told at most that a limit is near or denies, and noticeQuiet how long it must not have been so before
	// it is told again.
	noticeEvery = time.Hour
	noticeQuiet = 10 * time.Minute
	// noticeKept is how long notices are kept that nothing was added to.
	noticeKept = 7 * 24 * time.Hour
)

func (n *Notice) words() string {
	switch n.Kind {
	case NearLimit:
		return fmt.Sprintf("rule %s of domain %s: requests have used over 80 %% of a limit", n.Rule, n.Domain)
	case Denying:
		return fmt.Sprintf("rule %s of domain %s: requests are denied", n.Rule, n.Domain)
	case TokenEnding:
		return fmt.Sprintf("token %s ends: %s", n.Rule, n.Detail)
	}
	what := "domain " + n.Domain
	if n.Rule != "" {
		what = "rule " + n.Rule + " of " + what
	}
	return what + ": limits are as they are written again: " + n.Detail
}

// NoticeLimits tells webhooks of limits that were near or have denied in the last moments, by what a node counted. One that was told of
// is told of again when it was quiet for a while, and an hour later at the earliest.
func (s *Store) NoticeLimits(ctx context.Context, list []Notice, now time.Time) error {
	slices.SortFunc(list, func(a, b Notice) int {
		return strings.Compare(a.Kind+a.Domain+"\x00"+a.Rule, b.Kind+b.Domain+"\x00"+b.Rule)
	})
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		if n, err := count(ctx, t, "webhooks", ""); err != nil || n == 0 {
			return err // nobody would be told
		}
		if err := lockNotices(ctx, t); err != nil {
			return err
		}
		for i := range list {
			n := &list[i]
			var told, last int64
			err := t.QueryRowContext(ctx, `SELECT told, last FROM notices WHERE kind = $1 AND domain = $2 AND rule = $3`, n.Kind, n.Domain, printable(n.Rule, MaxID)).Scan(&told, &last)
			switch {
			case err != nil && !isNone(err):
				return err
			case err == nil && (now.UnixMicro()-told < noticeEvery.Microseconds() || now.UnixMicro()-last < noticeQuiet.Microseconds()):
				_, err = t.ExecContext(ctx, `UPDATE notices SET last = $4 WHERE kind = $1 AND domain = $2 AND rule = $3 AND last < $4`, n.Kind, n.Domain, printable(n.Rule, MaxID), now.UnixMicro())
			default:
				err = notice(ctx, t, n, now.UnixMicro())
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// notice writes a notice, in place of the one before of the same thing; last is when it was so.
func notice(ctx context.Context, t *sql.Tx, n *Notice, last int64) error {
	var seq int64
	if err := t.QueryRowContext(ctx, `UPDATE counters SET noticed = noticed + 1 RETURNING noticed`).Scan(&seq); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `INSERT INTO notices (kind, domain, rule, seq, told, last, detail, teams) VALUES ($1, $2, $3, $4, $5, $6, $7,
			CAST($8 AS TEXT) || ' ' || COALESCE((SELECT d.team FROM domains d WHERE d.name = $2 AND d.deleted = 0), ''))
		ON CONFLICT (kind, domain, rule) DO UPDATE SET seq = excluded.seq, told = excluded.told, last = excluded.last, detail = excluded.detail, teams = excluded.teams`,
		n.Kind, n.Domain, printable(n.Rule, MaxID), seq, time.Now().UnixMicro(), last, n.Detail, n.teams)
	return err
}

// NoticeEnds tells webhooks of tokens that end soon and of overrides that ended by themselves, each once, and forgets old notices.
func (s *Store) NoticeEnds(ctx context.Context, now time.Time) error {
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		if n, err := count(ctx, t, "webhooks", ""); err != nil || n == 0 {
			return err // likewise
		}
		if err := lockNotices(ctx, t); err != nil {
			return err
		}
		tokens, err := find(ctx, t, scanToken, `SELECT `+tokenColumns+` FROM tokens k WHERE revoked = 0 AND expires > $1 AND expires <= $2
			AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.kind = 'token.ends' AND n.domain = '' AND n.rule = k.id)`, now.UnixMicro(), now.Add(EndNotice).UnixMicro())
		if err != nil {
			return err
		}
		for _, k := range tokens {
			n := Notice{TokenEnding, "", k.ID, k.Actor + " has it until " + k.Expires.Format(time.RFC3339), strings.Join(k.Teams, " ")}
			if err := notice(ctx, t, &n, k.Expires.UnixMicro()); err != nil {
				return err
			}
		}
		var over []Override
		err = eachOverride(ctx, t, func(o Override) { over = append(over, o) }, `ends <= $1 AND ends > $2
			AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.kind = 'override.over' AND n.domain = overrides.domain AND n.rule = overrides.rule AND n.last >= overrides.ends)
			AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.domain = overrides.domain AND a.rule = overrides.rule AND a.action = 'override.end' AND a.refused = '' AND a.at >= overrides.ends)`,
			now.UnixMicro(), now.Add(-time.Hour).UnixMicro())
		if err != nil {
			return err
		}
		for _, o := range over {
			n := Notice{OverrideOver, o.Domain, o.Rule, "what " + o.Author + " did has ended by itself", ""}
			if err := notice(ctx, t, &n, o.Until.UnixMicro()); err != nil {
				return err
			}
		}
		_, err = t.ExecContext(ctx, `DELETE FROM notices WHERE last < $1`, now.Add(-noticeKept).UnixMicro())
		return err
	}))
}
