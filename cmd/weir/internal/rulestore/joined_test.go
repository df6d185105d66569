package rulestore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestActions: each step has a name that the audit knows, also one to what is no state.
func TestActions(t *testing.T) {
	for _, to := range []State{"", Draft, Shadow, Enforced, Disabled, Withdrawn, Superseded, "rollback"} {
		for _, forced := range []bool{false, true} {
			if a := Action(to, forced); !slices.Contains(Actions(), a) {
				t.Errorf("a step to %q is called %q", to, a)
			}
		}
	}
}

// testPersonAlone: what a person of a provider does alone is counted as long as it holds, also when something else of theirs has ended.
func testPersonAlone(t *testing.T, s *Store) {
	reviewed(t, s)
	ann := as(People+"/ann", Publish, "shop")
	if err := openShop(t, s, ann, "user", 0, 50*time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, long := range []time.Duration{time.Minute, -time.Second} {
		if err := openShop(t, s, ann, "ip", 0, long); err != nil {
			t.Fatal(err)
		}
	}
	var ends int64
	if err := s.read.QueryRowContext(t.Context(), `SELECT MAX(ends) FROM unreviewed WHERE domain = 'shop' AND actor = 'ann'`).Scan(&ends); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(moment(ends)); left < 45*time.Minute {
		t.Errorf("it counts for %v more, and holds for 50 minutes", left)
	}
}

// testGroupNames: a session has the groups that it began with, whatever their names are.
func testGroupNames(t *testing.T, s *Store) {
	want := []string{"dev-shop", "dev-x\nweir-admins", "ü", ""}
	one := Session{ID: SessionID("secret"), Person: Person{Issuer: "https://id.example", Subject: "1", Name: People + "/ann", Groups: want}}
	if err := s.BeginSession(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Session(t.Context(), one.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Person.Groups); d != "" {
		t.Error(d)
	}
}

// testClientsUnsaid: what is refused of an exception is in the audit without the names of clients.
func testClientsUnsaid(t *testing.T, s *Store) {
	put(t, s, rule("user", "1/s"))
	e := granting4711("100/s", time.Hour)
	e.Entries = []Entry{{"nokey", "secret-client"}}
	if _, err := s.SetException(t.Context(), root(), e); err == nil {
		t.Fatal("it is set")
	}
	lines, err := s.Audit(t.Context(), Audited{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, l := range lines {
		found = found || l.Action == exceptionSet && strings.Contains(l.Refused, "entries can't be used")
		if strings.Contains(l.Refused+l.Reason, "secret-client") {
			t.Errorf("%+v", l)
		}
	}
	if !found {
		t.Errorf("%+v", lines)
	}
}
