package rules

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Item is a descriptor at the top of a domain's file, with all that is below it. A file is a list of them. An Item never
// changes, and may be shared between goroutines.
type Item struct {
	domain *domain
	place  *place
}

// Items is the items of a domain, in the order of its file.
func (s *Set) Items(domain string) []*Item {
	d := s.of(domain)
	if d == nil {
		return nil
	}
	var items []*Item
	for _, f := range d.top.families {
		for _, p := range f.places() {
			items = append(items, &Item{d, p})
		}
	}
	slices.SortFunc(items, func(a, b *Item) int { return a.place.order - b.place.order })
	return items
}

// Item is the item of a domain with this key and value, as they are written; nil when there is none.
func (s *Set) Item(domain string, e Entry) *Item {
	d := s.of(domain)
	if d == nil {
		return nil
	}
	if p := d.top.written(e); p != nil {
		return &Item{d, p}
	}
	return nil
}

func (s *Set) of(domain string) *domain {
	if s == nil {
		return nil
	}
	return s.domains[domain]
}

// Domain is the domain that i is of.
func (i *Item) Domain() string { return i.domain.name }

// Entry is the key and value of i as written: with *, and without a value where any fits.
func (i *Item) Entry() Entry { return i.place.entry }

// ID names i in its domain: key or key=value, with each % and = of the key as %25 and %3D.
func (i *Item) ID() string { return i.place.entry.ID() }

// ID is that of the item with this key and value.
func (e Entry) ID() string {
	id := strings.NewReplacer("%", "%25", "=", "%3D").Replace(e.Key)
	if e.Value != "" {
		id += "=" + e.Value
	}
	return id
}

// Rules is the rules of i, in the order of the file.
func (i *Item) Rules() []*Rule { return i.place.all() }

// Same is whether two items decide alike, whatever they are called and wherever they stand. Nil is no item.
func (i *Item) Same(o *Item) bool {
	if i == nil || o == nil {
		return i == o
	}
	return i.place.same(o.place)
}

// all is the rules of p and below it, in the order of the file.
func (p *place) all() []*Rule {
	rules := slices.Clone(p.rules)
	if p.below == nil {
		return rules
	}
	var below []*place
	for _, f := range p.below.families {
		below = append(below, f.places()...)
	}
	slices.SortFunc(below, func(a, b *place) int { return a.order - b.order })
	for _, b := range below {
		rules = append(rules, b.all()...)
	}
	return rules
}

// pairs gives each place at and below p with the one of o that is written alike. It ends when there is none.
func (p *place) pairs(o *place, are func(p, o *place) bool) bool {
	if p.entry != o.entry || p.literal != o.literal || p.share != o.share || !are(p, o) {
		return false
	}
	if p.below == nil || o.below == nil {
		return p.below == o.below
	}
	if p.below.size != o.below.size {
		return false
	}
	var patterns []int
	for _, f := range p.below.families {
		for _, q := range f.places() {
			r := o.below.written(q.entry)
			if r == nil || !q.pairs(r, are) {
				return false
			}
			if q.value.wild() || q.keepKey {
				patterns = append(patterns, q.order, r.order)
			}
		}
	}
	return sameOrder(patterns)
}

// sameOrder is whether numbers, in pairs, are in one order by the first and by the second of each.
func sameOrder(pairs []int) bool {
	order := slices.Collect(slices.Chunk(pairs, 2))
	slices.SortFunc(order, func(a, b []int) int { return a[0] - b[0] })
	return slices.IsSortedFunc(order, func(a, b []int) int { return a[1] - b[1] })
}

func (p *place) same(o *place) bool {
	return p.pairs(o, func(p, o *place) bool { return slices.EqualFunc(p.rules, o.rules, (*Rule).same) })
}

// same is whether two rules decide alike.
func (r *Rule) same(o *Rule) bool {
	return r.alike(o) && r.Unlimited == o.Unlimited && r.Shadow == o.Shadow && (r.Unlimited || r.Limit.String() == o.Limit.String())
}

// alike is whether two rules count the same, and say the same of the count but for the limit.
func (r *Rule) alike(o *Rule) bool {
	return r.place == o.place && r.After == o.After && r.QuotaMode == o.QuotaMode && r.EnvoyName == o.EnvoyName &&
		slices.Equal(r.Replaces, o.Replaces) && r.Policy == o.Policy
}

// Covers is whether i is at least as loose as before: it has the same descriptors, and each of its limits covers the one
// that before has of the same count (weir.Limit.Covers). Where that is not proved, it is false. Nil is no item.
func (i *Item) Covers(before *Item) bool {
	if before == nil {
		return false
	}
	return i.place.pairs(before.place, func(p, o *place) bool {
		if len(p.rules) == 1 && p.rules[0].Unlimited {
			return true
		}
		for _, r := range p.rules {
			at := slices.IndexFunc(o.rules, func(b *Rule) bool { return r.place == b.place })
			if r.Shadow {
				continue // it denies nothing
			}
			if at < 0 || !r.covers(o.rules[at]) {
				return false
			}
		}
		return true
	})
}

func (r *Rule) covers(before *Rule) bool {
	return r.alike(before) && !before.Unlimited && !before.Shadow && r.Limit.Covers(before.Limit)
}

// written is the place with this key and value, as they are written.
func (l *level) written(e Entry) *place {
	f := l.families[e.Key]
	switch {
	case f == nil:
		return nil
	case e.Value == "":
		return f.bare
	}
	return f.exact[e.Value]
}

// places is all of a family, in no order.
func (f *family) places() []*place {
	all := slices.Collect(maps.Values(f.exact))
	if f.bare != nil {
		all = append(all, f.bare)
	}
	return all
}

// fitting is the places that an entry could lead to, the one that find has first: of each, if those before it were not there.
func (l *level) fitting(e Entry) iter.Seq[*place] {
	return func(yield func(*place) bool) {
		f := l.families[e.Key]
		var exact *place
		if f != nil {
			if exact = f.exact[e.Value]; exact != nil && !yield(exact) {
				return
			}
		}
		for after := -1; ; {
			p := l.nextWild(f, e, after)
			if p == nil {
				break
			}
			if after = p.order; p != exact && !yield(p) {
				return
			}
		}
		if f != nil && f.bare != nil {
			yield(f.bare)
		}
	}
}
