package rulestore

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations make a schema of each version out of the one before. A released one is never changed:
// new ones are added.
//
// A rule's row gives the roles of its versions; a version's text never changes. The row with the
// empty ID has the text before a domain's first rule. Times are microseconds since 1970; no time,
// and no version, is 0.
func migrations() []string {
	return []string{`
CREATE TABLE counters (
	only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
	revision BIGINT NOT NULL, -- of the last change
	audited  BIGINT NOT NULL  -- the last number in audit
);
INSERT INTO counters VALUES (1, 0, 0);
CREATE TABLE teams (
	name  TEXT PRIMARY KEY,
	quota BIGINT NOT NULL -- rules it may have
);
CREATE TABLE domains (
	name     TEXT PRIMARY KEY,
	team     TEXT NOT NULL,
	shared   BIGINT NOT NULL, -- 1: other teams may add rules of their own
	review   BIGINT NOT NULL, -- 1: who publishes is not who wrote
	indent   BIGINT NOT NULL, -- spaces before each rule in the file
	bytes    BIGINT NOT NULL, -- of the texts in force
	revision BIGINT NOT NULL, -- of the last change in it
	deleted  BIGINT NOT NULL  -- 1: it is gone, but for its history
);
CREATE INDEX domains_revision ON domains (revision);
CREATE TABLE rules (
	domain   TEXT NOT NULL,
	id       TEXT NOT NULL,
	team     TEXT NOT NULL,
	latest   BIGINT NOT NULL, -- the last version there is
	draft    BIGINT NOT NULL, -- version
	shadow   BIGINT NOT NULL, -- version
	enforced BIGINT NOT NULL, -- version
	disabled BIGINT NOT NULL, -- 1: the version in force is left out
	gone     BIGINT NOT NULL, -- 1: it was taken away, and nothing is proposed
	revision BIGINT NOT NULL, -- of its last change
	PRIMARY KEY (domain, id)
);
CREATE INDEX rules_team ON rules (team);
CREATE TABLE versions (
	domain   TEXT NOT NULL,
	rule     TEXT NOT NULL,
	number   BIGINT NOT NULL,
	state    TEXT NOT NULL,
	text     TEXT NOT NULL, -- empty: no rule
	place    BIGINT NOT NULL, -- rules of a file stand in the order of it
	base     BIGINT NOT NULL, -- the version in force when it was made
	author   TEXT NOT NULL,
	team     TEXT NOT NULL,
	reason   TEXT NOT NULL,
	made     BIGINT NOT NULL, -- time
	revision BIGINT NOT NULL,
	PRIMARY KEY (domain, rule, number)
);
CREATE TABLE overrides (
	domain  TEXT NOT NULL,
	rule    TEXT NOT NULL, -- empty: all of the domain
	percent BIGINT NOT NULL, -- of what limits let pass; 0: they are open
	ends    BIGINT NOT NULL, -- time
	author  TEXT NOT NULL,
	reason  TEXT NOT NULL,
	PRIMARY KEY (domain, rule)
);
CREATE TABLE tokens (
	id      TEXT PRIMARY KEY,
	hash    TEXT NOT NULL, -- SHA-256 of the secret, in hex
	actor   TEXT NOT NULL,
	role    TEXT NOT NULL,
	teams   TEXT NOT NULL, -- separated by spaces
	made    BIGINT NOT NULL, -- time
	expires BIGINT NOT NULL, -- time; 0: never
	revoked BIGINT NOT NULL, -- time
	author  TEXT NOT NULL
);
CREATE TABLE audit (
	seq      BIGINT PRIMARY KEY,
	revision BIGINT NOT NULL, -- 0: nothing was changed
	at       BIGINT NOT NULL, -- time
	actor    TEXT NOT NULL,
	token    TEXT NOT NULL,
	team     TEXT NOT NULL,
	action   TEXT NOT NULL,
	domain   TEXT NOT NULL,
	rule     TEXT NOT NULL,
	version  BIGINT NOT NULL,
	reason   TEXT NOT NULL,
	refused  TEXT NOT NULL -- why; empty: it was done
);
CREATE INDEX audit_domain ON audit (domain, rule, seq);
`, `
ALTER TABLE tokens ADD COLUMN certificate TEXT NOT NULL DEFAULT '';
CREATE INDEX tokens_certificate ON tokens (certificate) WHERE certificate <> '';
`, `
CREATE TABLE nodes (
	name     TEXT PRIMARY KEY,
	version  TEXT NOT NULL, -- of Weir
	revision BIGINT NOT NULL, -- in force there; under 0: a copy
	seen     BIGINT NOT NULL -- time, by the database's clock
);
`, `
CREATE TABLE tallies (
	domain         TEXT NOT NULL,
	rule           TEXT NOT NULL,
	version        BIGINT NOT NULL, -- that runs in shadow
	beside         BIGINT NOT NULL, -- the version that was active; 0: none
	minute         BIGINT NOT NULL, -- since 1970, by the database's clock; 0: of all time
	began          BIGINT NOT NULL, -- time of the first
	both_pass      BIGINT NOT NULL,
	both_deny      BIGINT NOT NULL,
	only_candidate BIGINT NOT NULL,
	only_active    BIGINT NOT NULL,
	unknown        BIGINT NOT NULL,
	PRIMARY KEY (domain, rule, version, beside, minute)
);
CREATE TABLE tally_clients (
	domain  TEXT NOT NULL,
	rule    TEXT NOT NULL,
	version BIGINT NOT NULL,
	beside  BIGINT NOT NULL,
	node    TEXT NOT NULL,
	clients TEXT NOT NULL, -- as the node tells them
	PRIMARY KEY (domain, rule, version, beside, node)
);
`, `
ALTER TABLE audit ADD COLUMN teams TEXT NOT NULL DEFAULT ''; -- that the actor stands for, separated by spaces
ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT ''; -- where the request came from
ALTER TABLE audit ADD COLUMN prior TEXT NOT NULL DEFAULT ''; -- hash of the line before
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT ''; -- as Event.sum has it
CREATE INDEX tokens_actor ON tokens (LOWER(actor));
`, `
CREATE TABLE traffic (
	domain TEXT NOT NULL,
	rule   TEXT NOT NULL, -- its name; empty: all rules of the domain
	shadow BIGINT NOT NULL, -- 1: it was not enforced
	step   BIGINT NOT NULL, -- of a Grain, in microseconds
	began  BIGINT NOT NULL, -- time
	passed BIGINT NOT NULL,
	denied BIGINT NOT NULL,
	PRIMARY KEY (domain, rule, shadow, step, began)
);
CREATE INDEX traffic_age ON traffic (step, began);
`, `
ALTER TABLE tokens ADD COLUMN used BIGINT NOT NULL DEFAULT 0; -- time of the last use, to 10 minutes; 0: none is known
`, `
CREATE TABLE deletions (
	revision BIGINT PRIMARY KEY, -- of the change that took the domain away
	domain   TEXT NOT NULL,
	at       BIGINT NOT NULL, -- time
	actor    TEXT NOT NULL,
	reason   TEXT NOT NULL,
	team     TEXT NOT NULL, -- this and the next as the domain had them
	shared   BIGINT NOT NULL,
	review   BIGINT NOT NULL,
	indent   BIGINT NOT NULL,
	bytes    BIGINT NOT NULL,
	rules    BIGINT NOT NULL -- how many were active or proposed
);
CREATE INDEX deletions_domain ON deletions (domain, revision);
CREATE TABLE deleted_rules (
	deletion BIGINT NOT NULL, -- its revision
	rule     TEXT NOT NULL,
	team     TEXT NOT NULL, -- this and the next as the rule had them
	draft    BIGINT NOT NULL,
	shadow   BIGINT NOT NULL,
	enforced BIGINT NOT NULL,
	disabled BIGINT NOT NULL,
	gone     BIGINT NOT NULL,
	PRIMARY KEY (deletion, rule)
);
`, `
ALTER TABLE rules ADD COLUMN disabling TEXT NOT NULL DEFAULT ''; -- the person that asks to disable the version in force
ALTER TABLE rules ADD COLUMN disabling_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE overrides ADD COLUMN second TEXT NOT NULL DEFAULT ''; -- the person that confirmed it
ALTER TABLE overrides ADD COLUMN unreviewed BIGINT NOT NULL DEFAULT 0; -- 1: of one person alone, in a domain under review
CREATE TABLE unreviewed (
	domain TEXT NOT NULL,
	actor  TEXT NOT NULL, -- in small letters
	began  BIGINT NOT NULL, -- time; since when overrides of this actor alone hold
	ends   BIGINT NOT NULL, -- time
	PRIMARY KEY (domain, actor, began)
);
`, `
ALTER TABLE domains ADD COLUMN public BIGINT NOT NULL DEFAULT 0; -- 1: every token may read its clients
ALTER TABLE deletions ADD COLUMN public BIGINT NOT NULL DEFAULT 0; -- as the domain had it
`, `
CREATE TABLE sessions (
	id     TEXT PRIMARY KEY, -- SHA-256 of what the browser shows, in hex
	token  TEXT NOT NULL, -- the ID of the one that was shown; empty: that is in a file
	proof  TEXT NOT NULL, -- by which a node knows that its file has the token
	made   BIGINT NOT NULL, -- time
	seen   BIGINT NOT NULL, -- time of the last request, to a minute
	notice TEXT NOT NULL -- to be said on the next page
);
CREATE INDEX sessions_seen ON sessions (seen);
`, `
CREATE INDEX audit_comments ON audit (domain, rule, version, seq) WHERE action = 'comment' AND refused = '';
CREATE INDEX audit_held ON audit (domain, rule, version, seq) WHERE action = 'enforce.held';
CREATE INDEX rules_waiting ON rules (domain, id) WHERE draft > 0 OR shadow > 0 OR disabling <> '';
CREATE TABLE settings (
	revision BIGINT PRIMARY KEY, -- of the change
	team     TEXT NOT NULL, -- this and the next as the domain had them before it
	shared   BIGINT NOT NULL,
	review   BIGINT NOT NULL,
	public   BIGINT NOT NULL
);
`, `
CREATE UNLOGGED TABLE limited (
	node    TEXT PRIMARY KEY,
	told    BIGINT NOT NULL, -- time, by the database's clock
	clients BYTEA NOT NULL -- as the node tells them
);
CREATE UNLOGGED TABLE readers (
	node TEXT PRIMARY KEY,
	ends BIGINT NOT NULL -- time, by the database's clock; until then nodes are to tell of limited clients
);
CREATE UNLOGGED TABLE resets (
	id     BIGINT PRIMARY KEY, -- the time, by the database's clock, or more
	domain TEXT NOT NULL,
	rule   TEXT NOT NULL, -- its name
	client BYTEA NOT NULL -- its name
);
ALTER TABLE nodes ADD COLUMN reset BIGINT NOT NULL DEFAULT 0; -- the last of the resets that it has done
`, `
CREATE TABLE webhooks (
	id         TEXT PRIMARY KEY,
	team       TEXT NOT NULL, -- *: all
	url        TEXT NOT NULL,
	form       TEXT NOT NULL,
	kinds      TEXT NOT NULL, -- of messages, separated by spaces; empty: all
	disabled   BIGINT NOT NULL,
	made       BIGINT NOT NULL, -- time
	author     TEXT NOT NULL,
	secret     TEXT NOT NULL, -- as it is: it signs
	old_secret TEXT NOT NULL DEFAULT '',
	old_until  BIGINT NOT NULL DEFAULT 0, -- time until when the old one signs, too
	audited    BIGINT NOT NULL, -- the last number in audit that it was told of
	noticed    BIGINT NOT NULL, -- the last number in notices, likewise
	failed     BIGINT NOT NULL DEFAULT 0, -- tries of the next message
	error      TEXT NOT NULL DEFAULT '',
	next_try   BIGINT NOT NULL DEFAULT 0, -- time
	given_up   BIGINT NOT NULL DEFAULT 0 -- messages
);
CREATE TABLE deliveries (
	webhook TEXT NOT NULL,
	at      BIGINT NOT NULL, -- time
	message TEXT NOT NULL,
	kind    TEXT NOT NULL,
	status  BIGINT NOT NULL, -- of the answer; 0: there was none
	error   TEXT NOT NULL,
	tries   BIGINT NOT NULL,
	millis  BIGINT NOT NULL,
	PRIMARY KEY (webhook, at)
);
CREATE TABLE notices (
	kind   TEXT NOT NULL,
	domain TEXT NOT NULL,
	rule   TEXT NOT NULL,
	seq    BIGINT NOT NULL, -- of all notices
	told   BIGINT NOT NULL, -- time
	last   BIGINT NOT NULL, -- time when it was so
	detail TEXT NOT NULL,
	teams  TEXT NOT NULL, -- separated by spaces, beside the domain's
	PRIMARY KEY (kind, domain, rule)
);
CREATE INDEX notices_seq ON notices (seq);
CREATE TABLE leases (
	name   TEXT PRIMARY KEY,
	holder TEXT NOT NULL,
	until  BIGINT NOT NULL -- time, by the database's clock
);
ALTER TABLE counters ADD COLUMN noticed BIGINT NOT NULL DEFAULT 0; -- the last number in notices
`, `
ALTER TABLE sessions ADD COLUMN issuer TEXT NOT NULL DEFAULT ''; -- of a person's account; empty: a token was shown
ALTER TABLE sessions ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN person TEXT NOT NULL DEFAULT ''; -- the name in the audit
ALTER TABLE sessions ADD COLUMN member_of TEXT NOT NULL DEFAULT ''; -- groups that gave a role, in JSON
ALTER TABLE sessions ADD COLUMN hint TEXT NOT NULL DEFAULT ''; -- what the provider said, to sign out there
`, `
CREATE TABLE exceptions (
	count      TEXT PRIMARY KEY, -- the beginning of the SHA-256 of place and key
	id         TEXT NOT NULL UNIQUE,
	domain     TEXT NOT NULL,
	rule       TEXT NOT NULL,
	place      TEXT NOT NULL, -- of the counts of the rule's limit
	key        TEXT NOT NULL, -- of the count, in hex
	entries    TEXT NOT NULL, -- of requests, in JSON
	name       TEXT NOT NULL, -- the same for people
	of_limit   TEXT NOT NULL, -- which of several limits of the rule; empty: it has one
	limit_text TEXT NOT NULL,
	limit_of   TEXT NOT NULL, -- the same of place and limit_text: by it they are told apart
	made       BIGINT NOT NULL, -- time
	ends       BIGINT NOT NULL, -- time
	author     TEXT NOT NULL,
	reason     TEXT NOT NULL,
	second     TEXT NOT NULL, -- the person that confirmed it
	unreviewed BIGINT NOT NULL, -- 1: of one person alone, in a domain under review
	revision   BIGINT NOT NULL, -- of the change that set or ended it
	early      BIGINT NOT NULL, -- 1: it was ended before its time
	deletion   BIGINT NOT NULL, -- that took its domain away, and may bring it back; 0: none
	kept       BIGINT NOT NULL -- time; when it ends if its domain comes back
);
CREATE INDEX exceptions_revision ON exceptions (revision);
CREATE INDEX exceptions_ends ON exceptions (ends);
CREATE INDEX exceptions_name ON exceptions (name, id);
CREATE INDEX exceptions_domain ON exceptions (domain, rule, name, id);
CREATE INDEX exceptions_limit ON exceptions (limit_of);
CREATE INDEX exceptions_waiting ON exceptions (domain, rule) WHERE unreviewed = 1;
ALTER TABLE counters ADD COLUMN exceptions BIGINT NOT NULL DEFAULT 0; -- rows of the table
ALTER TABLE counters ADD COLUMN exceptions_floor BIGINT NOT NULL DEFAULT 0; -- a node of an older revision has to read all
`}
}

// chained is the version of the schema from which on the lines of the audit are a chain.
const chained = 5

// migrate brings a database to the newest schema, and refuses one that is newer.
func migrate(ctx context.Context, db *sql.DB, d dialect) error {
	// One that is up to date is not written to: this node may have no right to.
	if version, err := schemaOf(ctx, db); err == nil && version >= len(migrations()) {
		return tooNew(version)
	}
	return transact(ctx, db, func(tx *sql.Tx) error {
		if d.lock != "" {
			if _, err := tx.ExecContext(ctx, d.lock); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS weir_schema (only_row BIGINT PRIMARY KEY CHECK (only_row = 1), version BIGINT NOT NULL)`); err != nil {
			return err
		}
		version, err := schemaOf(ctx, tx)
		if err != nil {
			return err
		}
		if err := tooNew(version); err != nil {
			return err
		}
		for i, step := range migrations()[version:] {
			if _, err := tx.ExecContext(ctx, d.types.Replace(step)); err != nil {
				return fmt.Errorf("make schema %d: %w", version+i+1, err)
			}
			if version+i+1 != chained {
				continue
			}
			if err := chainLines(ctx, tx, d); err != nil {
				return fmt.Errorf("chain the audit: %w", err)
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO weir_schema VALUES (1, $1) ON CONFLICT (only_row) DO UPDATE SET version = excluded.version`, len(migrations()))
		return err
	})
}

// schemaOf is the version of a database's schema; 0: it has none.
func schemaOf(ctx context.Context, q queryer) (version int, err error) {
	err = q.QueryRowContext(ctx, `SELECT version FROM weir_schema`).Scan(&version)
	if isNone(err) {
		return 0, nil
	}
	return version, err
}

func tooNew(version int) error {
	if known := len(migrations()); version > known {
		return &Error{Kind: Unavailable, Text: fmt.Sprintf("the rule database has schema %d, of a newer Weir; this one knows up to %d: run the newer one, or restore a backup from before", version, known)}
	}
	return nil
}
