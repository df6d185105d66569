package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Counts are requests that a version in shadow was compared by: both pass, both deny, only the version in shadow denies, only the
// active one denies, unknown.
type Counts [5]int64

// Tally is what a node has counted of a version in shadow since it told last.
type Tally struct {
	Domain, Rule    string
	Version, Beside int64 // of a Trial
	Counts          Counts
	// Clients is the node's clients of all time, as it writes them, of at most MaxClients bytes.
	Clients string
}

// MaxClients is how long the clients of a Tally are.
const MaxClients = 64 << 10

// Tallied is what all nodes have counted of a version in shadow.
type Tallied struct {
	Domain, Rule    string
	Version, Beside int64
	Began           time.Time // when the first node told
	Counts, Recent  Counts    // Recent: since RecentSince
	RecentSince     time.Time
	Clients         []string // of each node
}

// recentMinutes is how many whole minutes Recent has, beside the one that is not over.
const recentMinutes = 9

// tallyKept is for how many minutes those are kept apart.
const tallyKept = 60

// Add adds tallies of a node to what others have told, all or none. It changes no rule, and is in no audit. When the answer of the
// database is lost they may be there, so that a node that adds them again counts them twice.
func (s *Store) Add(ctx context.Context, node string, tallies []Tally) error {
	err := transact(ctx, s.write, func(t *sql.Tx) error {
		for i := range tallies {
			x := &tallies[i]
			if len(x.Clients) > MaxClients {
				return invalid("clients", "have %d bytes; they may have %d", len(x.Clients), MaxClients)
			}
			for _, minute := range []string{"0", s.clock + " / 60000000"} {
				_, err := t.ExecContext(ctx, fmt.Sprintf(`INSERT INTO tallies
					VALUES ($1, $2, $3, $4, %s, %s, $5, $6, $7, $8, $9)
					ON CONFLICT (domain, rule, version, beside, minute) DO UPDATE SET
						both_pass = tallies.both_pass + excluded.both_pass, both_deny = tallies.both_deny + excluded.both_deny,
						only_candidate = tallies.only_candidate + excluded.only_candidate, only_active = tallies.only_active + excluded.only_active,
						unknown = tallies.unknown + excluded.unknown`, minute, s.clock),
					x.Domain, x.Rule, x.Version, x.Beside, x.Counts[0], x.Counts[1], x.Counts[2], x.Counts[3], x.Counts[4])
				if err != nil {
					return err
				}
			}
			_, err := t.ExecContext(ctx, `INSERT INTO tally_clients VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (domain, rule, version, beside, node) DO UPDATE SET clients = excluded.clients`,
				x.Domain, x.Rule, x.Version, x.Beside, printable(node, MaxName), x.Clients)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return s.failed(err)
}

// Tallies is what all nodes have counted of the versions in shadow of a domain, or with "" of all, by domain and rule.
func (s *Store) Tallies(ctx context.Context, domain string) (list []Tallied, err error) {
	type key struct {
		domain, rule    string
		version, beside int64
	}
	at := map[key]int{}
	err = s.look(ctx, func(tx *sql.Tx) error {
		err := each(ctx, tx, func(found row) error {
			var k key
			var minute, began, now int64
			var c Counts
			err := found.Scan(&k.domain, &k.rule, &k.version, &k.beside, &minute, &began, &now, &c[0], &c[1], &c[2], &c[3], &c[4])
			if minute == 0 { // it comes first
				at[k] = len(list)
				recent := max(began, (now/60_000_000-recentMinutes)*60_000_000)
				list = append(list, Tallied{
					Domain: k.domain, Rule: k.rule, Version: k.version, Beside: k.beside,
					Began: moment(began), Counts: c, RecentSince: moment(recent),
				})
				return err
			}
			if i, ok := at[k]; ok && minute >= now/60_000_000-recentMinutes {
				for j := range c {
					list[i].Recent[j] += c[j]
				}
			}
			return err
		}, fmt.Sprintf(`SELECT t.domain, t.rule, t.version, t.beside, t.minute, t.began, %s, t.both_pass, t.both_deny, t.only_candidate, t.only_active, t.unknown
			FROM tallies t JOIN rules r ON r.domain = t.domain AND r.id = t.rule AND r.shadow = t.version
			WHERE $1 = '' OR t.domain = $1 ORDER BY t.domain, t.rule, t.version, t.beside, t.minute`, s.clock), domain)
		if err != nil {
			return err
		}
		return each(ctx, tx, func(found row) error {
			var k key
			var clients string
			err := found.Scan(&k.domain, &k.rule, &k.version, &k.beside, &clients)
			if i, ok := at[k]; ok {
				list[i].Clients = append(list[i].Clients, clients)
			}
			return err
		}, `SELECT domain, rule, version, beside, clients FROM tally_clients WHERE $1 = '' OR domain = $1`, domain)
	})
	return list, err
}

// Forget forgets tallies of versions that are not in shadow any more, and minutes that are long over.
func (s *Store) Forget(ctx context.Context) error {
	err := transact(ctx, s.write, func(t *sql.Tx) error {
		for _, table := range []string{"tallies", "tally_clients"} {
			_, err := t.ExecContext(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE NOT EXISTS (SELECT 1 FROM rules r
				WHERE r.domain = %[1]s.domain AND r.id = %[1]s.rule AND r.shadow = %[1]s.version)`, table))
			if err != nil {
				return err
			}
		}
		_, err := t.ExecContext(ctx, fmt.Sprintf(`DELETE FROM tallies WHERE minute > 0 AND minute < %s / 60000000 - $1`, s.clock), tallyKept)
		return err
	})
	return s.failed(err)
}
