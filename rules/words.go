package rules

// Words are what the key of Match is made of, in order and for people to read:
// the values that the rule of d leaves open, and the keys that a pattern stands
// for. There are none when the rule has one count for all, and when d has no
// rule. The words of an override are all that d says.
func (s *Set) Words(domain string, d *Descriptor) []string {
	dom := s.domains[domain]
	if dom == nil {
		return nil
	}
	var words []string
	l := &dom.top
	for _, e := range d.Entries {
		keepKey, keepValue := true, true
		if d.Override == nil {
			if l == nil {
				return nil
			}
			p := l.find(e)
			if p == nil {
				return nil
			}
			l, keepKey, keepValue = p.below, p.keepKey, p.keepValue
		}
		if keepKey {
			words = append(words, e.Key)
		}
		if keepValue {
			words = append(words, e.Value)
		}
	}
	return words
}
