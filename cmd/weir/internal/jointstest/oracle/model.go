package oracle

import (
	"fmt"
	"slices"
)

// MaxCost is the largest cost that any limit passes.
const MaxCost = 1 << 30

// Modes of a rule. Hard is the usual one.
const (
	Hard   = ""
	Quota  = "quota"
	Shadow = "shadow"
	After  = "after"
)

// Rule is what a descriptor of a rule file says.
type Rule struct {
	Key       string
	Mode      string
	Unlimited bool
	// Lease is for how long a process may go on by what it took beforehand; empty: it takes none.
	Lease  string
	Limits []Limit
}

// Descriptor is a part of a request.
type Descriptor struct {
	Key, Value string
	Cost       int64
	Override   string // a limit that the request brings along, or empty
}

// Request is what is asked.
type Request struct {
	Descriptors []Descriptor
	Peek        bool
}

// Outcomes of a decision.
const (
	Unknown    = "" // the listener does not tell
	Allowed    = "allowed"
	Denied     = "denied"
	Impossible = "impossible"
)

// Decision is what an answer says of a limit.
type Decision struct {
	Descriptor int
	Outcome    string
	Told       bool // of Charged and Remaining
	Charged    bool
	Remaining  int64
	Retry      int64 // microseconds; 0: none
	Degraded   bool  // a fallback decided
}

// Answer is what came of a request.
type Answer struct {
	Allowed bool
	// Failed is an answer that is none: a listener's status, or an error.
	Failed string
	// Done is whether permits are back by now.
	Done bool
	// Lost is whether nobody knows what was decided.
	Lost bool
	// Vague is whether a fallback may have decided without a word of it.
	Vague     bool
	Decisive  int // -1: none; -2: not told
	Decisions []Decision
}

// Promises is what a store promises.
type Promises struct {
	// Keys is how many keys a rule has room for.
	Keys int
	// Exact is whether counts are those of one process, so that what remains is told
	// exactly.
	Exact bool
	// Due is whether what has room must pass.
	Due bool
	// Apart is whether counts change their owners, which then know only the limit that was asked
	// last.
	Apart bool
}

// Model is all that was asked so far.
type Model struct {
	promises Promises
	rules    map[string]*Rule
	counts   map[countOf]*Count
	excepted map[countOf]Limit          // of keys that have a limit of their own
	keys     map[string]map[string]bool // of each rule, in use at some time
	hazy     map[string]bool            // rules that had more keys than there is room for
	top      int64                      // the latest that the clock has shown
	last     int64                      // what it has shown last
	loaded   int64                      // the same, when the rules changed
	turned   map[string]int64           // and when a rule was asked first since then
	reset    map[string]Span            // when a key of a rule was reset last
	receipts int                        // how many were given
	lost     int                        // of them, before the store lost its counts
}

type countOf struct{ key, value, limit string }

// New makes a model of a store that was never used.
func New(p Promises) *Model {
	m := &Model{promises: p, excepted: map[countOf]Limit{}}
	m.Forget()
	return m
}

// Forget is that the store was lost, as it may be.
func (m *Model) Forget() {
	m.counts, m.keys, m.hazy = map[countOf]*Count{}, map[string]map[string]bool{}, map[string]bool{}
	m.reset = map[string]Span{}
}

// Load is that these rules are active.
func (m *Model) Load(rules []Rule) {
	m.rules = map[string]*Rule{}
	m.loaded, m.turned = m.top, map[string]int64{}
	for i := range rules {
		r := &rules[i]
		m.rules[r.Key] = r
		for id, c := range m.counts {
			for j := range r.Limits {
				if id.key == r.Key && id.limit == placeOf(r, j) {
					c.load(m.limitOf(id, r, j))
				}
			}
		}
	}
}

// limitOf is what decides about a count: the limit of the key alone, or that of the rule.
func (m *Model) limitOf(id countOf, r *Rule, j int) Limit {
	if l, ok := m.excepted[id]; ok {
		return l
	}
	return r.Limits[j]
}

// Except is that a key has a limit of its own from now on, in place of the j-th of its rule; nil: it has that again.
func (m *Model) Except(key, value string, j int, l *Limit, at Span) {
	r := m.rules[key]
	id := countOf{key, value, placeOf(r, j)}
	if delete(m.excepted, id); l != nil {
		m.excepted[id] = *l
	}
	m.sees(at)
	if c := m.counts[id]; c != nil {
		c.load(m.limitOf(id, r, j))
	}
	m.loaded, m.turned = m.top, map[string]int64{} // receipts from before may give nothing back
}

// placeOf tells the limits of a rule apart: by their names, or else their algorithms.
func placeOf(r *Rule, i int) string {
	if name := r.Limits[i].Name; name != "" {
		return "=" + name
	}
	n := 0
	for j := range i {
		if r.Limits[j].Name == "" && r.Limits[j].Algorithm == r.Limits[i].Algorithm {
			n++
		}
	}
	return fmt.Sprint(r.Limits[i].Algorithm, "/", n)
}

// ask is a request's question to one count.
type ask struct {
	key   string // of the rule
	mode  string
	count *Count
	cost  int64
	// leased asks may be denied early, by what other processes hold and because the process asks the
	// store now and then only. They never pass too much.
	leased bool
	huge   bool // a descriptor costs more than any limit passes
	of     []int
	out    []*Decision // of the answer; nil where it does not tell
}

// Receipt is what a request was charged.
type Receipt struct {
	descriptors int
	number      int
	charges     []charged
	at          Span
	settled     bool // or refused, perhaps for good
	done        bool
	// void receipts give nothing back, or can't be settled any more.
	Void bool
}

type charged struct {
	key    string // of the rule
	count  *Count
	entry  *entry
	of     []int
	permit bool
	ttl    int64
}

// asks are the questions of a request, in the order of its descriptors and the file.
func (m *Model) asks(q *Request, at Span, a *Answer) (asks []*ask, faults []string) {
	next := 0
	for i := range q.Descriptors {
		d := &q.Descriptors[i]
		r := m.rules[d.Key]
		if d.Override != "" {
			r = override(d)
		}
		if r == nil || r.Unlimited {
			continue
		}
		for j := range r.Limits {
			k := m.askOf(&asks, r, j, d, at)
			k.cost += min(d.Cost, MaxCost+1)
			k.huge = k.huge || d.Cost > MaxCost
			k.of = append(k.of, i)
			if a.Decisions == nil {
				continue
			}
			if next >= len(a.Decisions) || a.Decisions[next].Descriptor != i {
				return asks, append(faults, fmt.Sprintf("decision %d is not of descriptor %d", next, i))
			}
			k.out = append(k.out, &a.Decisions[next])
			next++
		}
	}
	if next < len(a.Decisions) {
		faults = append(faults, fmt.Sprintf("%d decisions, want %d", len(a.Decisions), next))
	}
	return asks, faults
}

func override(d *Descriptor) *Rule {
	l, err := Parse(d.Override)
	if err != nil {
		panic(err)
	}
	return &Rule{Key: "override " + d.Key + " " + d.Override, Limits: []Limit{l}}
}

// sees is that the clock shows at. When it steps back, a store may have forgotten what was as never
// used by then, though it is in use by the clock as it shows now: other keys got its place.
func (m *Model) sees(at Span) {
	if at.Hi < m.last {
		for _, c := range m.counts {
			c.rewind(m.last)
		}
	}
	m.last, m.top = at.Hi, max(m.top, at.Hi)
}

func (m *Model) askOf(asks *[]*ask, r *Rule, j int, d *Descriptor, at Span) *ask {
	id := countOf{r.Key, d.Value, placeOf(r, j)}
	c := m.counts[id]
	if c == nil {
		c = &Count{apart: m.promises.Apart}
		m.counts[id] = c
	}
	c.load(m.limitOf(id, r, j))
	m.sees(at)
	c.top = m.top
	if _, ok := m.turned[r.Key]; !ok {
		m.turned[r.Key] = m.top
	}
	c.behind = c.behind || at.Hi < m.top
	if m.keys[r.Key] == nil {
		m.keys[r.Key] = map[string]bool{}
	}
	m.keys[r.Key][d.Value] = true
	// A table has more room than it promises; some of its parts are full before others.
	if m.promises.Keys > 0 && len(m.keys[r.Key]) > m.promises.Keys/2 && !m.hazy[r.Key] {
		m.hazy[r.Key] = true
	}
	c.hazy = c.hazy || m.hazy[r.Key]
	for _, k := range *asks {
		if k.count == c {
			return k
		}
	}
	k := &ask{key: r.Key, mode: r.Mode, count: c, leased: r.Lease != ""}
	*asks = append(*asks, k)
	return k
}

// Haze marks all counts of rules that have more keys than there is room for.
func (m *Model) haze() {
	if len(m.hazy) == 0 {
		return
	}
	for id, c := range m.counts {
		c.hazy = c.hazy || m.hazy[id.key]
	}
}

// Check holds an answer to what it should be, and keeps what it charged.
func (m *Model) Check(q *Request, at Span, a *Answer) (receipt *Receipt, faults []string) {
	asks, faults := m.asks(q, at, a)
	m.haze()
	if a.Failed != "" {
		return nil, append(faults, a.Failed)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if a.Vague {
		a.Lost = true
	}
	if !a.Lost {
		faults = slices.Concat(m.judge(q, at, asks, a), m.consistent(q, asks, a))
	}
	m.receipts++
	receipt = &Receipt{descriptors: len(q.Descriptors), number: m.receipts, at: at}
	for _, k := range asks {
		e := m.charge(q, at, k, a)
		// The store may have charged all the same what a fallback denies, but no receipt is of it.
		if e == nil || k.degraded() && e.local == nil {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(k.of), func(i int) bool { return q.Descriptors[i].Cost == 0 })
		l := k.count.limit()
		one := charged{key: k.key, count: k.count, entry: e, of: of, permit: l.Algorithm == permit, ttl: l.TTL}
		receipt.charges = append(receipt.charges, one)
	}
	if m.promises.Exact && !a.Lost {
		for _, k := range asks {
			faults = append(faults, k.remains(at)...)
		}
	}
	return receipt, faults
}

// Must is whether a request must pass now.
func (m *Model) Must(q *Request, at Span) bool {
	asks, _ := m.asks(q, at, &Answer{})
	must, quotas, quota := m.passes(asks), false, false
	for _, k := range asks {
		switch k.mode {
		case Shadow:
		case Quota:
			quotas, quota = true, quota || k.due(q, at)
		default:
			must = must && k.due(q, at)
		}
	}
	return must && (!quotas || quota)
}

// Perhaps is that what a descriptor has used may have been forgotten.
func (m *Model) Perhaps(key, value string, at Span) {
	m.reset[key] = Span{at.Lo, max(at.Hi, m.top)}
	for id, c := range m.counts {
		if id.key == key && id.value == value && len(c.eras) > 0 {
			c.lose()
		}
	}
}

// Lose is that the store has lost its counts, and fallbacks have not.
func (m *Model) Lose() {
	m.lost = m.receipts
	for _, c := range m.counts {
		if len(c.eras) > 0 {
			c.lose()
		}
	}
}

// Excuse is that from now on nothing must pass: what was lost counts as used.
func (m *Model) Excuse() { m.promises.Due = false }

// degraded is whether a fallback decided.
func (k *ask) degraded() bool { return len(k.out) > 0 && k.out[0].Degraded }

// over is why the ask must not pass, or empty.
func (k *ask) over(q *Request, at Span) string {
	switch {
	case k.mode == After && !q.Peek:
		return k.count.over(at, k.cost+1)
	case k.mode == After:
		return k.count.over(at, 1)
	case k.huge && k.cost > MaxCost:
		return "it costs more than any limit passes"
	}
	return k.count.over(at, k.cost)
}

func (k *ask) due(q *Request, at Span) bool {
	switch {
	case k.leased && k.mode != After:
		return false
	case k.mode == After && !q.Peek:
		return k.cost < MaxCost && k.count.due(at, k.cost+1)
	case k.mode == After:
		return k.count.due(at, 1)
	case k.huge:
		return false
	}
	return k.count.due(at, k.cost)
}

// localOver is why a fallback that counts in its process must not pass the ask. It is told
// of what passed by charge.
func (k *ask) localOver(at Span) string {
	if k.count.local == nil || k.mode == After || k.count.limit().Algorithm == permit {
		return ""
	}
	k.count.local.load(*k.count.limit())
	return k.count.local.over(at, k.cost)
}

// passes is whether what has room passes, at least after a while. In a cluster, a client may
// have to ask again until leases have come back. Where a limit counts what it denies, those
// questions use it up.
func (m *Model) passes(asks []*ask) bool {
	counts := func(k *ask) bool { return k.count.limit().CountDenied }
	return m.promises.Due && !(m.promises.Apart && slices.ContainsFunc(asks, counts))
}

// judge holds what passed and what was denied to the history.
func (m *Model) judge(q *Request, at Span, asks []*ask, a *Answer) (faults []string) {
	promised := m.passes(asks)
	due, quotas, quotaDue, quotaWhy := promised, 0, false, ""
	for _, k := range asks {
		why, mustPass := k.over(q, at), promised && k.due(q, at)
		if k.degraded() {
			why, mustPass = k.localOver(at), false
		}
		for _, d := range k.out {
			if d.Outcome == Allowed && why != "" {
				faults = append(faults, fmt.Sprintf("%s allows %d: %s", k.count.limit().Text, k.cost, why))
			}
			// A cluster may deny for a while, until leases have come back. Only a request that is
			// denied as a whole has waited for that.
			waited := !m.promises.Apart || !a.Allowed
			if d.Outcome != Allowed && d.Outcome != Unknown && mustPass && waited {
				faults = append(faults, fmt.Sprintf("%s says %s to %d, which has room", k.count.limit().Text, d.Outcome, k.cost))
			}
		}
		switch k.mode {
		case Shadow:
		case Quota:
			quotas++
			quotaDue = quotaDue || mustPass
			if why == "" {
				quotaWhy = "-"
			} else if quotaWhy != "-" {
				quotaWhy = why
			}
		default:
			due = due && mustPass
			if a.Allowed && why != "" && k.out == nil {
				faults = append(faults, fmt.Sprintf("%s passed %d: %s", k.count.limit().Text, k.cost, why))
			}
		}
	}
	if a.Allowed && quotas > 0 && quotaWhy != "-" {
		faults = append(faults, "passed, though no quota allows: "+quotaWhy)
	}
	if !a.Allowed && due && (quotas == 0 || quotaDue) {
		faults = append(faults, "denied, though all limits have room")
	}
	return faults
}

// consistent is what is wrong with an answer by itself.
func (m *Model) consistent(q *Request, asks []*ask, a *Answer) (faults []string) {
	if a.Decisions == nil {
		return nil
	}
	pass, quotas, quotaPass := true, false, false
	for _, k := range asks {
		for _, d := range k.out {
			switch ok := d.Outcome == Allowed || d.Outcome == Unknown; k.mode {
			case Shadow:
			case Quota:
				quotas, quotaPass = true, quotaPass || ok
			default:
				pass = pass && ok
			}
		}
	}
	if pass = pass && (!quotas || quotaPass); pass != a.Allowed {
		faults = append(faults, fmt.Sprintf("allowed is %v, and its decisions say %v", a.Allowed, pass))
	}
	for _, k := range asks {
		for i, d := range k.out {
			if !d.Told {
				continue
			}
			want := !q.Peek && q.Descriptors[k.of[i]].Cost > 0 && (k.mode == After || a.Allowed && d.Outcome == Allowed)
			// Nobody heard of a report whose owner was silent.
			unheard := k.mode == After && !m.promises.Exact && d.Outcome == Denied
			if d.Charged != want && !d.Degraded && !unheard {
				faults = append(faults, fmt.Sprintf("%s: charged is %v, want %v", k.count.limit().Text, d.Charged, want))
			}
			retries := d.Outcome == Denied && k.count.limit().Algorithm != permit
			// An owner that can't decide yet says when it can, of permits too.
			retries = retries || d.Outcome == Denied && !m.promises.Exact && d.Retry > 0
			if retries != (d.Retry > 0) && !d.Degraded && k.count.limit().Count > 0 {
				faults = append(faults, fmt.Sprintf("%s: %s, and retry after %dµs", k.count.limit().Text, d.Outcome, d.Retry))
			}
		}
	}
	return append(faults, decisive(asks, a, quotaPass)...)
}

// decisive is contract.md §3: the first impossible one; else the denied one with the
// largest retry; else the least remaining.
func decisive(asks []*ask, a *Answer, quotaPass bool) []string {
	if a.Decisive == -2 {
		return nil
	}
	mode := map[*Decision]string{}
	for _, k := range asks {
		for _, d := range k.out {
			mode[d] = k.mode
		}
	}
	rank := map[string]int{Allowed: 0, Denied: 1, Impossible: 2}
	best := -1
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if mode[d] == Shadow || mode[d] == Quota && quotaPass && d.Outcome != Allowed {
			continue
		}
		if best >= 0 {
			b := &a.Decisions[best]
			switch {
			case rank[d.Outcome] != rank[b.Outcome]:
				if rank[d.Outcome] < rank[b.Outcome] {
					continue
				}
			case d.Outcome == Denied && d.Retry <= b.Retry,
				d.Outcome == Allowed && d.Remaining >= b.Remaining,
				d.Outcome == Impossible:
				continue
			}
		}
		best = i
	}
	if best != a.Decisive {
		return []string{fmt.Sprintf("decisive is %d, want %d", a.Decisive, best)}
	}
	return nil
}

// charge keeps what an ask was charged.
func (m *Model) charge(q *Request, at Span, k *ask, a *Answer) *entry {
	outcome := Unknown
	if len(k.out) > 0 {
		outcome = k.out[0].Outcome
	}
	if !q.Peek && k.cost > 0 && !a.Lost {
		k.count.asked = len(k.count.eras) - 1
	}
	switch {
	case q.Peek || k.cost == 0, a.Done && k.count.limit().Algorithm == permit:
		return nil
	case a.Lost, k.degraded():
		// Perhaps it was charged twice: in time for the store, and told by the fallback.
		e := k.count.add(at, 0, 2*k.cost)
		e.cost, e.late = k.cost, true
		if k.degraded() && (a.Allowed && outcome == Allowed || k.mode == After) {
			e.local = k.locally(at)
		}
		return e
	case k.mode == After:
		k.count.forced = true
		e := k.count.add(at, k.cost, k.cost)
		if l := k.count.limit(); l.Algorithm == bucket || k.huge || !m.promises.Exact {
			e.least = 0 // a bucket goes down to its debt, and no further
		}
		return nil
	case !a.Allowed, outcome == Denied, outcome == Impossible:
		if l := k.count.limit(); l.CountDenied && outcome != Allowed && outcome != Impossible {
			k.count.add(at, 0, k.cost)
		}
		return nil
	case outcome == Unknown && k.mode != Hard:
		return k.count.add(at, 0, k.cost)
	}
	return k.count.add(at, k.cost, k.cost)
}

// locally keeps what a fallback has let pass.
func (k *ask) locally(at Span) *entry {
	if k.count.local == nil {
		k.count.local = &Count{apart: true}
	}
	l := k.count.local
	l.load(*k.count.limit())
	l.forced = l.forced || k.mode == After
	return l.add(at, k.cost, k.cost)
}

// remains holds what remains to the history.
func (k *ask) remains(at Span) (faults []string) {
	l := k.count.limit()
	if l.Mode == "relaxed" || l.Debt > 0 || l.Algorithm == bucket && k.mode == After {
		return nil
	}
	for _, d := range k.out {
		if !d.Told || d.Degraded {
			continue
		}
		if why := k.count.over(at, d.Remaining); why != "" && d.Remaining > 0 {
			faults = append(faults, fmt.Sprintf("%s: %d remain: %s", l.Text, d.Remaining, why))
		}
		if k.count.due(at, d.Remaining+1) {
			faults = append(faults, fmt.Sprintf("%s: %d remain, and one more has room", l.Text, d.Remaining))
		}
	}
	return faults
}

// receiptLife is how long a receipt can be settled.
const receiptLife = 15 * 60e6

// Settled is what became of a settlement: status is 200, 409 when the receipt was
// used or has expired, 400 when it is none of the listener's.
func (m *Model) Settled(r *Receipt, used []int64, at Span, status int) (faults []string) {
	if len(r.charges) == 0 {
		return nil
	}
	switch {
	// Neither another owner nor a store that was lost since knows what was settled.
	case status == 200 && r.done && !r.Void && r.number > m.lost:
		return []string{"a receipt was settled twice"}
	case status == 409 && r.settled, status == 400 && r.Void:
		return nil
	case status == 409 && (r.expired(at) || r.freed(m.lost) || at.Lo < m.top):
		// When its clock steps back, a store no longer knows what was settled before.
		r.settled = true // or it may have been
		return nil
	case status == 503 && !m.promises.Exact:
		m.apply(r, used, at, false) // nobody knows
		r.settled = true            // or it may have been
		return nil
	case status != 200:
		return []string{fmt.Sprintf("a good receipt is refused with %d", status)}
	}
	r.settled, r.done = true, true
	m.apply(r, used, at, !r.Void && !r.expired(at))
	return nil
}

// freed is whether it had a permit that somebody else has freed, or that the store lost, as
// it did with those of so many receipts.
func (r *Receipt) freed(lost int) bool {
	for _, c := range r.charges {
		if c.permit && (r.number <= lost || !slices.Contains(c.count.entries, c.entry)) {
			return true
		}
	}
	return false
}

// Fits is whether used can be meant for the receipt: one for all descriptors, or one each.
func (r *Receipt) Fits(used []int64) bool { return len(used) == 1 || len(used) == r.descriptors }

// expired is whether some charge may be too old to be settled.
func (r *Receipt) expired(at Span) bool {
	for _, c := range r.charges {
		life := int64(receiptLife)
		if c.permit {
			life = c.ttl
		}
		if at.Hi >= r.at.Lo+life {
			return true
		}
	}
	return false
}

func (m *Model) apply(r *Receipt, used []int64, at Span, sure bool) {
	for _, c := range r.charges {
		sum := int64(0)
		for _, i := range c.of {
			if len(used) == 1 {
				sum += used[0]
			} else {
				sum += used[i]
			}
		}
		known := slices.Contains(c.count.entries, c.entry)
		if !known { // it was forgotten, and so gives nothing back
			if more := sum - c.entry.cost; more > 0 && len(c.count.eras) > 0 {
				c.count.charged, c.count.forced = true, true
				c.count.addLate(at, more)
			}
			continue
		}
		// After a reset, receipts of the whole rule give nothing back.
		reset, ok := m.reset[c.key]
		stands := (!ok || reset.Hi < r.at.Lo) && m.loaded < r.at.Lo && m.turned[c.key] <= r.at.Lo
		c.count.settle(c.entry, at, sum, sure && stands)
	}
}

// Reset is that what a descriptor has used was forgotten.
func (m *Model) Reset(key, value string, at Span) {
	if m.rules[key] == nil {
		return // nobody knows what to reset
	}
	m.reset[key] = Span{at.Lo, max(at.Hi, m.top)}
	for id, c := range m.counts {
		if id.key == key && id.value == value && len(c.eras) > 0 {
			c.forget()
		}
	}
}
