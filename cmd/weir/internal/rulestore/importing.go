package rulestore

import (
	"context"
	"errors"
	"slices"
)

// Import is the file of a domain, to be put in the place of the rules that are
// in force.
type Import struct {
	// Text is the file. Rules with the text that they have in force stay as they
	// are, and what is proposed for them too; disabled ones that it lacks stay
	// disabled; all others that it lacks are taken away. A version that is proposed
	// with the text of the file goes on from where it is, so that the same file can
	// be imported again, and further.
	Text string
	// Team owns the domain if there is none yet. Empty: then the import is refused.
	Team string
	// Match is the Domain.Revision that was seen; 0: there is no such domain.
	Match int64
	// To is how far the changes go: Draft, Shadow or Enforced. Empty: Draft.
	To     State
	Reason string
	Forced bool // a guard was overruled: for the audit
}

// Changed is what an import does to one rule.
type Changed struct {
	Rule    string
	Version int64
	// Before and After are its texts; empty: there is none. They are the same when
	// the rule only moves within the file.
	Before, After string
}

// Effect is what a change does to a rule.
type Effect string

// The effects.
const (
	Creates  Effect = "create"
	Replaces Effect = "replace"
	Moves    Effect = "move" // within the file
	Deletes  Effect = "delete"
)

// Effect is which one the change has.
func (c *Changed) Effect() Effect {
	switch {
	case c.Before == "":
		return Creates
	case c.After == "":
		return Deletes
	case c.Before == c.After:
		return Moves
	}
	return Replaces
}

// Import puts a file in the place of a domain's rules, all at once or not at
// all. Each rule that it changes takes the role that Propose asks for it.
func (s *Store) Import(ctx context.Context, by Actor, p Import) (Domain, []Changed, error) {
	return s.importing(ctx, by, p, false)
}

// Plan is what Import would do, without doing it.
func (s *Store) Plan(ctx context.Context, by Actor, p Import) (Domain, []Changed, error) {
	return s.importing(ctx, by, p, true)
}

func (s *Store) importing(ctx context.Context, by Actor, p Import, dry bool) (Domain, []Changed, error) {
	o, err := cutFile("file", p.Text)
	a := attempt{action: "import", reason: p.Reason, dry: dry}
	if o != nil {
		a.domain = o.domain
	}
	var d Domain
	var changes []Changed
	err = s.change(ctx, by, a, func(t *tx) (bad error) {
		if err != nil {
			return err
		}
		d, changes, bad = t.replace(ctx, o, p)
		return bad
	})
	if err != nil {
		return d, nil, err
	}
	return d, changes, nil
}

// replace makes a domain what o is.
func (t *tx) replace(ctx context.Context, o *outline, p Import) (Domain, []Changed, error) {
	if err := checkReason(p.Reason, p.To != Draft && p.To != ""); err != nil {
		return Domain{}, nil, err
	}
	if t.by.Role < Propose { // also when nothing differs
		return Domain{}, nil, t.by.need(Propose, "import a file")
	}
	d, err := t.domainAt(ctx, o.domain, p.Match)
	if IsKind(err, NotFound) && p.Team != "" && p.Match == 0 {
		d, err = t.create(ctx, NewDomain{Name: o.domain, Team: p.Team})
	}
	if err != nil {
		return d, nil, err
	}
	m := merge{domain: d, to: p.To, forced: p.Forced}
	if m.old, err = t.inForce(ctx, d.Name); err != nil {
		return d, nil, err
	}
	if err := m.run(ctx, t, o); err != nil {
		return d, nil, err
	}
	if p.To == Enforced && t.by.need(Publish, "set the file's margin", d.Team) == nil {
		if err := t.exec(ctx, `UPDATE domains SET indent = $1, revision = $2 WHERE name = $3 AND indent <> $1`, o.indent, t.revision, d.Name); err != nil {
			return d, nil, err
		}
	}
	if len(t.done) == 0 { // nothing differs: what is in the audit is that it was asked
		t.done = append(t.done, Event{Action: "import", Domain: d.Name, Team: d.Team, Reason: p.Reason})
	}
	d, err = t.domain(ctx, d.Name)
	return d, m.changes, err
}

// merge brings a file into a domain.
type merge struct {
	domain  Domain
	to      State
	forced  bool
	old     []Version // in force
	changes []Changed
}

func (m *merge) run(ctx context.Context, t *tx, o *outline) error {
	items := append([]item{{id: Frame, text: o.head}}, o.items...)
	wanted := make([]string, len(items))
	for i, it := range items {
		wanted[i] = it.id
	}
	was := map[string]Version{}
	for _, v := range m.old {
		was[v.Rule] = v
	}
	places := placesFor(wanted, was)
	for i, it := range items {
		old, there := was[it.id]
		delete(was, it.id)
		if there && old.Text == it.text && old.place == places[i] {
			continue
		}
		if err := m.put(ctx, t, it, old.Text, places[i]); err != nil {
			return err
		}
	}
	for _, v := range m.old { // in the order of the file
		if _, left := was[v.Rule]; left {
			if err := m.put(ctx, t, item{id: v.Rule}, v.Text, v.place); err != nil {
				return err
			}
		}
	}
	return nil
}

// put makes one rule what it is in the file.
func (m *merge) put(ctx context.Context, t *tx, it item, before string, place int64) error {
	r, err := t.rule(ctx, m.domain.Name, it.id)
	if err != nil {
		return err
	}
	to := m.to
	if it.id == Frame && to == Shadow {
		to = Draft
	}
	if err := t.checkNames(ctx, &r, &it); err != nil {
		return named(err, it.id)
	}
	v, err := t.proposed(ctx, &r, it.text, place)
	switch {
	case err != nil:
		return err
	case v.Number == 0:
		v = Version{Text: it.text, Team: teamOf(&m.domain, &r, &it), place: place}
		if err := t.add(ctx, &m.domain, &r, v); err != nil {
			return named(err, it.id)
		}
		v.Number = r.Latest
	case to == v.State, to == Draft, to == "":
		return nil
	}
	if err := t.step(ctx, &m.domain, &r, v.Number, to, m.forced); err != nil {
		return named(err, it.id)
	}
	m.changes = append(m.changes, Changed{Rule: it.id, Version: v.Number, Before: before, After: it.text})
	return nil
}

// proposed is the version in shadow, else the draft, that has this text at this
// place; without a number when there is none.
func (t *tx) proposed(ctx context.Context, r *Rule, text string, place int64) (Version, error) {
	for _, number := range []int64{r.Shadow, r.Draft} {
		if number == 0 {
			continue
		}
		v, err := findVersion(ctx, t, r.Domain, r.ID, number)
		if err != nil || v.Text == text && v.place == place {
			return v, err
		}
	}
	return Version{}, nil
}

// named says which rule of a file an error is about.
func named(err error, rule string) error {
	if bad, ok := errors.AsType[*Error](err); ok {
		bad.Text = "rule " + nameOf(rule) + ": " + bad.Text
	}
	return err
}

// inForce is the active versions, in the order of the file.
func (t *tx) inForce(ctx context.Context, domain string) (list []Version, err error) {
	return versions(ctx, t, `FROM rules r JOIN versions v ON v.domain = r.domain AND v.rule = r.id AND v.number = r.enforced
		WHERE r.domain = $1 AND r.disabled = 0 AND v.text <> '' ORDER BY v.place`, domain)
}

// placesFor gives places, in rising order, to rules that are wanted in an order.
// Rules that have one keep it as long as it fits; where it does not, all get new ones.
func placesFor(wanted []string, was map[string]Version) []int64 {
	places := make([]int64, len(wanted))
	for i, id := range wanted {
		places[i] = was[id].place
	}
	if spread(places) {
		return places
	}
	for i := range places {
		places[i] = int64(i+1) * gap
	}
	return places
}

// spread puts those that are 0 between their neighbours. It fails when the others
// do not rise, or there is no room.
func spread(places []int64) bool {
	last := int64(0)
	for i := 0; i < len(places); {
		if places[i] != 0 {
			if places[i] <= last {
				return false
			}
			last = places[i]
			i++
			continue
		}
		n := slices.IndexFunc(places[i:], func(p int64) bool { return p != 0 })
		width := int64(gap)
		if n < 0 {
			n = len(places) - i
		} else if width = (places[i+n] - last) / int64(n+1); width < 1 {
			return false
		}
		for range n {
			last += width
			places[i] = last
			i++
		}
	}
	return true
}
