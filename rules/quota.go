package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
)

// Quota is how proxies get their portions of a limit, where each asks once for many requests, as Envoy's
// rate_limit_quota filter does.
type Quota uint8

// The ways.
const (
	// QuotaNone is that no portion of the limit can be given: see Limit.
	QuotaNone Quota = iota
	// QuotaPrepaid portions are charged to the count of the rule when they are given. Proxies and other
	// callers share the whole limit.
	QuotaPrepaid
	// QuotaBooked portions are a pace for some time to come, which no count of the rule can promise. So
	// proxies have a part of the limit to themselves: Rule.Quota.
	QuotaBooked
)

const (
	// quotaWindow is the shortest window of which portions are prepaid: several of them must fit in.
	quotaWindow = time.Minute
	// quotaPace is the least pace of a part that is booked, in events a minute.
	quotaPace = 60
)

// QuotaOf says how proxies get their portions of l, and why they can't where it is QuotaNone.
func QuotaOf(l *weir.Limit) (way Quota, why string) {
	switch s := l.Spec(); {
	case s.CountDenied:
		return QuotaNone, "count-denied: a proxy that denies by itself would not count it; leave count-denied out"
	case s.Debt > 0:
		return QuotaNone, "debt: a portion would use up the debt, which is for single requests; leave debt out"
	case s.Algorithm == weir.Concurrent, s.Algorithm == weir.LeakyQueue, s.Algorithm == weir.WarmUp:
		return QuotaNone, s.Algorithm.String() + ": no bucket of tokens does the same; take gcra"
	case s.Algorithm == weir.FixedWindow && !s.Anchored && s.Period >= quotaWindow:
		return QuotaPrepaid, ""
	case Pace(l) >= quotaPace:
		return QuotaBooked, ""
	case s.Algorithm.Family() == weir.GCRA:
		return QuotaPrepaid, ""
	}
	return QuotaNone, fmt.Sprintf("%q: its window is too short for portions, and it passes less than one event a second; take gcra, or a fixed-window of a minute or more", l)
}

// Pace is how many events of l pass in a minute once its burst is used up, rounded down.
func Pace(l *weir.Limit) int64 {
	s := l.Spec()
	if us, part, of := l.Span(1 << 20); of > 0 { // a bucket: the time in which so many drain
		if part > 0 {
			us++
		}
		return int64(time.Minute/time.Microsecond) * (1 << 20) / max(us, 1)
	}
	us := int64(s.Period / time.Microsecond)
	return s.Count * int64(time.Minute/time.Microsecond) / max(us, 1) // a count is below 2^32
}

// quota reads the part of a rule's limits that is for proxies, in percent; 0: the rule has none.
func (f *file) quota(m *mapping, name string) int64 {
	n := m.value("quota")
	if n == nil {
		return 0
	}
	const should = "quota is the part of a limit that proxies divide among them, as in quota: 80%"
	text := f.scalar(n, name, should)
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || percent < 1 || percent > 100 {
		if n.Kind == yaml.ScalarNode {
			f.add(n, SeverityError, name, "quota: %q is not 1%%…100%%; %s", text, should)
		}
		return 0
	}
	return int64(percent)
}

// divide divides the limit of a rule between proxies and other callers, where its portions are booked.
func (f *file) divide(n *yaml.Node, r *Rule) {
	if n == nil || r.QuotaPercent == 0 {
		return
	}
	way, why := QuotaOf(r.Limit)
	switch {
	case why != "":
		f.add(n, SeverityError, r.Name, "quota is impossible for %s", why)
	case r.After:
		f.add(n, SeverityError, r.Name, "quota is impossible beside charge: after: a portion is given before the work; leave one of them out")
	case way == QuotaPrepaid:
		f.add(n, SeverityWarning, r.Name, "quota has no effect on %q: proxies and other callers share the whole of it", r.Limit)
	default:
		if err := r.divide(); err != nil {
			f.add(n, SeverityError, r.Name, "%v", err)
		}
	}
}

// divide gives the proxies' part of r.Limit to r.Quota, and leaves the rest.
func (r *Rule) divide() error {
	part, rest := r.Limit.Spec(), r.Limit.Spec()
	part.Count = r.Limit.Spec().Count * r.QuotaPercent / 100
	rest.Count -= part.Count
	if part.Algorithm.Family() == weir.GCRA {
		part.Burst = r.Limit.Spec().Burst * r.QuotaPercent / 100
		rest.Burst -= part.Burst
		part.Initial, rest.Initial = nil, nil
		if part.Burst < 2 {
			return fmt.Errorf("quota: %d%% of %q is a burst of %d, and proxies need 2 at least; write a larger burst or quota", r.QuotaPercent, r.Limit, part.Burst)
		}
		if rest.Burst == 0 && rest.Count > 0 {
			return fmt.Errorf("quota: %d%% of %q leaves no burst for other callers; write a larger burst, or quota: 100%%", r.QuotaPercent, r.Limit)
		}
		if rest.Count == 0 {
			rest.Burst = 0
		}
	}
	tooSmall := fmt.Errorf("quota: %d%% of %q is less than one event a second; write a larger quota", r.QuotaPercent, r.Limit)
	if part.Count == 0 {
		return tooSmall
	}
	quota, err := part.Limit()
	left, err2 := rest.Limit()
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("quota: %d%% of %q can't be divided: %w", r.QuotaPercent, r.Limit, err)
	}
	if way, _ := QuotaOf(quota); way != QuotaBooked {
		return tooSmall
	}
	r.Whole, r.Quota, r.Limit = r.Limit, quota, left
	return nil
}

// Meets is what Check would ask about one descriptor: its rules, with the limits that exceptions give them,
// and the key of their counts. None: nothing limits it.
func (l *Limiter) Meets(domain string, entries []Entry) (all []*Rule, key string, err error) {
	r := &Request{Domain: domain, Descriptors: []Descriptor{{Entries: entries, Cost: 1}}}
	set, err := l.active(r)
	if err != nil {
		return nil, "", err
	}
	t := l.emptyTake()
	defer l.release(t)
	t.match(set, r)
	t.except(l.exceptions, l.store, false)
	all = append(all, t.meets[0].rules...)
	return all, t.meets[0].key, nil
}
