package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

const (
	// tallyEvery is how often a node tells the others of its rule database what it has counted of versions in shadow, and
	// tallyTime how long that may take.
	tallyEvery = time.Second
	tallyTime  = 5 * time.Second
	// tidyEvery is how often tallies of versions that left shadow, old traffic, and sessions that are over are erased, and tidyTime how
	// long that may take.
	tidyEvery = time.Minute
	tidyTime  = 10 * time.Second
	// talliedClients is how many clients of each kind a node tells of.
	talliedClients = 50
)

// tallyCounts is requests as the rule database has them.
func tallyCounts(c shadow.Counts) rulestore.Counts {
	return rulestore.Counts{c.BothPass, c.BothDeny, c.OnlyCandidate, c.OnlyActive, c.Unknown}
}

func countsOf(c rulestore.Counts) shadow.Counts {
	return shadow.Counts{BothPass: c[0], BothDeny: c[1], OnlyCandidate: c[2], OnlyActive: c[3], Unknown: c[4]}
}

// tallyClients is the clients of a tally, as the rule database has them.
type tallyClients struct {
	Since          time.Time
	Denied, Passed offenders.Summary
}

// keepTallies tells the rule database what was counted of versions in shadow, until ctx ends, and once more then.
func (d *Daemon) keepTallies(ctx context.Context) {
	keepTelling(ctx, tallyEvery, d.tellTallies, func(failed string) {
		d.config.Log.Warn("what was counted of versions in shadow can't be kept in the rule database; it is told again", "error", failed)
	})
}

// keepTelling tells the rule database something each step, until ctx ends, and once more then. It calls warn when that fails, once for
// each reason.
func keepTelling(ctx context.Context, step time.Duration, tell func(context.Context) error, warn func(failed string)) {
	said := ""
	try := func(ctx context.Context) {
		failed := ""
		if err := tell(ctx); err != nil {
			failed = err.Error()
		}
		if failed != "" && failed != said && ctx.Err() == nil {
			warn(failed)
		}
		said = failed
	}
	every(step, func(time.Time) { try(ctx) })(ctx)
	try(context.WithoutCancel(ctx))
}

// keepTidy erases each minute what the rule database needs to keep no longer, and counts sessions and the tokens that end soon, until ctx ends.
// The next minute tries again where one of these fails.
func (d *Daemon) keepTidy(ctx context.Context) {
	every(tidyEvery, func(now time.Time) {
		store := d.feed.Store()
		if store == nil {
			return
		}
		within, stop := context.WithTimeout(ctx, tidyTime)
		defer stop()
		_, _, _, _ = store.Forget(within), store.ForgetTraffic(within, now), store.ForgetLimited(within), store.NoticeEnds(within, now)
		if n, err := store.TokensEnding(within, now); err == nil {
			d.tokensEnding.Store(n)
		}
		if n, err := store.ForgetSessions(within); err == nil {
			d.sessions.Store(n)
		}
	})(ctx)
}

// tellTallies adds what this node has counted to what others have.
func (d *Daemon) tellTallies(ctx context.Context) error {
	store := d.feed.Store()
	if store == nil {
		return nil
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	tallies := d.board.Tallies(talliedClients)
	if len(tallies) == 0 {
		return nil
	}
	told := make([]rulestore.Tally, len(tallies))
	for i := range tallies {
		t := &tallies[i]
		told[i] = rulestore.Tally{
			Domain: t.Key.Domain, Rule: t.Key.Rule, Version: t.Key.Version, Beside: t.Key.Over, Counts: tallyCounts(t.Counts), Clients: d.writeClients(t),
		}
	}
	ctx, stop := context.WithTimeout(ctx, tallyTime)
	defer stop()
	if err := store.Add(ctx, d.name(), told); err != nil {
		return err
	}
	d.board.Taken(tallies)
	return nil
}

// writeClients is the clients of a tally by the names that people may see, as many as fit.
func (d *Daemon) writeClients(t *shadow.Tally) string {
	c := tallyClients{t.ClientsSince, d.shown(t.Denied), d.shown(t.Passed)}
	for {
		text, err := json.Marshal(c)
		if err == nil && len(text) <= rulestore.MaxClients {
			return string(text)
		}
		c.Denied, c.Passed = c.Denied.First(len(c.Denied.Counts)/2), c.Passed.First(len(c.Passed.Counts)/2)
	}
}

// shown is a summary of clients as they may be told of.
func (d *Daemon) shown(s offenders.Summary) offenders.Summary {
	s.Counts = slices.Clone(s.Counts)
	for i := range s.Counts {
		rule, key, _ := strings.Cut(s.Counts[i].Name, "\x00")
		s.Counts[i].Name = rule + "\x00" + d.clientName(key)
	}
	return s
}

// reports is how the candidates of a domain differ, by their rules; "": of all domains. Those of the rule database are of all its
// nodes, unless it can't be asked.
func (d *Daemon) reports(ctx context.Context, domain string, clients int) []*shadow.Report {
	var tallied []rulestore.Tallied
	if d.feed != nil && d.feed.Store() != nil {
		within, stop := context.WithTimeout(ctx, tallyTime)
		defer stop()
		if err := d.tellTallies(within); err == nil {
			tallied, _ = d.feed.Store().Tallies(within, domain) // else this node's are shown, and the report says so
		}
	}
	now := time.Now()
	reports := d.board.Reports(domain, clients, now)
	for _, r := range reports {
		r.NewlyDenied, r.NewlyPassed = d.clientsShown(r.NewlyDenied), d.clientsShown(r.NewlyPassed)
	}
	for i := range tallied {
		t := &tallied[i]
		key := shadow.Key{Domain: t.Domain, Rule: t.Rule, Version: t.Version, Over: t.Beside}
		at := slices.IndexFunc(reports, func(r *shadow.Report) bool { return r.Key == key })
		if at < 0 {
			continue // it runs beside another version by now, or this node has yet to hear of it
		}
		sum(reports[at], t, clients)
	}
	return reports
}

// sum makes the report of this node one of all nodes.
func sum(r *shadow.Report, t *rulestore.Tallied, clients int) {
	r.Nodes, r.Counts, r.Recent = len(t.Clients), countsOf(t.Counts), countsOf(t.Recent)
	r.RecentSince = t.RecentSince
	if t.Began.Before(r.Since) {
		r.Since = t.Began
	}
	var denied, passed []offenders.Summary
	for _, text := range t.Clients {
		var c tallyClients
		if json.Unmarshal([]byte(text), &c) != nil {
			continue // of a newer node
		}
		denied, passed = append(denied, c.Denied), append(passed, c.Passed)
		if c.Since.Before(r.ClientsSince) {
			r.ClientsSince = c.Since
		}
	}
	r.NewlyDenied, r.NewlyPassed = shadow.ClientsOf(offenders.Sum(denied, clients)), shadow.ClientsOf(offenders.Sum(passed, clients))
}

// clientsShown is clients as they may be told of.
func (d *Daemon) clientsShown(clients []shadow.Client) []shadow.Client {
	shown := slices.Clone(clients)
	for i := range shown {
		shown[i].Key = d.clientName(shown[i].Key)
	}
	return shown
}
