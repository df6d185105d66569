package rules

import "slices"

// place is a descriptor of a file, as requests meet it.
type place struct {
	order int   // among the descriptors beside it
	entry Entry // as written
	line  int
	share bool // share_threshold: all values that fit have one count
	// toMetric is value_to_metric: values are counted apart.
	toMetric bool
	value    pattern
	// keepKey and keepValue tell which of a request's words make the key of a
	// count: those that the place does not settle.
	keepKey, keepValue bool

	rules []*Rule
	below *level // nil when there is nothing
}

// exact is whether p is for one key and value alone.
func (p *place) exact() bool { return p.entry.Value != "" && !p.value.wild() && !p.keepKey }

// level is the descriptors that stand together in a list. Entries of a request are
// looked up level by level, so the work of a match follows the request's entries, not how
// many rules there are; only patterns that begin alike are tried one by one.
type level struct {
	families map[string]*family // by key as written, those with a * too
	keys     patterns           // those with a * in the key
	size     int                // how many descriptors, for the order of the next
}

// family is the descriptors of one level with the same key.
type family struct {
	exact  map[string]*place // by value as written, those with a * too
	values patterns          // those with a * in the value alone
	bare   *place            // without a value, which any value fits; nil: there is none
}

// add puts in p, unless its key and value are there: then it gives that place.
func (l *level) add(p *place) (double *place) {
	key := newPattern(p.entry.Key)
	p.order, p.value = l.size, newPattern(p.entry.Value)
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
// pattern, else the key alone, else nil.
func (l *level) find(e Entry) *place {
	f := l.families[e.Key]
	if f != nil {
		if p := f.exact[e.Value]; p != nil {
			return p
		}
	}
	if p := l.firstWild(f, e); p != nil {
		return p
	}
	if f != nil {
		return f.bare
	}
	return nil
}

// firstWild is the place earliest in the file whose pattern fits e.
func (l *level) firstWild(f *family, e Entry) *place {
	var best *place
	if f != nil {
		best = f.values.first(e.Value, e.Value)
	}
	if p := l.keys.first(e.Key, e.Value); p != nil && (best == nil || p.order < best.order) {
		best = p
	}
	return best
}

// patterns finds the first of many patterns that fits a text. It looks only at
// those that begin as the text does: one look-up for each length that the
// beginning of a pattern has.
type patterns struct {
	lengths  []int                // of the beginnings, ascending, each once
	byPrefix map[string][]indexed // by what stands before the first *; in the order of the file
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

// first is the place earliest in the file, of those whose pattern fits text and
// that accept value; nil when there is none.
func (ps *patterns) first(text, value string) *place {
	var best *place
	for _, n := range ps.lengths {
		if n > len(text) {
			break
		}
		for _, c := range ps.byPrefix[text[:n]] {
			if best != nil && best.order < c.to.order {
				break // the rest stands even later
			}
			if c.pattern.matches(text) && c.to.accepts(value) {
				best = c.to
				break
			}
		}
	}
	return best
}

// accepts is whether a request's value fits; its key does.
func (p *place) accepts(value string) bool {
	return p.entry.Value == "" || p.value.matches(value)
}
