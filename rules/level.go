package rules

import "slices"

// place is a descriptor of a file, as requests meet it. A file is a tree of them: the entries of
// a request lead from the top level down, one level for each entry.
//
//	descriptors:
//	  - key: path          place path=/api/*, with a level below
//	    value: /api/*
//	    descriptors:
//	      - key: user      place user, with rules and no level below
//	        limits: [5/s]
type place struct {
	// order is which of the descriptors beside it this is, from 0. Where several patterns
	// fit, the first of the file counts.
	order int
	// entry is the key and value as written: with *, and without a value where any fits.
	entry Entry
	line  int // of the file, from 1
	// literal is `match: exact`: a * of the key or the value is no pattern.
	literal bool
	// share is share_threshold: all values that fit have one count.
	share bool
	// toMetric is value_to_metric: metrics tell the values apart.
	toMetric bool
	// value is entry.Value. Its key needs no pattern here: families and level.keys have it.
	value pattern
	// keepKey and keepValue tell which of a request's words make the key of a
	// count: those that the place does not settle. With entry path=/api/* that is the value,
	// with user alone too, and with user=ann neither.
	keepKey, keepValue bool

	// rules are the limits of the descriptor, in the order of the file. None: it only leads to
	// those below it.
	rules []*Rule
	below *level // nil when there is nothing
}

// pattern is a text of p's entry, as requests are held against it.
func (p *place) pattern(text string) pattern {
	if p.literal {
		return pattern{text}
	}
	return newPattern(text)
}

// key is what a request's key has to fit. It is made when it is needed: families and level.keys have it for matching.
func (p *place) key() pattern { return p.pattern(p.entry.Key) }

// exact is whether p is for one key and value alone. No other place of its level takes a request
// away from it.
func (p *place) exact() bool { return p.entry.Value != "" && !p.value.wild() && !p.keepKey }

// level is the descriptors that stand together in a list. Entries of a request are
// looked up level by level, so the work of a match follows the request's entries, not how
// many rules there are; only patterns that begin alike are tried one by one.
//
// A descriptor is found by its family where its key is written out, and by keys where its key
// has a *. All are in a family, so that a duplicate is found by the text alone.
type level struct {
	families map[string]*family // by key as written, those with a * too
	keys     patterns           // those with a * in the key, whatever their value
	size     int                // how many descriptors, for the order of the next
}

// family is the descriptors of one level with the same key.
type family struct {
	// exact is by value as written, those with a * too. A request whose value is literally
	// /api/* meets the pattern /api/* here: it fits anyway.
	exact map[string]*place
	// values are those with a * in the value alone. Those with a * in the key are in
	// level.keys, in one order with the other keys that have a *.
	values patterns
	// bare is the one without a value, which any value fits; nil: there is none.
	bare *place
}

// add puts in p, unless its key and value are there: then it gives that place. Places are added in the
// order of the file, so an order is found by counting.
func (l *level) add(p *place) (double *place) {
	key := p.key()
	p.order, p.value = l.size, p.pattern(p.entry.Value)
	p.keepKey = key.wild()
	p.keepValue = !p.share && (p.entry.Value == "" || p.value.wild())

	f := l.families[p.entry.Key]
	if f == nil {
		f = &family{exact: map[string]*place{}}
		if l.families == nil {
			l.families = map[string]*family{}
		}
		l.families[p.entry.Key] = f
	}
	switch {
	case p.entry.Value == "" && f.bare != nil:
		return f.bare
	case p.entry.Value == "":
		f.bare = p
	case f.exact[p.entry.Value] != nil:
		return f.exact[p.entry.Value]
	default:
		f.exact[p.entry.Value] = p
	}
	if key.wild() {
		l.keys.add(key, p)
	} else if p.value.wild() {
		f.values.add(p.value, p)
	}
	l.size++
	return nil
}

// find is where an entry leads: the exact key and value, else the first
// pattern, else the key alone, else nil. Beside each other, path=/a, path=/a*, path=/ab* and path take
// the entries path=/a, path=/ab (the first pattern that fits, not the longest), none, and path=/b.
func (l *level) find(e Entry) *place {
	f := l.families[e.Key]
	if f != nil {
		if p := f.exact[e.Value]; p != nil {
			return p
		}
	}
	if p := l.nextWild(f, e, -1); p != nil {
		return p
	}
	if f != nil {
		return f.bare
	}
	return nil
}

// nextWild is the place earliest in the file, behind the one of the order after, whose pattern fits e; nil when none does.
// f is the family of e's key, or nil.
func (l *level) nextWild(f *family, e Entry, after int) *place {
	var best *place
	if f != nil {
		best = f.values.next(e.Value, e.Value, after)
	}
	if p := l.keys.next(e.Key, e.Value, after); p != nil && (best == nil || p.order < best.order) {
		best = p
	}
	return best
}

// patterns finds the first of many patterns that fits a text. It looks only at
// those that begin as the text does: one look-up for each length that the
// beginning of a pattern has.
//
// The patterns /api/*, /app/* and /export/*/raw begin with texts of two lengths, 5 and 8.
// For /export/7 the look-ups are "/expo" and "/export/", and one pattern is tried. Ten thousand
// prefixes of the same length take one look-up; patterns that begin alike, such as * and *.png,
// are tried one by one.
type patterns struct {
	// lengths are of the beginnings in bytes, ascending, each once.
	lengths []int
	// byPrefix is by what stands before the first *; each list is in the order of the file.
	byPrefix map[string][]indexed
}

// indexed is a place that an entry leads to when its pattern fits.
type indexed struct {
	pattern pattern
	to      *place
}

// add puts a pattern behind those already there.
func (ps *patterns) add(p pattern, to *place) {
	if ps.byPrefix == nil {
		ps.byPrefix = map[string][]indexed{}
	}
	prefix := p[0]
	if i, found := slices.BinarySearch(ps.lengths, len(prefix)); !found {
		ps.lengths = slices.Insert(ps.lengths, i, len(prefix))
	}
	ps.byPrefix[prefix] = append(ps.byPrefix[prefix], indexed{p, to})
}

// next is the place earliest in the file, of those behind the order after whose pattern fits text and
// that accept value; nil when there is none. For patterns of values both are the value; for
// patterns of keys text is the key, and the place's own value has to fit beside it.
func (ps *patterns) next(text, value string, after int) *place {
	var best *place
	for _, n := range ps.lengths {
		if n > len(text) {
			break
		}
		for _, c := range ps.byPrefix[text[:n]] {
			if best != nil && best.order < c.to.order {
				break // the rest stands even later
			}
			if c.to.order <= after {
				continue
			}
			if c.pattern.matches(text) && c.to.accepts(value) {
				best = c.to
				break
			}
		}
	}
	return best
}

// accepts is whether a request's value fits, given that its key does.
func (p *place) accepts(value string) bool {
	return p.entry.Value == "" || p.value.matches(value)
}
