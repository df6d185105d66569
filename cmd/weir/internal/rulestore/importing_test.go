package rulestore_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestImportAgain: a file that is imported again makes no second version of what
// is proposed, and takes the one there is further.
func TestImportAgain(t *testing.T) {
	s, err := rulestore.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ann := rulestore.Actor{Name: "ann", Role: rulestore.Admin, Teams: []string{"shop"}}
	const first, next = "domain: shop\ndescriptors:\n  - {key: user, limits: [10/s]}\n  - {key: ip, limits: [1/s]}\n",
		"# Less.\ndomain: shop\ndescriptors:\n  - {key: user, limits: [5/s]}\n  - {key: path, limits: [2/s]}\n"
	match := int64(0)
	for _, step := range []struct {
		text string
		to   rulestore.State
		want map[string]int64 // versions of rules that change
	}{
		{first, rulestore.Enforced, map[string]int64{"user": 1, "ip": 1}},
		{first, rulestore.Enforced, nil},
		{next, rulestore.Draft, map[string]int64{"": 2, "user": 2, "path": 1, "ip": 2}},
		{next, rulestore.Draft, nil},
		{next, rulestore.Shadow, map[string]int64{"user": 2, "path": 1, "ip": 2}},
		{next, rulestore.Shadow, nil},
		{next, rulestore.Draft, nil},
		{next, rulestore.Enforced, map[string]int64{"": 2, "user": 2, "path": 1, "ip": 2}},
		{next, rulestore.Enforced, nil},
		{first, rulestore.Shadow, map[string]int64{"": 3, "user": 3, "path": 2, "ip": 3}},
	} {
		d, changes, err := s.Import(t.Context(), ann, rulestore.Import{Text: step.text, Team: "shop", Match: match, To: step.to, Reason: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		match = d.Revision
		var got map[string]int64
		for _, c := range changes {
			if got == nil {
				got = map[string]int64{}
			}
			got[c.Rule] = c.Version
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Fatalf("to %s: %s", step.to, diff)
		}
	}
	if d, err := s.Document(t.Context(), "shop"); err != nil || d.File != next || len(d.Trials) != 3 {
		t.Error(d, err)
	}
}
