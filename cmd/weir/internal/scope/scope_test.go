package scope

import (
	"testing"

	"github.com/weir-limit/weir/rules"
)

const shop = `domain: shop
descriptors:
  - {key: user, limits: [1/s]}
  - {key: mail, value: "a/b", name: of-mail, limits: [1/s]}
  - key: bulk
    descriptors: [{key: id, limits: [1/s]}]
  - {key: forged, name: shop/user, limits: [1/s]}
  - {key: shadowed, limits: [1/s]}
`

// TestScope: a scope has what it was made of, by domain, ID and name, and nothing else.
func TestScope(t *testing.T) {
	set, err := rules.Parse("shop", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	mine := New([]string{"mail"}, []Rule{{"shop", "mail=a/b"}, {"shop", "bulk"}, {"shop", "forged"}}, set)
	for name, c := range map[string]struct{ has, want bool }{
		"a domain of its own":                        {mine.Domain("mail"), true},
		"a rule of that":                             {mine.Item("mail", "any"), true},
		"a name in that":                             {mine.Named("mail", "mail#override"), true},
		"a foreign domain":                           {mine.Domain("shop"), false},
		"something in it":                            {mine.Any("shop"), true},
		"nothing in another":                         {mine.Any("other"), false},
		"a rule of its own there":                    {mine.Item("shop", "bulk"), true},
		"a foreign rule":                             {mine.Item("shop", "user"), false},
		"its name there":                             {mine.Named("shop", "of-mail"), true},
		"the name of what is below":                  {mine.Named("shop", "shop/bulk/id"), true},
		"a foreign name":                             {mine.Named("shop", "shop/shadowed"), false},
		"a foreign name that it has given to a rule": {mine.Named("shop", "shop/user"), false},
		"what requests bring along":                  {mine.Named("shop", "shop#override"), false},
		"all":                                        {mine.Whole(), false},
		"all of all":                                 {All().Whole() && All().Domain("x") && All().Item("x", "y") && All().Named("x", "y") && All().Any("x"), true},
		"none of none":                               {(*Scope)(nil).Whole() || (*Scope)(nil).Domain("x") || (*Scope)(nil).Item("x", "y") || (*Scope)(nil).Named("x", "y") || (*Scope)(nil).Any("x"), false},
		"none without rules":                         {New(nil, []Rule{{"shop", "bulk"}}, nil).Named("shop", "shop/bulk/id"), false},
	} {
		if c.has != c.want {
			t.Errorf("%s: %v", name, c.has)
		}
	}
}

// TestExplanation: an explanation is read by a scope that has its domain, or each rule that it
// tells of.
func TestExplanation(t *testing.T) {
	set, err := rules.Parse("shop", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	met := func(names ...string) *rules.Explanation {
		x := &rules.Explanation{Domain: "shop", Descriptors: make([]rules.DescriptorTrace, len(names))}
		for i, name := range names {
			for _, r := range set.Rules() {
				if r.Path[0].Key == name {
					x.Descriptors[i].Rules = append(x.Descriptors[i].Rules, r)
				}
			}
		}
		return x
	}
	mine := New(nil, []Rule{{"shop", "bulk"}, {"shop", "forged"}}, set)
	for _, c := range []struct {
		s    *Scope
		x    *rules.Explanation
		want bool
	}{
		{mine, met("bulk"), true},
		{mine, met("bulk", "forged"), true},
		{mine, met("bulk", "user"), false},
		{mine, met("user"), false},
		{mine, met("none"), false},
		{mine, met(), false},
		{New([]string{"shop"}, nil, set), met("user", "none"), true},
		{All(), met("none"), true},
		{nil, met("bulk"), false},
	} {
		if got := c.s.Explanation(c.x); got != c.want {
			t.Errorf("%+v: %v", c.x.Descriptors, got)
		}
	}
}
