package rules

// Match finds the rules of one descriptor of a request, in the order of the
// file, and the key of their counts: Rule.State(key) is where each is kept.
// There are none when the domain is unknown or nothing fits. A rule that is
// Unlimited is among them. The slice must not be changed.
//
//	descriptor of the file          of the request            words of the key
//	user                            user=ann                  ann
//	user=ann                        user=ann                  none: it is for her alone
//	path=/api/*, below it user      path=/api/a, user=ann     /api/a and ann
//	user, with a limit only below   user=ann                  no rules
//
// It allocates nothing but the key, where that is made of several words, and the rule of an
// override.
func (s *Set) Match(domain string, d *Descriptor) (rules []*Rule, key string) {
	dom := s.domains[domain]
	if dom == nil || len(d.Entries) > MaxEntries {
		return nil, ""
	}
	if d.Override != nil {
		rules = []*Rule{overrideRule(domain, d)}
	} else if rules = dom.top.rules(d.Entries); len(rules) == 0 {
		return nil, ""
	}
	return rules, rules[0].open.key(d.Entries)
}

// rules is those of the descriptor that the entries lead to, one level each. Nothing is tried
// twice: where an exact value leads to a dead end, a pattern beside it is not tried. So a file
// says at each level which descriptor an entry is for, and the work of a match is one find an
// entry. envoyproxy/ratelimit does the same.
func (l *level) rules(entries []Entry) (rules []*Rule) {
	for _, e := range entries {
		if l == nil {
			return nil
		}
		p := l.find(e)
		if p == nil {
			return nil
		}
		rules, l = p.rules, p.below
	}
	return rules
}

// widen puts in place of an entry's value the one that it counts under, if that
// leads to the same descriptor or to one that is written for it. A descriptor that
// is written for the value itself comes first.
//
// Say that wider gives 2001:db8::/64 for each address of that network. With the rule
// remote_address alone, all of them count as one client. A rule for remote_address=2001:db8::7
// still meets this one address, and one for remote_address=2001:db8::/64 meets the others.
func (s *Set) widen(domain string, d *Descriptor, wider func(Entry) string) {
	if dom := s.domains[domain]; dom != nil && d.Override == nil {
		dom.top.widen(d, wider)
	}
}

// widen is that of a Set, for the entries that begin at l.
func (l *level) widen(d *Descriptor, wider func(Entry) string) {
	for i := 0; i < len(d.Entries) && l != nil; i++ {
		e := &d.Entries[i]
		p := l.find(*e)
		if wide := wider(*e); wide != e.Value && (p == nil || !p.exact()) {
			if q := l.find(Entry{e.Key, wide}); q != nil && (q == p || q.exact()) {
				e.Value, p = wide, q
			}
		}
		if p == nil {
			return
		}
		l = p.below
	}
}
