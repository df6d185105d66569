package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/internal/editdistance"
)

// maxThere is how many descriptors of a level a trace shows, and how many it
// names that were passed over. The nearest come first. A level may have a hundred thousand, and a
// person who looks for a typo reads a few.
const maxThere = 8

// DescriptorTrace is how a descriptor of a request went through the rules.
//
// With the rules path=/api/* and, below it, user, the request path=/api/a, team=blue has two
// levels: the first met path=/api/* ("the pattern fits"), the second met nothing, and shows user as
// what stands there.
type DescriptorTrace struct {
	// Entries and Cost are those of the request.
	Entries []Entry
	Cost    int64
	// Rules are those that it meets, in the order of the file. None: no rule is for it, or another
	// rule of the request replaces them; Summary tells.
	Rules []*Rule
	// Summary tells why these, or why none, in a sentence without a full stop.
	Summary string
	// Levels are by entry, up to the first that led nowhere. There are none where no file was
	// looked into: the domain is unknown, or the request brings its own limit.
	Levels []LevelTrace
}

// LevelTrace is where one entry led.
type LevelTrace struct {
	Entry Entry
	Met   *Place // nil when nothing fits
	Why   string // it met that one, or none
	// Passed is what fits too and was passed over, in the order of the file: it is not tried
	// either where Met leads nowhere.
	Passed []Place
	// There is what stands on this level, the nearest first, when nothing fits: what the author of
	// the request may have meant.
	There   []Place
	Omitted int // how many more stand there
}

// Place is a descriptor of a file, for people to find it.
type Place struct {
	Entry Entry // as written
	File  string
	Line  int // from 1
}

// String is key=value.
func (p Place) String() string { return p.Entry.pretty() }

// where is the place with its file and line.
func (p Place) where() string { return fmt.Sprintf("%s (%s:%d)", p, p.File, p.Line) }

// depthRule is what people miss most: a limit of user is not for path and user. envoyproxy/ratelimit has
// the same rule.
const depthRule = "a limit applies only if the request's entry count equals the depth"

// trace follows each descriptor of r. It goes by the same look-ups as Match (level.find), so that it
// never tells another way than the one that was gone; t is the take that Match has made.
func (s *Set) trace(r *Request, t *take) []DescriptorTrace {
	all := make([]DescriptorTrace, len(r.Descriptors))
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		x := &all[i]
		x.Entries, x.Cost = slices.Clone(d.Entries), d.Cost
		dom := s.domains[r.Domain]
		switch {
		case dom == nil:
			x.Summary = s.noDomain(r.Domain)
			continue
		case d.Override != nil:
			x.Rules, x.Summary = t.meets[i].rules, "the request brings its own limit, which stands in place of the rules"
			continue
		}
		dom.walk(x)
		if x.Rules == nil {
			s.otherOrder(r.Domain, x)
		}
		// The way led to rules, and the take has none: replace has dropped them.
		if t.meets[i].rules == nil && x.Rules != nil {
			x.Summary = fmt.Sprintf("%s, but another rule of the request replaces %s", x.Summary, x.Rules[0].EnvoyName)
			x.Rules = nil
		}
	}
	return all
}

// maxReordered is how many entries a descriptor may have for a trace to try them
// in other orders: four have 24.
const maxReordered = 4

// otherOrder tells of an order of the entries that would meet a rule: the right entries in a wrong
// order look right in a log.
func (s *Set) otherOrder(domain string, x *DescriptorTrace) {
	if n := len(x.Entries); n < 2 || n > maxReordered {
		return
	}
	d := Descriptor{Entries: slices.Clone(x.Entries)}
	var permute func(from int) bool
	permute = func(from int) bool {
		if from == len(d.Entries) {
			met, _ := s.Match(domain, &d)
			return met != nil
		}
		for i := from; i < len(d.Entries); i++ {
			d.Entries[from], d.Entries[i] = d.Entries[i], d.Entries[from]
			if permute(from + 1) {
				return true
			}
			d.Entries[from], d.Entries[i] = d.Entries[i], d.Entries[from]
		}
		return false
	}
	if permute(0) {
		met, _ := s.Match(domain, &d)
		var keys []string
		for _, e := range d.Entries {
			keys = append(keys, e.Key)
		}
		x.Summary += fmt.Sprintf("; entries count in their order, and in the order %s they would meet %s", strings.Join(keys, ", "), met[0].Name)
	}
}

// noDomain tells of the domains that there are, or of the one that was meant.
func (s *Set) noDomain(name string) string {
	names := s.Domains()
	text := "there is no domain " + quoted(name)
	if near := orDidYouMean(name, names); near != "" {
		return text + near
	}
	if len(names) == 0 {
		return text + ", and no other"
	}
	shown := names[:min(len(names), maxThere)]
	text += "; there is " + strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// walk goes the way of x's entries, as Match does, and tells of each step. It ends in one of four ways:
// below the last level of the file, at an entry that nothing fits, at a descriptor without a limit, or
// at one with limits.
func (dom *domain) walk(x *DescriptorTrace) {
	l := &dom.top
	var last *place
	for i, e := range x.Entries {
		if l == nil {
			x.Summary = fmt.Sprintf("the request has %d entries, and below %s there is nothing for the %s; %s",
				len(x.Entries), dom.at(last).where(), ordinal(i+1), depthRule)
			if len(last.rules) > 0 {
				first := "the first"
				if i > 1 {
					first += " " + strconv.Itoa(i)
				}
				x.Summary += fmt.Sprintf("; with %s alone it would meet %s", first, last.rules[0].Name)
			}
			return
		}
		p := l.find(e)
		step := dom.step(l, e, p)
		x.Levels = append(x.Levels, step)
		if p == nil {
			x.Summary = step.Why
			x.untried()
			return
		}
		last, l = p, p.below
	}
	switch {
	case len(last.rules) == 0:
		x.Summary = dom.at(last).where() + " has no limit of its own"
		if l != nil {
			x.Summary += fmt.Sprintf(", only descriptors below it, as %s; %s", dom.at(l.places()[0]).where(), depthRule)
		}
		x.untried()
	case last.rules[0].Unlimited:
		x.Rules, x.Summary = last.rules, dom.at(last).where()+" is unlimited"
	default:
		x.Rules, x.Summary = last.rules, fmt.Sprintf("%s has %s", dom.at(last).where(), limitsIn(len(last.rules)))
	}
}

// untried tells of what was passed over on a way that led nowhere. An author may expect that a key alone
// is tried after a value that led nowhere; it is not.
func (x *DescriptorTrace) untried() {
	for _, step := range x.Levels {
		if len(step.Passed) > 0 {
			x.Summary += fmt.Sprintf("; nothing is tried twice, so %s, passed over for %s, is not tried", step.Passed[0].where(), step.Met)
			return
		}
	}
}

func (dom *domain) at(p *place) Place { return Place{p.entry, dom.file, p.line} }

// step tells why e led to p on the level l; p is nil where it led nowhere. The reasons are the rules of
// level.find in their order: exact key and value, first pattern, key alone.
func (dom *domain) step(l *level, e Entry, p *place) LevelTrace {
	x := LevelTrace{Entry: e}
	all := l.places()
	if p == nil {
		x.Why = l.miss(e, all)
		slices.SortStableFunc(all, func(a, b *place) int { return cmp.Compare(a.distance(e), b.distance(e)) })
		for _, there := range all[:min(len(all), maxThere)] {
			x.There = append(x.There, dom.at(there))
		}
		x.Omitted = len(all) - len(x.There)
		return x
	}
	x.Met = new(dom.at(p))
	for _, other := range all {
		if other != p && other.fits(e) && len(x.Passed) < maxThere {
			x.Passed = append(x.Passed, dom.at(other))
		}
	}
	switch {
	case p.entry == e && e.Value != "":
		x.Why = "the key and value are exactly these"
		if len(x.Passed) > 0 {
			x.Why += ", which comes before patterns and keys alone"
		}
	case p.entry.Value != "" || p.keepKey:
		x.Why = "the pattern fits"
		if len(x.Passed) > 0 {
			x.Why += ", the first of the file that does; a pattern comes before a key alone"
		}
	default:
		x.Why = "the key alone: any value fits"
	}
	return x
}

// places is all of a level, in the order of the file. Matching never needs it; a trace does, once a
// request that somebody asks about.
func (l *level) places() []*place {
	var all []*place
	for _, f := range l.families {
		if f.bare != nil {
			all = append(all, f.bare)
		}
		for _, p := range f.exact {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *place) int { return cmp.Compare(a.order, b.order) })
	return all
}

// fits is whether p would take e if nothing stood before it.
func (p *place) fits(e Entry) bool {
	return p.key().matches(e.Key) && p.accepts(e.Value)
}

// distance is small for places that somebody may have meant by e. A key counts for more than a value:
// a place with the right key and any value is nearer than one with the right value and another key.
func (p *place) distance(e Entry) int {
	return slips(e.Key, p.entry.Key)*(editdistance.Far+1) + slips(e.Value, p.entry.Value)
}

// slips is how far two words are apart, for as many as a level may have: long ones are not looked at.
func slips(a, b string) int {
	if len(a) > maxKey || len(b) > maxKey {
		return editdistance.Far
	}
	return editdistance.Slips(a, b)
}

// miss says why nothing of the level fits e: no key fits, or keys do and their values don't. It names the
// nearest word that would.
func (l *level) miss(e Entry, all []*place) string {
	var values, keys []string
	for _, p := range all {
		if p.key().matches(e.Key) {
			values = append(values, p.entry.Value)
		} else {
			keys = append(keys, p.entry.Key)
		}
	}
	if len(values) > 0 {
		return fmt.Sprintf("no descriptor with the key %s has the value %s, or none at all", quoted(e.Key), quoted(e.Value)) + orDidYouMean(e.Value, values)
	}
	return "no descriptor here has the key " + quoted(e.Key) + orDidYouMean(e.Key, keys)
}

// quoted is a word of a request between quotation marks, shortened to what a
// person reads.
func quoted(word string) string {
	if len(word) > maxKey {
		word = strings.ToValidUTF8(word[:maxKey], "") + "…"
	}
	return strconv.Quote(word)
}

// limitsIn counts limits in words.
func limitsIn(n int) string {
	if n == 1 {
		return "1 limit"
	}
	return fmt.Sprintf("%d limits", n)
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return fmt.Sprintf("%dth", n)
}
