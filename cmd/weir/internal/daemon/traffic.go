package daemon

import (
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// tick writes down what rules have passed and denied, and how candidates differ.
func (d *Daemon) tick(now time.Time) {
	d.limiter.Book.Tick(now)
	d.board.Tick(now)
}

// known is whether there are such rules here, in force or as candidates.
func (d *Daemon) known(f offenders.Filter) bool {
	set := d.limiter.Set()
	if set == nil {
		return true // nobody knows yet
	}
	if f.Domain != "" && !slices.Contains(set.Domains(), f.Domain) && len(d.board.Reports(f.Domain, 0, time.Now())) == 0 {
		return false
	}
	if f.Rule == "" {
		return true
	}
	if top, _ := d.limiter.Book.Top(f, 1); len(top) > 0 { // overrides, too
		return true
	}
	return slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool {
		return r.Name == f.Rule && (f.Domain == "" || r.Domain == f.Domain)
	})
}

// namesOfClients is what to say in the place of a client's name.
func namesOfClients(hashed bool) func(string) string {
	if hashed {
		return offenders.NewHider().Hide
	}
	return func(name string) string { return name }
}
