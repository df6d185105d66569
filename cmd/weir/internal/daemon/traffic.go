package daemon

import (
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// tick writes down what rules have passed and denied, and how candidates differ.
func (d *Daemon) tick(now time.Time) {
	d.tickTraffic(now)
	d.board.Tick(now)
}

// tickTraffic writes down what rules have passed and denied, also for the charts of all nodes.
func (d *Daemon) tickTraffic(now time.Time) {
	if d.feed == nil {
		d.limiter.Book.Tick(now, nil)
		return
	}
	at := now.Add(-offenders.Step).Truncate(offenders.Step) // where most of it lies
	var counted []rulestore.Traffic
	d.limiter.Book.Tick(now, func(id offenders.ID, p offenders.Point, near int64) {
		d.notices.count(id, p.Denied, near)
		counted = append(counted, rulestore.Traffic{Domain: id.Domain, Rule: id.Rule, Shadow: id.Shadow, At: at, Passed: p.Passed, Denied: p.Denied})
	})
	d.charts.count(counted)
}

// known is whether there are such rules here, in force or as candidates. f.May is about rules that are
// named.
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
		return r.Name == f.Rule && (f.Domain == "" || r.Domain == f.Domain) && (f.May == nil || f.May(offenders.ID{Domain: r.Domain, Rule: r.Name, Shadow: r.Shadow}))
	})
}

// namesOfClients is what to say in the place of a client's name.
func namesOfClients(hashed bool) func(string) string {
	if hashed {
		return offenders.NewHider().Hide
	}
	return func(name string) string { return name }
}
