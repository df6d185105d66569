package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// MaxLimits is how many limits a descriptor may have. A request meets all of them, so this and
// MaxDescriptors bound how many states one request reads and writes.
const MaxLimits = 16

// rules makes the rules of a descriptor, one for each of its limits; base is
// what they have in common. A descriptor has its limits in one of two forms, and never in both:
//
//	limits: [10/s burst 20, {name: day, limit: 1000/day}]      Weir's
//	rate_limit: {unit: minute, requests_per_unit: 10}          Envoy's
func (f *file) rules(m *mapping, base Rule) []*Rule {
	var made []*Rule
	name := base.Name
	_, listed := m.members["limits"]
	limited := m.value("rate_limit")
	switch {
	case listed && limited != nil:
		f.add(m.members["limits"].key, SeverityError, name, "limits and rate_limit exclude each other; write rate_limit as one of the limits, as 10/s fixed-window")
	case listed:
		made = f.limits(m, base)
	case limited != nil:
		made = f.rateLimit(limited, base)
	default:
		f.idle(m, name)
	}
	for _, r := range made {
		if r.Limit != nil {
			r.hash = hashPlace(r.place)
		}
	}
	limits := slices.DeleteFunc(slices.Clone(made), func(r *Rule) bool { return r.Limit == nil })
	f.fit(m, &base, limits)
	for _, r := range limits {
		f.divide(m.value("quota"), r)
	}
	return made
}

// fit refuses what a descriptor says besides its limits where it can't be with one of them;
// made is the rules that have a limit.
func (f *file) fit(m *mapping, base *Rule, made []*Rule) {
	charge, sync, lease, sharing, partition := m.value("charge"), m.value("sync"), m.value("lease"), m.value("sharing"), m.value("partition")
	for _, r := range made {
		if charge != nil && base.After {
			f.after(charge, r)
		}
		if sync != nil && base.Sync > 0 {
			f.synced(sync, r)
		}
		if lease != nil && base.Lease > 0 {
			f.leased(lease, r)
		}
		if why := bounds.Unfit(r.Sharing, r.Limit, r.Nodes); sharing != nil && why != "" {
			f.add(sharing, SeverityError, r.Name, "sharing: %s is impossible for %q: %s", r.Sharing, r.Limit, why)
		}
	}
	if m.value("leaders") != nil && base.Leaders > 0 && base.Sharing != weir.SharingLeader {
		f.add(m.members["leaders"].key, SeverityError, base.Name, "leaders: %d is for sharing: leader, which divides the keys of a rule among so many; write that too, or leave leaders out", base.Leaders)
	}
	if partition != nil && base.Partition != "" {
		f.parted(m.members["partition"].key, partition, base, made)
	}
}

// options reads what a descriptor, whose key and value are those of at, says besides
// them and its limits. What it makes is a Rule without a limit, from which each rule of the descriptor
// is copied.
func (f *file) options(m *mapping, name string, path []Entry, at *place) Rule {
	r := Rule{
		Name: name, Domain: f.domain.name, Path: path,
		File: f.file, Line: m.node.Line, Column: m.node.Column,
		Shadow:         f.flag(m, "shadow_mode", name),
		QuotaMode:      f.flag(m, "quota_mode", name),
		DetailedMetric: f.flag(m, "detailed_metric", name),
		ValueToMetric:  f.flag(m, "value_to_metric", name),
		ShareThreshold: f.flag(m, "share_threshold", name),
		Owner:          f.text(m, "owner", name),
		Policy:         f.policy(m, name),
		After:          f.oneOf(m, "charge", name, "before", "after") == "after",
		QuotaPercent:   f.quota(m, name),
	}
	if n := m.value("metadata"); n != nil {
		r.Metadata = f.metadata(n, name)
	}
	if r.ShareThreshold && !at.key().wild() && !at.pattern(at.entry.Value).wild() {
		f.add(m.members["share_threshold"].key, SeverityError, name, "share_threshold needs a * in the value: it is for values that one pattern stands for")
	}
	return r
}

// policy reads what a descriptor says of its store and of the other nodes. Whether the store that
// is used can do it is not known here: Set.Fits asks that.
func (f *file) policy(m *mapping, name string) weir.Policy {
	p := weir.Policy{
		Fallback:  weir.Fallback(f.oneOf(m, "fallback", name, "local", "open", "closed")),
		Sharing:   weir.Sharing(f.oneOf(m, "sharing", name, "lease", "leader", "mesh", "gossip", "hub", "divided", "sticky")),
		Partition: weir.Partition(f.oneOf(m, "partition", name, "proportional", "closed", "reserve", "share", "open")),
		Sync:      f.duration(m, "sync", name),
		Lease:     f.duration(m, "lease", name),
	}
	nodes, _ := f.number(m, "nodes", name, 1, weir.MaxNodes)
	p.Nodes = int(nodes)
	leaders, _ := f.number(m, "leaders", name, 1, weir.MaxLeaders)
	p.Leaders = int(leaders)
	if p.Fallback == "" {
		p.Fallback = weir.FallbackLocal
	}
	return p
}

// idle warns of options that need a limit, where there is none. They do not hold for the descriptors
// below, as their author may believe.
func (f *file) idle(m *mapping, name string) {
	for _, key := range []string{"name", "shadow_mode", "quota_mode", "charge", "fallback", "sync", "lease", "nodes", "sharing", "leaders", "partition", "quota"} {
		if m.value(key) != nil {
			f.add(m.members[key].key, SeverityWarning, name, "%s has no effect: this descriptor has no limit of its own", key)
		}
	}
}

// after refuses charge: after where it has no meaning. A permit says that work goes on, and
// warm-up and a queue say when work may begin: a report of work that is done is too late for them.
func (f *file) after(at *yaml.Node, r *Rule) {
	switch a := r.Limit.Algorithm(); a {
	case weir.Concurrent, weir.WarmUp, weir.LeakyQueue:
		f.add(at, SeverityError, r.Name, "charge: after is impossible for %s: work that is done can't be held back", a)
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow:
	}
}

// synced refuses sync for limits that a node can't keep by itself: such as strict ones, which
// promise that no window ever holds more.
func (f *file) synced(at *yaml.Node, r *Rule) {
	switch why := r.Limit.Unsyncable(); {
	case why != "":
		f.add(at, SeverityError, r.Name, "sync is impossible for %s", why)
	case r.After:
		f.add(at, SeverityWarning, r.Name, "sync has no effect beside charge: after: work that is done is reported to the store at once")
	}
}

// leased refuses lease for limits of which nothing can be taken beforehand, and beside words that say
// otherwise.
func (f *file) leased(at *yaml.Node, r *Rule) {
	switch why := r.Policy.UnfitFor(r.Limit); {
	case r.Limit.Unleasable() != "" || r.Sync > 0 || r.Sharing != "":
		f.add(at, SeverityError, r.Name, "%s", why)
	case r.After:
		f.add(at, SeverityWarning, r.Name, "lease has no effect beside charge: after: work that is done is reported to the store at once")
	}
}

// limits reads the list of limits in Weir's own words. Each is a text, or a mapping with a name.
//
// A name is worth having where a limit is to keep its count while its period changes: the place of
// a count has the name of the limit, and else only its kind and, beside others of the kind, its
// period.
func (f *file) limits(m *mapping, base Rule) []*Rule {
	const should = "limits is a list of limits, as in limits: [10/s, 1000/day fixed-window]"
	list := f.items(m, "limits", base.Name, should)
	switch {
	case len(list) > MaxLimits:
		f.add(list[MaxLimits], SeverityError, base.Name, "%d limits; a descriptor may have %d", len(list), MaxLimits)
		return nil
	case len(list) == 0 && (m.value("limits") == nil || m.value("limits").Kind == yaml.SequenceNode):
		f.add(m.members["limits"].key, SeverityError, base.Name, "no limits; "+should)
	}
	// unnamed are in made, too. Their places depend on each other, so they get them at the end.
	var made, unnamed []*Rule
	type known struct{ name, text string } // one without a text: that name is taken
	seen := map[known]bool{}
	for i, n := range list {
		// A limit that is refused leaves a gap in the numbers, so that the names of the others
		// in findings are those that they will have.
		rule := base
		if len(list) > 1 {
			rule.Name = fmt.Sprintf("%s#%d", base.Name, i+1)
		}
		name := f.limit(n, &rule, base.Name)
		if rule.Limit == nil {
			continue
		}
		// A name is a place for the count: it can be had only once.
		at := rule.at.node()
		if it := (known{name, rule.Limit.String()}); seen[it] || name != "" && seen[known{name, ""}] {
			f.add(at, SeverityError, rule.Name, "duplicate limit; the same stands there before")
			continue
		}
		seen[known{name, rule.Limit.String()}], seen[known{name, ""}] = true, true
		if rule.place = placeOf(rule.Domain, rule.Path) + "#name=" + escape(name, ""); name == "" {
			unnamed = append(unnamed, &rule)
		}
		f.passes(at, &rule)
		made = append(made, &rule)
	}
	f.tellApart(placeOf(base.Domain, base.Path), unnamed)
	return made
}

// tellApart gives the unnamed limits of the descriptor at place theirs, and warns
// of those that only their order tells apart:
//
//	limits: [10/s, 1000/day]                    by their periods
//	limits: [10/s, 10/s fixed-window]           by their kinds
//	limits: [10/s burst 20, 5/s burst 100]      by their order: swapped, each gets the other's count
func (f *file) tellApart(place string, unnamed []*Rule) {
	limits := make([]*weir.Limit, len(unnamed))
	for i, r := range unnamed {
		limits[i] = r.Limit
		alike := func(l *weir.Limit) bool { // whichever comes first has the one place
			return weir.StateRules("", []*weir.Limit{l, r.Limit})[0] == weir.StateRules("", []*weir.Limit{r.Limit, l})[0]
		}
		if slices.ContainsFunc(limits[:i], alike) {
			f.add(r.at.node(), SeverityWarning, r.Name, "another limit here has the same algorithm and period, "+
				"so only their order tells their counts apart; give them names, as in {name: NAME, limit: %s}", r.Limit)
		}
	}
	for i, place := range weir.StateRules(place, limits) {
		unnamed[i].place = place
	}
}

// limit reads one limit of a descriptor into r: its text, or its name and text. r.Limit
// stays nil when the limit was refused. descriptor is the name of the descriptor, behind which the
// limit's own name stands: shop/user#day.
func (f *file) limit(n *yaml.Node, r *Rule, descriptor string) (name string) {
	at := n
	if n.Kind == yaml.MappingNode {
		m, _ := f.mapping(n, r.Name, "")
		if name = f.text(&m, "name", r.Name); name != "" {
			r.Name = descriptor + "#" + escape(name, "/=")
		}
		for _, key := range m.order {
			if key != "name" && key != "limit" {
				f.add(m.members[key].key, SeverityError, r.Name, "unknown key %q in a limit; %s", key, didYouMean(key, []string{"name", "limit"}))
			}
		}
		if at = m.value("limit"); at == nil {
			f.add(n, SeverityError, r.Name, "limit is missing; write {name: NAME, limit: 10/s}")
			return name
		}
	}
	text := f.scalar(at, r.Name, "a limit is a text such as 10/s, or {name: NAME, limit: 10/s}")
	if text == "" {
		if at.Kind == yaml.ScalarNode && !null(at) {
			f.add(at, SeverityError, r.Name, "an empty limit; write a limit such as 10/s")
		}
		return name
	}
	limit, err := weir.ParseLimit(text)
	if err != nil {
		f.add(at, SeverityError, r.Name, "%v", err)
		return name
	}
	r.Limit, r.at = limit, positionOf(at)
	return name
}

// passes warns of a limit that passes less than it says. It is no mistake: a count of 0 closes a path
// for a while, and the rest of the file goes on.
func (f *file) passes(at *yaml.Node, r *Rule) {
	if r.Limit.Spec().Count == 0 {
		f.add(at, SeverityWarning, r.Name, "never passes: a count of 0 denies all")
	}
	if l := r.Limit; l.Algorithm() == weir.Concurrent && l.Spec().Count > weir.MaxHolders {
		f.add(at, SeverityWarning, r.Name, "a key has at most %d holders at a time, whatever the count", weir.MaxHolders)
	}
}

// rateLimit reads a limit in Envoy's form. It gives a rule even where the unit or the count was
// refused, so that the descriptor does not seem to have none; of a file with an error nothing is
// used.
func (f *file) rateLimit(n *yaml.Node, base Rule) []*Rule {
	name := base.Name
	m, ok := f.mapping(n, name, "write rate_limit: {unit: minute, requests_per_unit: 10}")
	if !ok {
		return nil
	}
	f.onlyKeys(&m, name, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces")
	r := base
	r.Envoy, r.EnvoyName = true, f.text(&m, "name", name)
	r.Unlimited = f.flag(&m, "unlimited", name)
	r.Replaces = f.replaced(&m, &r)
	period, ok := f.unit(&m, name, r.Unlimited)
	count, counted := f.number(&m, "requests_per_unit", name, 0, weir.MaxWindowCount)
	if r.Unlimited || !ok || !counted {
		return []*Rule{&r}
	}
	limit, err := weir.Spec{Count: count, Period: period, Algorithm: weir.FixedWindow}.Limit()
	if err != nil {
		f.add(n, SeverityError, name, "%v", err)
		return nil
	}
	r.Limit, r.at = limit, positionOf(n)
	r.place = limit.StateRule(placeOf(r.Domain, r.Path))
	if m.value("requests_per_unit") == nil {
		f.add(n, SeverityWarning, name, "never passes: requests_per_unit is missing, and without it is 0")
	} else {
		f.passes(m.value("requests_per_unit"), &r)
	}
	return []*Rule{&r}
}

// unit reads the period of a rate_limit. Envoy's days and longer are fixed
// lengths since 1970, not those of a calendar: a month is 30 days, and a year 365. Case does not
// matter; it is folded to upper case first, as envoyproxy/ratelimit does.
func (f *file) unit(m *mapping, rule string, unlimited bool) (period time.Duration, ok bool) {
	const day = 24 * time.Hour
	units := []string{"second", "minute", "hour", "day", "week", "month", "year"}
	lengths := []time.Duration{time.Second, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day}
	n := m.value("unit")
	text := f.text(m, "unit", rule)
	i := slices.Index(units, strings.ToLower(strings.ToUpper(text)))
	switch {
	case unlimited && i >= 0:
		f.add(n, SeverityError, rule, "unlimited excludes unit; leave one of them out")
	case unlimited && text != "":
		f.add(n, SeverityWarning, rule, "unit %q is unknown, and has no effect beside unlimited", text)
	case unlimited:
	case n == nil || n.Kind == yaml.ScalarNode && text == "":
		f.add(m.node, SeverityError, rule, "unit is missing; write unit: second, minute, hour, day, week, month or year")
	case i >= 0:
		return lengths[i], true
	case text != "":
		f.add(n, SeverityError, rule, "unit %q: %s", text, didYouMean(text, units))
	}
	return 0, false
}

// replaced reads the names of the limits that r replaces. Whether there are such limits is known
// when the whole file is read, so lint asks.
func (f *file) replaced(m *mapping, r *Rule) []string {
	const should = "write replaces: [{name: NAME}]"
	var names []string
	for _, n := range f.items(m, "replaces", r.Name, should) {
		it, ok := f.mapping(n, r.Name, should)
		if !ok {
			continue
		}
		f.onlyKeys(&it, r.Name, "replaces", "name")
		name, ok := f.needed(&it, "name", r.Name)
		switch {
		case !ok:
		case name == r.EnvoyName:
			f.add(n, SeverityError, r.Name, "replaces its own name, %q; leave that out", name)
		default:
			names = append(names, name)
			f.replaces = append(f.replaces, mention{name, r.Name, n})
		}
	}
	return names
}
