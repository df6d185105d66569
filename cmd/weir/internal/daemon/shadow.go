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
	all := d.allCandidates()
	if left := d.board.Run(d.limiter.Set(), all, time.Now()); left > 0 {
		d.config.Log.Warn("too many domains have candidates; the last by name are not compared", "most", shadow.MaxDomains, "left", left)
	}
	d.limiter.Try(all, d.board.Told)
}

// allCandidates is those of files and of the database, which stand back where both
// have a domain; nil: there are none.
func (d *Daemon) allCandidates() *rules.Set {
	if len(d.trials) == 0 {
		return d.candidate
	}
	var sets []*rules.Set
	var taken []string
	if d.candidate != nil {
		sets, taken = append(sets, d.candidate), d.candidate.Domains()
	}
	for _, set := range d.trials {
		if !slices.Contains(taken, set.Domains()[0]) {
			sets = append(sets, set)
		}
	}
	all, err := rules.Join(sets...)
	if err != nil { // it can't be: no two have a domain in common
		d.config.Log.Error("candidates of the rule database are not compared", "error", err)
		return d.candidate
	}
	return all
}
