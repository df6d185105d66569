package rules

// markValues tells each rule at and below l which words of a request make its
// key, and which entries its metrics count apart: those that ask for it and that
// the file leaves open.
// With share_threshold a pattern's values are one, so it leaves nothing open.
//
// It is done once, when a file was read, for it needs the whole way to a rule, which the place that has
// the rule does not know. way is that to l.
func (l *level) markValues(way []*place) {
	if l == nil || len(way) == MaxEntries {
		return
	}
	mark := func(p *place) {
		way := append(way[:len(way):len(way)], p)
		for _, r := range p.rules {
			r.open, r.literal, r.values = openOf(way), literalOf(way), openValues(way, r.DetailedMetric)
		}
		p.below.markValues(way)
	}
	for _, f := range l.families {
		for _, p := range f.exact {
			mark(p)
		}
		if f.bare != nil {
			mark(f.bare)
		}
	}
}

// openValues tells by entry whether metrics tell its values apart; it is nil when they tell none. all is
// detailed_metric, which means each entry of the way that the file leaves open.
func openValues(way []*place, all bool) []bool {
	wanted, any := make([]bool, len(way)), false
	for i, p := range way {
		wanted[i] = (all || p.toMetric) && (p.keepKey || p.keepValue)
		any = any || wanted[i]
	}
	if !any {
		return nil
	}
	return wanted
}

// CountsValues is whether metrics of the rule tell values of requests apart:
// detailed_metric or value_to_metric asks for it, and the rule has more than
// one.
func (r *Rule) CountsValues() bool { return r.values != nil }

// CountsValueAt is whether metrics of the rule tell the values of entry i apart.
func (r *Rule) CountsValueAt(i int) bool { return i < len(r.values) && r.values[i] }

// AppendValues appends what metrics tell apart of a descriptor that met the
// rule: key=value, and others after a slash, with bytes outside of
// A-Za-z0-9._~*- as %XX. It appends nothing unless CountsValues. With detailed_metric on user below
// path=/a*, a request of ann on /ab is told as
//
//	path=%2Fab/user=ann
//
// The values come from clients, so the metrics that have them are bounded where they are kept.
func (r *Rule) AppendValues(b []byte, entries []Entry) []byte {
	first := true
	for i, wanted := range r.values {
		if !wanted {
			continue
		}
		if !first {
			b = append(b, '/')
		}
		b = appendEscaped(b, entries[i].Key, "")
		b = appendEscaped(append(b, '='), entries[i].Value, "")
		first = false
	}
	return b
}
