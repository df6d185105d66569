package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// openCandidates makes the source of rules that run beside those in force; nil:
// there is none.
func openCandidates(c *Config, check func(*rules.Set) error) (*source.Source, error) {
	if c.Candidate == "" {
		return nil, nil
	}
	if source.IsURL(c.Candidate) {
		return nil, &ConfigError{"--candidate", "write the path of a rule file or of a folder of them"}
	}
	s, err := source.Open(c.Candidate, source.Options{Check: check, Poll: c.rulesPoll})
	if err != nil {
		return nil, &ConfigError{"--candidate", err.Error()}
	}
	return s, nil
}

// loadCandidates reads them to begin with.
func (d *Daemon) loadCandidates() error {
	if d.candidates == nil {
		return nil
	}
	set, err := d.candidates.Load(context.Background()) // a file has no long way
	if err != nil {
		return err
	}
	d.tryCandidates(set)
	return nil
}

// candidatesReloaded is what becomes of a reload: new candidates, or an error and
// the old ones.
func (d *Daemon) candidatesReloaded(set *rules.Set, err error) {
	if err != nil {
		d.config.Log.Error("candidates could not be reloaded; the old ones go on", "error", err)
	}
	if set != nil {
		d.tryCandidates(set)
		d.config.Log.Info("candidates reloaded", "domains", len(set.Domains()), "rules", len(set.Rules()))
	}
}

// tryCandidates lets the domains of set run beside those in force; nil: none do.
func (d *Daemon) tryCandidates(set *rules.Set) {
	d.comparing.Lock()
	d.candidate = set
	d.comparing.Unlock()
	d.compare()
}

// compare compares the active rules with the candidates, as both are now.
func (d *Daemon) compare() {
	d.comparing.Lock()
	defer d.comparing.Unlock()
	active := d.limiter.Set()
	tried, left := d.board.Run(active, d.allCandidates(active), time.Now())
	if left > 0 {
		d.config.Log.Warn("too many rules are in shadow; the last by name are not compared", "most", shadow.MaxCandidates, "left", left)
	}
	d.limiter.Try(tried, d.board.Told)
}

// allCandidates is those of files, where they are not as the active rules are, and of the database, which stand back where both
// have a domain.
func (d *Daemon) allCandidates(active *rules.Set) (all []shadow.Candidate) {
	var taken []string
	if d.candidate != nil {
		taken = d.candidate.Domains()
	}
	for _, domain := range taken {
		for _, item := range d.candidate.Items(domain) {
			if !item.Same(active.Item(domain, item.Entry())) {
				all = append(all, shadow.Candidate{Item: item})
			}
		}
	}
	for _, c := range d.trials {
		if !slices.Contains(taken, c.Item.Domain()) {
			all = append(all, c)
		}
	}
	return all
}
