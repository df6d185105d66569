package rulestore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// begin keeps a session that begins now.
func begin(t testing.TB, s *Store, secret, token string) Session {
	t.Helper()
	one := Session{ID: SessionID(secret), Token: token, Proof: "proof of " + secret}
	if err := s.BeginSession(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	return one
}

// pass has time pass for a session: it began, and was seen, as much earlier.
func pass(t testing.TB, s *Store, one Session, long time.Duration) {
	t.Helper()
	if _, err := s.write.ExecContext(t.Context(), `UPDATE sessions SET made = made - $1, seen = seen - $1 WHERE id = $2`, long.Microseconds(), one.ID); err != nil {
		t.Fatal(err)
	}
}

// goesOn is whether a session does.
func goesOn(t testing.TB, s *Store, one Session) bool {
	t.Helper()
	_, _, err := s.Session(t.Context(), one.ID)
	if err != nil && !IsKind(err, Unknown) {
		t.Fatal(err)
	}
	return err == nil
}

// testSessions: a session is known until its time is over, somebody ends it, or its token counts no more.
func testSessions(t *testing.T, s *Store) {
	ctx, now := t.Context(), time.Now()
	ann, _, err := s.CreateToken(ctx, root(), Token{Actor: "ann", Role: Publish, Teams: []string{"shop"}, Expires: now.Add(2 * time.Hour)}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	bob, _, err := s.CreateToken(ctx, root(), Token{Actor: "bob", Role: Read, Teams: []string{"shop"}, Expires: now.Add(2 * time.Hour)}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	busy, silent, other := begin(t, s, "busy", ""), begin(t, s, "silent", ""), begin(t, s, "other", "")
	if one, by, err := s.Session(ctx, busy.ID); err != nil || one.Proof != busy.Proof || by.Name != "" {
		t.Errorf("%+v %+v %v", one, by, err)
	}
	if err := s.EndSession(ctx, other.ID); err != nil || goesOn(t, s, other) {
		t.Error("a session goes on that was ended:", err)
	}
	for _, bad := range []string{"", "busy", SessionID("none"), strings.Repeat("x", 1<<16)} {
		if goesOn(t, s, Session{ID: bad}) {
			t.Errorf("%.20q is a session", bad)
		}
	}
	const step = SessionIdle - seenEvery
	for long := time.Duration(0); long < SessionLife; long += step {
		if !goesOn(t, s, busy) {
			t.Fatal("a session ends after", long)
		}
		pass(t, s, busy, step)
	}
	pass(t, s, silent, SessionIdle)
	if goesOn(t, s, busy) || goesOn(t, s, silent) {
		t.Error("a session goes on whose time is over")
	}
	late := begin(t, s, "late", "")
	pass(t, s, late, SessionIdle-seenEvery)
	if left, err := s.ForgetSessions(ctx); left != 1 || err != nil || !goesOn(t, s, late) {
		t.Error(left, err)
	}

	theirs := begin(t, s, "ann's", ann.ID)
	if _, by, err := s.Session(ctx, theirs.ID); err != nil || by.Name != "ann" || by.Token != ann.ID || by.Role != Publish {
		t.Error(by, err)
	}
	if err := s.RevokeToken(ctx, root(), ann.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Session(ctx, theirs.ID); !IsKind(err, Unknown) || !strings.Contains(err.Error(), "was revoked") {
		t.Error(err)
	}
	expired := begin(t, s, "later", bob.ID)
	if _, err := s.write.ExecContext(ctx, `UPDATE tokens SET expires = $1 WHERE id = $2`, now.UnixMicro(), bob.ID); err != nil {
		t.Fatal(err)
	}
	if goesOn(t, s, expired) {
		t.Error("a session goes on whose token has expired")
	}
}

// testSessionClocks: the clock of a node ends no session, and makes none longer.
func testSessionClocks(t *testing.T, s *Store) {
	first := begin(t, s, "first", "")
	ahead := time.Now().Add(2 * SessionLife)
	other := Session{ID: SessionID("of a node that is ahead"), Made: ahead, Seen: ahead}
	if err := s.BeginSession(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if left, err := s.ForgetSessions(t.Context()); left != 2 || err != nil || !goesOn(t, s, first) || !goesOn(t, s, other) {
		t.Errorf("%d sessions are left, %v", left, err)
	}
	if pass(t, s, other, SessionIdle); goesOn(t, s, other) {
		t.Error("a session is longer by the clock of its node")
	}
}

// testNotices: a notice is said on one page, whichever node keeps and says it, and however many ask.
func testNotices(t *testing.T, s *Store) {
	ctx := t.Context()
	one := begin(t, s, "secret", "")
	if err := s.Notify(ctx, one.ID, strings.Repeat("é\x00", MaxReason)); err != nil {
		t.Fatal(err)
	}
	if err := s.Notify(ctx, one.ID, "It is done."); err != nil {
		t.Fatal(err)
	}
	var g sync.WaitGroup
	said := make(chan bool, 4)
	for range cap(said) {
		g.Go(func() {
			found, _, err := s.Session(ctx, one.ID)
			if err != nil {
				t.Error(err)
			}
			first, err := s.Notified(ctx, &found)
			said <- first && found.Notice == "It is done."
			if err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	close(said)
	times := 0
	for first := range said {
		if first {
			times++
		}
	}
	if found, _, err := s.Session(ctx, one.ID); times != 1 || err != nil || found.Notice != "" {
		t.Errorf("said %d times, then %q, %v", times, found.Notice, err)
	}
}

// many keeps as many sessions of a token, silent since more and more milliseconds.
func many(t testing.TB, s *Store, token string, n int, now time.Time) {
	t.Helper()
	_, err := s.write.ExecContext(t.Context(), `INSERT INTO sessions (id, token, proof, made, seen, notice)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		SELECT CAST($2 AS TEXT) || '-' || CAST(i AS TEXT), $2, '', CAST($3 AS BIGINT) - 1000 * i, CAST($3 AS BIGINT) - 1000 * i, '' FROM n`, n, token, now.UnixMicro())
	if err != nil {
		t.Fatal(err)
	}
}

// testManySessions: one more ends the one that was silent the longest, of all and of its token.
func testManySessions(t *testing.T, s *Store) {
	now := time.Now()
	for i := range MaxSessions / MaxSessionsEach {
		many(t, s, fmt.Sprint("token", i), MaxSessionsEach, now.Add(-time.Duration(i)*time.Second))
	}
	there := func() int64 {
		t.Helper()
		n, err := s.ForgetSessions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	has := func(id string) bool {
		t.Helper()
		n, err := count(t.Context(), s.read, "sessions", ` WHERE id = $1`, id)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	begin(t, s, "one of a new token", "")
	if last := fmt.Sprintf("token%d-%d", MaxSessions/MaxSessionsEach-1, MaxSessionsEach); there() != MaxSessions || has(last) {
		t.Errorf("%d, and the most silent one is there: %v", there(), has(last))
	}
	begin(t, s, "one more of the first", "token0")
	if there() > MaxSessions || has(fmt.Sprint("token0-", MaxSessionsEach)) || !has(fmt.Sprint("token1-", MaxSessionsEach)) {
		t.Errorf("%d, and not the most silent one of the token has ended", there())
	}
}

// TestSessionsOfManyNodes: however many nodes begin sessions at a time, there are not too many.
func TestSessionsOfManyNodes(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	now := time.Now()
	nodes := []*Store{open(t, url), open(t, url), open(t, url)}
	many(t, nodes[0], "token", MaxSessionsEach, now.Add(-time.Second))
	var g sync.WaitGroup
	for i := range 24 {
		g.Go(func() {
			one := Session{ID: SessionID(fmt.Sprint(i)), Token: "token"}
			if err := nodes[i%len(nodes)].BeginSession(t.Context(), one); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if n, err := nodes[0].ForgetSessions(t.Context()); n != MaxSessionsEach || err != nil {
		t.Error(n, err)
	}
}
