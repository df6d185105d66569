package rules_test

import (
	"testing"

	"github.com/weir-limit/weir/rules"
)

// item is the one item of a file of domain shop.
func item(t *testing.T, text string) *rules.Item {
	t.Helper()
	items := parse(t, "domain: shop\ndescriptors:\n- "+text+"\n").Items("shop")
	if len(items) != 1 {
		t.Fatalf("%d items", len(items))
	}
	return items[0]
}

// TestCovers: an item covers another where each limit does; anything else that differs is no proof.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		after, before string
		covers, same  bool
	}{
		{"{key: user, limits: [12/s]}", "{key: user, limits: [10/s]}", true, false},
		{"{key: user, limits: [10/s]}", "{key: user, limits: [12/s]}", false, false},
		{"{key: user, limits: [10/s], name: other, owner: team}", "{key: user, limits: [10/s]}", true, true},
		{"{key: user, limits: [10/s]}", "{key: user, limits: [10/s, 9/day fixed-window]}", true, false},
		{"{key: user, limits: [10/s, 9/day fixed-window]}", "{key: user, limits: [10/s]}", false, false},
		{"{key: user, limits: [{name: a, limit: 12/s}, {name: b, limit: 9/h}]}", "{key: user, limits: [{name: b, limit: 9/h}, {name: a, limit: 10/s}]}", true, false},
		{"{key: user, limits: [{name: a, limit: 12/s}]}", "{key: user, limits: [10/s]}", false, false},
		{"{key: user, shadow_mode: true, limits: [1/s]}", "{key: user, limits: [10/s]}", true, false},
		{"{key: user, limits: [10/s]}", "{key: user, shadow_mode: true, limits: [1/s]}", false, false},
		{"{key: user, rate_limit: {unlimited: true}}", "{key: user, limits: [10/s]}", true, false},
		{"{key: user, limits: [10/s]}", "{key: user, rate_limit: {unlimited: true}}", false, false},
		{"{key: user, fallback: closed, limits: [12/s]}", "{key: user, limits: [10/s]}", false, false},
		{"{key: user, value: ann, limits: [12/s]}", "{key: user, limits: [10/s]}", false, false},
		{"{key: user, limits: [12/s], descriptors: [{key: path, limits: [1/s]}]}", "{key: user, limits: [10/s]}", false, false},
		{"{key: user, limits: [12/s]}", "{key: user, limits: [10/s], descriptors: [{key: path, limits: [1/s]}]}", false, false},
		{"{key: user, descriptors: [{key: path, limits: [2/s]}]}", "{key: user, descriptors: [{key: path, limits: [1/s]}]}", true, false},
		{"{key: user, descriptors: [{key: path, value: /a*, limits: [2/s]}, {key: path, value: /*, limits: [9/s]}]}", "{key: user, descriptors: [{key: path, value: /*, limits: [9/s]}, {key: path, value: /a*, limits: [2/s]}]}", false, false},
		{"{key: user, descriptors: [{key: path, value: /a, limits: [2/s]}, {key: path, limits: [9/s]}]}", "{key: user, descriptors: [{key: path, limits: [9/s]}, {key: path, value: /a, limits: [2/s]}]}", true, true},
	} {
		after, before := item(t, c.after), item(t, c.before)
		if covers, same := after.Covers(before), after.Same(before); covers != c.covers || same != c.same || !after.Covers(after) || !after.Same(after) {
			t.Errorf("%s\nafter\n%s\ncovers %v, same %v", c.after, c.before, covers, same)
		}
	}
	if one := item(t, "{key: user, limits: [1/s]}"); one.Covers(nil) || one.Same(nil) || !(*rules.Item)(nil).Same(nil) {
		t.Error("no item is taken for one")
	}
}

// TestItems: items come in the order of the file, and each is found by its key and value.
func TestItems(t *testing.T) {
	set := parse(t, "domain: shop\ndescriptors:\n- {key: user}\n- {key: user, value: a*, limits: [1/s], descriptors: [{key: b, limits: [1/s]}, {key: a, limits: [1/s]}]}\n- {key: path, value: /, limits: [2/s]}\n")
	want := []rules.Entry{{"user", ""}, {"user", "a*"}, {"path", "/"}}
	for i, it := range set.Items("shop") {
		if it.Entry() != want[i] || it.Domain() != "shop" || !set.Item("shop", want[i]).Same(it) {
			t.Errorf("%d: %v", i, it.Entry())
		}
	}
	var names []string
	for _, r := range set.Item("shop", want[1]).Rules() {
		names = append(names, r.Name)
	}
	if len(names) != 3 || names[1] != "shop/user=a*/b" || names[2] != "shop/user=a*/a" {
		t.Error(names)
	}
	if len(set.Items("other")) != 0 || set.Item("shop", rules.Entry{Key: "user", Value: "ann"}) != nil || set.Item("other", want[0]) != nil || (*rules.Set)(nil).Items("shop") != nil {
		t.Error("items that are not there")
	}
}
