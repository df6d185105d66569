package rulestore

import (
	"context"
	"database/sql"
)

// Published is what is active at a revision.
type Published struct {
	Revision int64
	Changed  []Document // domains that were changed since, by name
	Deleted  []string   // domains that were taken away since
}

// Published is all domains that were changed behind a revision, at one moment; 0
// brings all there are. Feed it the last revision, and wait by Wait.
func (s *Store) Published(ctx context.Context, behind int64) (p Published, err error) {
	err = s.look(ctx, func(tx *sql.Tx) error {
		if p.Revision, err = revisionOf(ctx, tx); err != nil {
			return err
		}
		changed, err := p.since(ctx, tx, behind)
		if err != nil {
			return err
		}
		// A few are read one by one, many at once.
		const few = 20
		if len(changed) > few {
			p.Changed, err = documents(ctx, tx, changed, "")
			return err
		}
		for _, d := range changed {
			one, err := documents(ctx, tx, []Domain{d}, d.Name)
			if err != nil {
				return err
			}
			p.Changed = append(p.Changed, one...)
		}
		return nil
	})
	return p, err
}

// since is the domains that were changed behind a revision; those that were
// taken away are put down in p.
func (p *Published) since(ctx context.Context, q queryer, behind int64) (changed []Domain, err error) {
	err = each(ctx, q, func(found row) error {
		var d Domain
		var deleted bool
		err := found.Scan(append(d.fields(), &deleted)...)
		if deleted {
			p.Deleted = append(p.Deleted, d.Name)
		} else {
			changed = append(changed, d)
		}
		return err
	}, `SELECT `+domainColumns+`, deleted FROM domains d WHERE revision > $1 ORDER BY name`, behind)
	return changed, err
}
