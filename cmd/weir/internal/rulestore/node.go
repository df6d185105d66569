package rulestore

import (
	"context"
	"fmt"
	"time"
)

// Node is a node that serves what is active in the database.
type Node struct {
	Name     string
	Version  string // of Weir
	Revision int64  // in force there; under 0: a copy
	// Silent is how long ago it said so, by the database's clock.
	Silent time.Duration
}

// nodeLife is how long a node that says nothing is listed.
const nodeLife = time.Hour

// Shared is whether several nodes may serve the database.
func (s *Store) Shared() bool { return s.dir == "" }

// Tell says what a node has in force, for Nodes. It changes no rule, and is in no
// audit.
func (s *Store) Tell(ctx context.Context, n Node) error {
	_, err := s.write.ExecContext(ctx, fmt.Sprintf(`INSERT INTO nodes (name, version, revision, seen) VALUES ($1, $2, $3, %s)
		ON CONFLICT (name) DO UPDATE SET version = excluded.version, revision = excluded.revision, seen = excluded.seen`, s.clock),
		printable(n.Name, MaxName), printable(n.Version, MaxName), n.Revision)
	if err != nil {
		return s.failed(err)
	}
	_, err = s.write.ExecContext(ctx, fmt.Sprintf(`DELETE FROM nodes WHERE seen < %s - $1`, s.clock), nodeLife.Microseconds())
	return s.failed(err)
}

// Leave takes a node off the list.
func (s *Store) Leave(ctx context.Context, name string) error {
	_, err := s.write.ExecContext(ctx, `DELETE FROM nodes WHERE name = $1`, printable(name, MaxName))
	return s.failed(err)
}

// Nodes lists the nodes that have told of themselves in the last hour by name, MaxPage
// at most.
func (s *Store) Nodes(ctx context.Context) (list []Node, err error) {
	list, err = find(ctx, s.read, func(found row) (n Node, err error) {
		var silent int64
		err = found.Scan(&n.Name, &n.Version, &n.Revision, &silent)
		n.Silent = time.Duration(max(silent, 0)) * time.Microsecond
		return n, err
	}, fmt.Sprintf(`SELECT name, version, revision, %s - seen FROM nodes ORDER BY name LIMIT %d`, s.clock, MaxPage))
	return list, s.failed(err)
}
