package rulestore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// testTallies: what nodes count of a version in shadow is added up, whoever tells at the same time, and is gone when the version is
// not in shadow any more.
func testTallies(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "10/s"))
	r, err := s.Rule(ctx, "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("user", "5/s"), Match: r.Revision, To: Shadow, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Document(ctx, "shop")
	if err != nil || len(d.Trials) != 1 || d.Trials[0].Version != 2 || d.Trials[0].Beside != 1 {
		t.Fatalf("%+v, %v", d.Trials, err)
	}
	tally := func(rule string, version int64) Tally {
		return Tally{Domain: "shop", Rule: rule, Version: version, Beside: 1, Counts: Counts{1, 2, 3, 4, 5}, Clients: "{}"}
	}
	const nodes, each = 4, 5
	var all sync.WaitGroup
	for node := range nodes {
		all.Go(func() {
			for range each {
				if err := s.Add(ctx, fmt.Sprint("node", node), []Tally{tally("gone", 9), tally("user", 2)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	const n = nodes * each
	sum := Counts{n, 2 * n, 3 * n, 4 * n, 5 * n}
	want := []Tallied{{Domain: "shop", Rule: "user", Version: 2, Beside: 1, Counts: sum, Recent: sum, Clients: []string{"{}", "{}", "{}", "{}"}}}
	found := func(domain string) []Tallied {
		t.Helper()
		list, err := s.Tallies(ctx, domain)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if since := time.Since(x.Began); since > time.Minute || x.RecentSince.Before(x.Began) {
				t.Errorf("began %v, recent since %v", x.Began, x.RecentSince)
			}
		}
		return list
	}
	for _, domain := range []string{"", "shop"} {
		if diff := cmp.Diff(want, found(domain), cmpopts.IgnoreFields(Tallied{}, "Began", "RecentSince")); diff != "" {
			t.Error(diff)
		}
	}
	if list := found("other"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	rows := func(table string) int64 {
		t.Helper()
		n, err := count(ctx, s.read, table, "")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// A long while passes: what is recent is forgotten, and the sum stays.
	for _, at := range []struct {
		minutes int64
		recent  bool
	}{{recentMinutes - 1, true}, {2 * recentMinutes, false}} {
		if _, err := s.write.ExecContext(ctx, `UPDATE tallies SET minute = minute - $1 WHERE minute > 0`, at.minutes); err != nil {
			t.Fatal(err)
		}
		if list := found(""); len(list) != 1 || list[0].Counts != sum || (list[0].Recent == sum) != at.recent {
			t.Errorf("%d minutes later: %+v", at.minutes, list)
		}
	}
	if err := s.Forget(ctx); err != nil {
		t.Fatal(err)
	}
	// The sum, and that of a minute, or of two when the nodes told while one ended.
	if tallies, clients := rows("tallies"), rows("tally_clients"); tallies != 2 && tallies != 3 || clients != nodes {
		t.Errorf("%d rows, and %d of clients", tallies, clients)
	}
	if _, err := s.write.ExecContext(ctx, `UPDATE tallies SET minute = minute - $1 WHERE minute > 0`, tallyKept); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(ctx); err != nil || rows("tallies") != 1 {
		t.Errorf("%d rows, %v", rows("tallies"), err)
	}
	if _, err := s.Move(ctx, root(), Step{Domain: "shop", Rule: "user", Version: v.Number, To: Withdrawn, Match: v.Revision, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if list := found(""); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	if err := s.Forget(ctx); err != nil || rows("tallies")+rows("tally_clients") != 0 {
		t.Errorf("%d rows, and %d of clients, %v", rows("tallies"), rows("tally_clients"), err)
	}
	long := tally("user", 2)
	long.Clients = strings.Repeat("x", MaxClients+1)
	if err := s.Add(ctx, "node", []Tally{tally("user", 2), long}); !IsKind(err, Invalid) || rows("tallies") != 0 {
		t.Errorf("%d rows, %v", rows("tallies"), err)
	}
}
