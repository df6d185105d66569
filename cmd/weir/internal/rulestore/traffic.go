package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Traffic is what was passed and denied by a rule, or by all rules of a domain, from At on for a step of time.
type Traffic struct {
	Domain string
	Rule   string // its name; empty: all of the domain
	Shadow bool   // it was not enforced
	At     time.Time
	Passed int64
	Denied int64
}

// Grain is how finely traffic is kept, and for how long.
type Grain struct{ Step, Kept time.Duration }

// MaxChart is how long traffic is kept.
const MaxChart = 30 * 24 * time.Hour

// Grains are the finest first. Each tells of the same traffic.
func Grains() []Grain {
	return []Grain{{10 * time.Second, time.Hour}, {2 * time.Minute, 24 * time.Hour}, {time.Hour, MaxChart}}
}

// grainOf is the finest that is kept for so long.
func grainOf(span time.Duration) Grain {
	for _, g := range Grains() {
		if span <= g.Kept {
			return g
		}
	}
	return Grains()[len(Grains())-1]
}

// trafficBatch is how many rows are written by one statement.
const trafficBatch = 500

// AddTraffic adds what a node has counted to what others have told, all or none. It changes no rule, and is in no audit. When the
// answer of the database is lost it may be there, so that a node that adds it again counts it twice.
func (s *Store) AddTraffic(ctx context.Context, told []Traffic) error {
	var rows []trafficRow
	for _, t := range told {
		for _, g := range Grains() {
			rows = append(rows, trafficRow{g.Step.Microseconds(), t.At.Truncate(g.Step).UnixMicro(), t})
		}
	}
	slices.SortFunc(rows, trafficRow.compare) // nodes that write at the same time wait for each other, and never in a ring
	rows = added(rows)
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		for batch := range slices.Chunk(rows, trafficBatch) {
			var values []string
			var args []any
			for _, r := range batch {
				n := len(args)
				values = append(values, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5, n+6, n+7))
				args = append(args, r.Domain, r.Rule, number(r.Shadow), r.step, r.at, r.Passed, r.Denied)
			}
			_, err := t.ExecContext(ctx, `INSERT INTO traffic (domain, rule, shadow, step, began, passed, denied) VALUES `+strings.Join(values, ", ")+`
				ON CONFLICT (domain, rule, shadow, step, began) DO UPDATE SET passed = traffic.passed + excluded.passed, denied = traffic.denied + excluded.denied`, args...)
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// trafficRow is a row of the table.
type trafficRow struct {
	step, at int64 // in microseconds
	Traffic
}

func (r trafficRow) compare(o trafficRow) int {
	return cmp.Or(strings.Compare(r.Domain, o.Domain), strings.Compare(r.Rule, o.Rule), cmp.Compare(number(r.Shadow), number(o.Shadow)),
		cmp.Compare(r.step, o.step), cmp.Compare(r.at, o.at))
}

// added is sorted rows, each once: those of one place are added up.
func added(rows []trafficRow) []trafficRow {
	sums := rows[:0]
	for _, r := range rows {
		if n := len(sums); n > 0 && sums[n-1].compare(r) == 0 {
			sums[n-1].Passed += r.Passed
			sums[n-1].Denied += r.Denied
			continue
		}
		sums = append(sums, r)
	}
	return sums
}

// Traffic is what all nodes have told of a rule, or with "" of all rules of a domain, in a span of time until now, the oldest
// first; steps without traffic are left out. The step is the finest that is kept for so long; what is older than 30 days is kept by none.
func (s *Store) Traffic(ctx context.Context, of Traffic, span time.Duration, now time.Time) (step time.Duration, list []Traffic, err error) {
	step = grainOf(span).Step
	list, err = find(ctx, s.read, func(found row) (Traffic, error) {
		one := of
		var began int64
		err := found.Scan(&began, &one.Passed, &one.Denied)
		one.At = moment(began)
		return one, err
	}, `SELECT began, passed, denied FROM traffic WHERE domain = $1 AND rule = $2 AND shadow = $3 AND step = $4 AND began > $5 ORDER BY began`,
		printable(of.Domain, MaxName+1), printable(of.Rule, MaxID), number(of.Shadow), step.Microseconds(), now.Add(-span-step).UnixMicro())
	return step, list, s.failed(err)
}

// ForgetTraffic forgets what is kept no longer.
func (s *Store) ForgetTraffic(ctx context.Context, now time.Time) error {
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		for _, g := range Grains() {
			_, err := t.ExecContext(ctx, `DELETE FROM traffic WHERE step = $1 AND began < $2`, g.Step.Microseconds(), now.Add(-g.Kept-g.Step).UnixMicro())
			if err != nil {
				return err
			}
		}
		return nil
	}))
}
