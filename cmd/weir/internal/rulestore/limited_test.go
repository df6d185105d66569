package rulestore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// testLimited: what a node tells is there while it is new, and is gone when the node leaves, when it is old, and when it is forgotten.
func testLimited(t *testing.T, s *Store) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	asked := func() bool {
		t.Helper()
		a, err := s.Asked(ctx, 0)
		must(err)
		return a.Told
	}
	if asked() {
		t.Error("nodes are asked, and nobody reads")
	}
	for i := range 2 { // the second wakes nobody
		heard := s.Heard()
		must(s.WantTold(ctx, fmt.Sprint("reader-", i), time.Minute))
		if !asked() {
			t.Error("nodes are not asked")
		}
		woken := false
		select {
		case <-heard:
			woken = true
		default:
		}
		if woken != (i == 0) {
			t.Errorf("reader %d wakes nodes: %v", i, woken)
		}
	}
	hostile := []byte("\x00\xff\u202e<b>")
	must(s.TellLimited(ctx, "a", []byte("old")))
	must(s.TellLimited(ctx, "b", bytes.Repeat(hostile, 100)))
	must(s.TellLimited(ctx, "a", hostile))
	refusedAs(t, s.TellLimited(ctx, "c", make([]byte, MaxTold+1)), Invalid)
	told := func(since time.Duration) (names string) {
		t.Helper()
		list, err := s.Limited(ctx, since)
		must(err)
		for _, x := range list {
			names += x.Node
			if x.Node == "a" && !bytes.Equal(x.Bytes, hostile) || x.Age < 0 || x.Age > time.Minute {
				t.Errorf("%+v", x)
			}
		}
		return names
	}
	if got := told(time.Minute); got != "ab" {
		t.Error(got)
	}
	_, err := s.write.ExecContext(ctx, `UPDATE limited SET told = told - 20000000 WHERE node = 'b'`)
	must(err)
	if got := told(15 * time.Second); got != "a" {
		t.Error("a node that is lost tells:", got)
	}
	_, err = s.write.ExecContext(ctx, `UPDATE limited SET told = told - 50000000 WHERE node = 'b'`)
	must(err)
	must(s.ForgetLimited(ctx))
	if n, err := count(ctx, s.read, "limited", ""); err != nil || n != 1 {
		t.Error(n, err)
	}
	must(s.LeaveLimited(ctx, "a"))
	must(s.LeaveLimited(ctx, "reader-0"))
	if got := told(time.Hour); got != "" || !asked() {
		t.Error(got)
	}
	must(s.LeaveLimited(ctx, "reader-1"))
	if asked() {
		t.Error("nodes are asked after the last reader has left")
	}
}

// testUnblock: nodes hear of each reset once, in order and for some time, and it is known which have done it.
func testUnblock(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	for _, n := range []string{"a", "b"} {
		if err := s.Tell(ctx, Node{Name: n}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []int64
	client := []byte("\x00ann\xff")
	for range 3 {
		heard := s.Heard()
		id, err := s.Unblock(ctx, root(), Unblock{Domain: "shop", Item: "user", Rule: "shop/user", Client: client, Reason: "she called"})
		if err != nil {
			t.Fatal(err)
		}
		<-heard
		ids = append(ids, id)
	}
	if !(ids[0] < ids[1] && ids[1] < ids[2]) {
		t.Error(ids)
	}
	a, err := s.Asked(ctx, ids[0])
	if err != nil || len(a.Resets) != 2 || a.Resets[0].ID != ids[1] || a.Resets[1].ID != ids[2] || !bytes.Equal(a.Resets[0].Client, client) || a.Resets[0].Domain != "shop" || a.Resets[0].Rule != "shop/user" {
		t.Errorf("%+v %v", a, err)
	}
	late := func(id int64, want ...string) {
		t.Helper()
		done, got, err := s.LateNodes(ctx, id, time.Minute)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || done != 2-len(want) {
			t.Error(done, got, err)
		}
	}
	late(ids[2], "a", "b")
	for node, want := range map[string]bool{"b": true, "gone": false} {
		if known, err := s.DoneResets(ctx, node, ids[1]); err != nil || known != want {
			t.Error(node, known, err)
		}
	}
	late(ids[1], "a")
	late(ids[2], "a", "b")
	if err := s.Tell(ctx, Node{Name: "b", Revision: 3}); err != nil { // it still has done it
		t.Fatal(err)
	}
	late(ids[0], "a")
	if done, got, err := s.LateNodes(ctx, ids[0], 0); err != nil || done != 0 || len(got) != 0 {
		t.Error("nodes are waited for that are not heard:", done, got, err)
	}
	// The audit has who, whom and why, as the database can keep it; what is over is forgotten.
	lines, err := s.Audit(ctx, Audited{Domain: "shop", Before: 1 << 40, Limit: 1})
	if err != nil || lines[0].Action != Reset || lines[0].Rule != "user" || lines[0].Actor != "root" || lines[0].Team != "shop" || lines[0].Revision != 0 ||
		!strings.HasPrefix(lines[0].Reason, "shop/user of ") || !strings.Contains(lines[0].Reason, "ann") || !strings.HasSuffix(lines[0].Reason, ": she called") {
		t.Errorf("%+v %v", lines, err)
	}
	if _, err := s.write.ExecContext(ctx, `UPDATE resets SET id = id - 70000000 WHERE id < $1`, ids[2]); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Asked(ctx, 0); err != nil || len(a.Resets) != 1 {
		t.Errorf("%+v %v", a, err)
	}
	if err := s.ForgetLimited(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := count(ctx, s.read, "resets", ""); err != nil || n != 1 {
		t.Error(n, err)
	}
	for i := range MaxResets { // a node's clock does not matter, so these are of now
		if _, err := s.write.ExecContext(ctx, `INSERT INTO resets VALUES ($1, '', '', $2)`, ids[2]+int64(i)+1, client); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Unblock(ctx, root(), Unblock{Domain: "shop", Item: "user", Rule: "shop/user", Client: client, Reason: "again"})
	refusedAs(t, err, Quota)
}

// testUnblockRights: clients are unblocked by those who publish for the team of the domain or of the rule, and those of files by who does for
// all teams; what is refused is in the audit.
func testUnblockRights(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, "- key: letter\n  owner: mail\n  limits: [1/s]\n")
	put(t, s, rule("user", "1/s"))
	for _, c := range []struct {
		by           Actor
		domain, item string
		files        bool
		reason       string
		want         Kind
		ok           bool
	}{
		{as("ann", Publish, "shop"), "shop", "user", false, "a", 0, true},
		{as("ann", Publish, "shop"), "shop", "letter", false, "a", 0, true},
		{as("mia", Publish, "mail"), "shop", "letter", false, "a", 0, true},
		{as("mia", Admin, "mail"), "shop", "user", false, "a", Forbidden, false},
		{as("pam", Propose, "shop"), "shop", "user", false, "a", Forbidden, false},
		{as("mal", Admin, "web"), "shop", "letter", false, "a", Forbidden, false},
		{as("ann", Admin, "shop"), "shop", "user", true, "a", Forbidden, false},
		{as("ann", Publish, AllTeams), "files", "user", true, "a", 0, true},
		{as("ann", Publish, AllTeams), "none", "user", false, "a", NotFound, false},
		{as("ann", Publish, "shop"), "shop", "user", false, " ", Invalid, false},
		{as("ann", Publish, "shop"), "shop", "gone", false, "a", 0, true},
	} {
		before, err := s.Asked(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Unblock(ctx, c.by, Unblock{Domain: c.domain, Item: c.item, Files: c.files, Rule: c.domain + "/" + c.item, Client: []byte("eve"), Reason: c.reason})
		if c.ok != (err == nil) || err != nil && !IsKind(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		after, bad := s.Asked(ctx, 0)
		if bad != nil || (len(after.Resets) > len(before.Resets)) != c.ok {
			t.Errorf("%+v: %d resets after %d, %v", c, len(after.Resets), len(before.Resets), bad)
		}
		lines, bad := s.Audit(ctx, Audited{Before: 1 << 40, Limit: 1})
		if bad != nil || lines[0].Actor != c.by.Name || lines[0].Action != Reset || (lines[0].Refused == "") != c.ok {
			t.Errorf("%+v: the audit has %+v, %v", c, lines, bad)
		}
	}
}
