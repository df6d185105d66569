package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// The bounds of what nodes tell each other of limited clients, whose names are personal data: it is in the database for some seconds
// while somebody reads it, and for ToldLife at most.
const (
	// MaxTold is how long what one node tells is, in bytes.
	MaxTold = 256 << 10
	// MaxToldNodes is of how many nodes it is read: the first by name.
	MaxToldNodes = 100
	// ToldLife is how long it is kept when its node is gone, until the next Forget of any node.
	ToldLife = time.Minute
)

// Told is what a node tells of its limited clients.
type Told struct {
	Node  string
	Bytes []byte        // as the node writes them, MaxTold at most
	Age   time.Duration // by the database's clock
}

// WantTold asks all nodes to tell of their limited clients, for some time from now on. If no node wants that already, they are woken, and
// tell in some milliseconds.
func (s *Store) WantTold(ctx context.Context, node string, lease time.Duration) error {
	was := false
	err := s.read.QueryRowContext(ctx, fmt.Sprintf(`SELECT COALESCE(MAX(ends), 0) > %s FROM readers`, s.clock)).Scan(&was)
	if err != nil {
		return s.failed(err)
	}
	_, err = s.write.ExecContext(ctx, fmt.Sprintf(`INSERT INTO readers (node, ends) VALUES ($1, %s + $2)
		ON CONFLICT (node) DO UPDATE SET ends = excluded.ends`, s.clock), printable(node, MaxName), lease.Microseconds())
	if err == nil && !was {
		err = s.wake(ctx)
	}
	return s.failed(err)
}

// wake wakes all nodes that follow Heard.
func (s *Store) wake(ctx context.Context) error {
	s.told.ring()
	if s.notify == "" {
		return nil
	}
	_, err := s.write.ExecContext(ctx, s.notify)
	return err
}

// Heard is closed when another process next tells of something, or this one does. It may be missed while Wait does not run: look now and then,
// too.
func (s *Store) Heard() <-chan struct{} { return s.told.rung() }

// TellLimited puts what a node tells in the place of what it told before.
func (s *Store) TellLimited(ctx context.Context, node string, told []byte) error {
	if len(told) > MaxTold {
		return invalid("clients", "have %d bytes; they may have %d", len(told), MaxTold)
	}
	_, err := s.write.ExecContext(ctx, fmt.Sprintf(`INSERT INTO limited (node, told, clients) VALUES ($1, %s, $2)
		ON CONFLICT (node) DO UPDATE SET told = excluded.told, clients = excluded.clients`, s.clock), printable(node, MaxName), told)
	return s.failed(err)
}

// LeaveLimited takes away what a node told, and what it wanted to be told.
func (s *Store) LeaveLimited(ctx context.Context, node string) error {
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		for _, table := range []string{"limited", "readers"} {
			if _, err := t.ExecContext(ctx, `DELETE FROM `+table+` WHERE node = $1`, printable(node, MaxName)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Limited is what nodes have told since so long ago, by their names.
func (s *Store) Limited(ctx context.Context, since time.Duration) ([]Told, error) {
	list, err := find(ctx, s.read, func(found row) (t Told, err error) {
		var age int64
		err = found.Scan(&t.Node, &t.Bytes, &age)
		t.Age = time.Duration(max(age, 0)) * time.Microsecond
		return t, err
	}, fmt.Sprintf(`SELECT node, clients, %[1]s - told FROM limited WHERE told > %[1]s - $1 ORDER BY node LIMIT %[2]d`, s.clock, MaxToldNodes), since.Microseconds())
	return list, s.failed(err)
}

// Asked is what others ask of a node.
type Asked struct {
	Told   bool        // to tell of its limited clients
	Resets []Unblocked // to reset counts, the oldest first
}

// Asked is what others ask of a node that has done all resets up to an ID.
func (s *Store) Asked(ctx context.Context, done int64) (a Asked, err error) {
	var last int64
	err = s.read.QueryRowContext(ctx, fmt.Sprintf(`SELECT COALESCE((SELECT MAX(ends) FROM readers), 0) > %s, COALESCE((SELECT MAX(id) FROM resets), 0)`, s.clock)).Scan(&a.Told, &last)
	if err != nil || last <= done {
		return a, s.failed(err)
	}
	a.Resets, err = find(ctx, s.read, func(found row) (u Unblocked, err error) {
		err = found.Scan(&u.ID, &u.Domain, &u.Rule, &u.Client)
		return u, err
	}, fmt.Sprintf(`SELECT id, domain, rule, client FROM resets WHERE id > $1 AND id > %s - $2 ORDER BY id`, s.clock), done, resetLife.Microseconds())
	return a, s.failed(err)
}

// ForgetLimited forgets what nodes told that are gone, and resets whose time is over.
func (s *Store) ForgetLimited(ctx context.Context) error {
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		for _, where := range []string{"limited WHERE told < %s - $1", "readers WHERE ends < %s - $1", "resets WHERE id < %s - $1"} {
			if _, err := t.ExecContext(ctx, fmt.Sprintf(`DELETE FROM `+where, s.clock), ToldLife.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	}))
}
