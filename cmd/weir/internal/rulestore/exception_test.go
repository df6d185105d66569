package rulestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// granting4711 is an exception of the rule user of shop.
func granting4711(limit string, long time.Duration) Exception {
	return Exception{Domain: "shop", Entries: []Entry{{"user", "4711"}}, Limit: limit, Until: time.Now().Add(long), Reason: "a launch"}
}

// testExceptions: what is set is listed, followed by nodes, audited without the client's name, and ends; what can't be is refused.
func testExceptions(t *testing.T, s *Store) {
	ctx := t.Context()
	if _, _, err := s.Import(ctx, root(), Import{
		Text: "domain: excepted\ndescriptors:\n  - key: user\n    limits: [10/s]\n  - key: tier\n    limits: [{name: a, limit: 1/s}, {name: b, limit: 5/min}]\n  - key: leased\n    lease: 1s\n    limits: [10/s]\n  - key: gone\n    limits: [10/s]\n",
		Team: "shop", To: Enforced, Reason: "a test",
	}); err != nil {
		t.Fatal(err)
	}
	ann := as("ann", Publish, "shop")
	of := func(limit string, long time.Duration, words ...string) Exception {
		e := Exception{Domain: "excepted", Limit: limit, Until: time.Now().Add(long), Reason: "a launch"}
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			e.Entries = append(e.Entries, Entry{key, value})
		}
		return e
	}
	before, err := s.Granted(ctx, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.SetException(ctx, ann, of("100/s", time.Hour, "user=4711"))
	if err != nil || first.Rule != "user" || first.Author != "ann" {
		t.Fatal(first, err)
	}
	again, err := s.SetException(ctx, ann, of("200/s burst 300", 2*time.Hour, "user=4711"))
	if err != nil || again.ID != first.ID {
		t.Fatal(again, err)
	}
	byName := of("7/s", time.Hour, "tier=x")
	byName.Of = "b"
	if _, err := s.SetException(ctx, ann, byName); err != nil {
		t.Fatal(err)
	}

	long := strings.Repeat("x", 5<<10)
	for _, c := range []struct {
		e    Exception
		kind Kind
		says string
	}{
		{of("100/s", time.Hour, "usr=4711"), NotFound, "did you mean user"},
		{of("100/s", time.Hour, "user=4711", "more=x"), NotFound, "there is nothing for the second"},
		{of("100/s", time.Hour, "user="+long), Invalid, "has 5120 bytes"},
		{of("100/s", time.Hour, "user=a\x00b"), Invalid, "control character"},
		{of("100/s", time.Hour, "user=a\x1b[31m"), Invalid, "control character"},
		{of("100/s", time.Hour, "user=\xff"), Invalid, "not UTF-8"},
		{of("100/s", time.Hour), Invalid, "there are 0"},
		{of("100/s bust 20", time.Hour, "user=4711"), Invalid, `burst`},
		{of("unlimited", time.Hour, "user=4711"), Invalid, "write a limit that is never reached"},
		{of("10/s sliding-log count-denied", time.Hour, "leased=a"), Invalid, "lease"},
		{of("100/s", time.Hour, "tier=x"), NotFound, `name the one that is meant, of "a", "b"`},
		{of("100/s", 0, "user=4711"), Invalid, "over already"},
		{of("100/s", -time.Hour, "user=4711"), Invalid, "over already"},
		{of("100/s", 366*24*time.Hour, "user=4711"), Invalid, "92 days"},
	} {
		_, err := s.SetException(ctx, ann, c.e)
		refusedAs(t, err, c.kind)
		if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
	refusedAs(t, second(s.SetException(ctx, as("eve", Propose, "shop"), of("1/s", time.Hour, "user=a"))), Forbidden)
	refusedAs(t, second(s.SetException(ctx, as("wes", Publish, "web"), of("1/s", time.Hour, "user=a"))), Forbidden)
	refusedAs(t, second(s.EndException(ctx, as("wes", Publish, "web"), first.ID, "mine")), Forbidden)

	// Nodes hear of what was changed, one by one.
	g, err := s.Granted(ctx, before.Revision, time.Now())
	if err != nil || g.Anew || len(g.Changed) != 2 {
		t.Fatal(g, err)
	}
	ended, err := s.EndException(ctx, ann, first.ID, "it is over")
	if err != nil {
		t.Fatal(ended, err)
	}
	refusedAs(t, second(s.EndException(ctx, ann, first.ID, "it is over")), NotFound)
	if g, err = s.Granted(ctx, g.Revision, time.Now()); err != nil || len(g.Changed) != 1 || g.Changed[0].Limit != nil || g.Changed[0].State.Key != "4711" {
		t.Fatal(g, err)
	}

	testExceptionList(t, s, ann)
	testExceptionLife(t, s, ann, of)

	lines, err := s.Audit(ctx, Audited{Domain: "excepted"})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, e := range lines {
		if strings.HasPrefix(e.Action, "exception.") {
			fmt.Fprintln(&said, e.Action, e.Rule, e.Reason)
		}
		if strings.Contains(e.Reason, "4711") {
			t.Errorf("the audit names a client: %+v", e)
		}
	}
	for _, want := range []string{"exception.set user " + first.ID + ", 100/s until ", "exception.end user " + first.ID + ", 200/s burst 300: it is over", "exception.import  300 exceptions: many"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no line %q in\n%s", want, said.String())
		}
	}
}

// testExceptionList: a list is set whole or not at all, found by pages, and each wrong line is told.
func testExceptionList(t *testing.T, s *Store, by Actor) {
	ctx := t.Context()
	var b strings.Builder
	b.WriteString("user,limit,for\n")
	for i := range 300 {
		fmt.Fprintf(&b, "u%03d,%d/s,1day\n", i, 1+i%7)
	}
	set := func(text string) error {
		p := ReadExceptions(strings.NewReader(text), time.Now())
		p.Domain, p.Reason = "excepted", "many"
		_, err := s.SetExceptions(ctx, by, p)
		return err
	}
	wrong, _ := errors.AsType[*Error](set(b.String() + "u7,100/sec of,1day\nu8,10/s\nu8,10/s,1day\nu8,10/s,1day\nu9,1/s,never\n"))
	if wrong == nil || len(wrong.Findings) != 4 || !strings.Contains(wrong.Text, "4 lines can't be used, and nothing was changed") {
		t.Fatal(wrong)
	}
	for i, line := range []int{302, 303, 305, 306} {
		if wrong.Findings[i].Line != line {
			t.Errorf("%v, want line %d", wrong.Findings[i], line)
		}
	}
	if list, err := s.Exceptions(ctx, ExceptionList{Domain: "excepted", Rules: []string{"user"}}); err != nil || len(list) != 0 {
		t.Fatal(len(list), err)
	}
	if err := set(b.String()); err != nil {
		t.Fatal(err)
	}
	q, found := ExceptionList{Domain: "excepted", Rules: []string{"user"}, Limit: 7}, map[string]bool{}
	for {
		page, err := s.Exceptions(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			found[e.Name()] = true
		}
		if len(page) < q.Limit {
			break
		}
		last := page[len(page)-1]
		q.BehindName, q.Behind = last.SortName(), last.ID
	}
	if len(found) != 300 || !found["user=u299"] {
		t.Errorf("%d are listed", len(found))
	}
	if list, err := s.Exceptions(ctx, ExceptionList{Domain: "excepted", Search: "u29"}); err != nil || len(list) != 10 {
		t.Errorf("%d are found: %v", len(list), err)
	}
	for text, want := range map[string]string{
		"":                                    "list:1:1: error: is missing",
		"user,limit\nx,1/s\n":                 "one column of until and for",
		"limit,for\n1/s,1h\n":                 "names no key",
		"user,for\nx,1h\n":                    "names no column limit",
		"user,user,limit,for\nx,y,1/s,1h\n":   "twice",
		"user,limit,for\nx,1/s\n":             "list:2:1: error: has 2 fields",
		"user,limit,for\n\"x,1/s,1h\n":        "is no CSV",
		"user,limit,for\nx,1/s,never\n":       "list:2:1: error: for: ",
		"user,limit,until\nx,1/s,tomorrow\n":  "list:2:1: error: until: ",
		"user,limit,for\nx,1/s,-1h\nb,1/s,0s": "list:3:1: error: for: ",
	} {
		if err := set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// testExceptionLife: exceptions end with their rule, and come back with their domain; one beyond the bound is refused.
func testExceptionLife(t *testing.T, s *Store, by Actor, of func(string, time.Duration, ...string) Exception) {
	ctx := t.Context()
	if _, err := s.SetException(ctx, by, of("5/s", time.Hour, "gone=x")); err != nil {
		t.Fatal(err)
	}
	r, err := s.Rule(ctx, "excepted", "gone")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, by, Proposal{Domain: "excepted", Rule: "gone", Match: r.Revision, To: Enforced, Reason: "it is not needed"}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.ExceptionsHeld(ctx, "excepted", "gone"); err != nil || n != 0 {
		t.Error(n, err)
	}
	held := func() int64 {
		n, err := s.ExceptionsHeld(ctx, "excepted", "")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := held()
	d, err := s.Domain(ctx, "excepted")
	if err != nil {
		t.Fatal(err)
	}
	seen, err := s.Granted(ctx, 0, time.Now())
	if err != nil || !seen.Anew {
		t.Fatal(err)
	}
	if err := s.DeleteDomain(ctx, root(), Removal{Domain: d.Name, Confirm: d.Name, Match: d.Revision, Reason: "by mistake"}); err != nil {
		t.Fatal(err)
	}
	g, err := s.Granted(ctx, seen.Revision, time.Now())
	if err != nil || int64(len(g.Changed)) != all || held() != 0 {
		t.Error(len(g.Changed), held(), err)
	}
	if _, err := s.RestoreDomain(ctx, root(), d.Name, 0, "it was a mistake"); err != nil {
		t.Fatal(err)
	}
	if held() != all {
		t.Errorf("%d came back of %d", held(), all)
	}

	var n int64
	if err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM exceptions`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	fill := func(to int64) {
		if _, err := s.write.ExecContext(ctx, `UPDATE counters SET exceptions = $1`, to); err != nil {
			t.Fatal(err)
		}
	}
	fill(MaxExceptions + 5) // there are some that have ended
	ended := all
	if err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM exceptions WHERE ends <= $1`, time.Now().UnixMicro()).Scan(&ended); err != nil || ended == 0 {
		t.Fatal(ended, err)
	}
	refusedAs(t, second(s.SetException(ctx, by, of("5/s", time.Hour, "user=one-too-many"))), Quota)
	fill(MaxExceptions + ended - 1) // they make place, and nodes that have not heard of them read all
	if _, err := s.SetException(ctx, by, of("5/s", time.Hour, "user=the-last")); err != nil {
		t.Fatal(err)
	}
	if g, err := s.Granted(ctx, 1, time.Now()); err != nil || !g.Anew {
		t.Error(g.Anew, err)
	}
	if g, err := s.Granted(ctx, seen.Revision, time.Now()); err != nil || g.Anew {
		t.Error("a node that has heard of all that ended reads all: ", err)
	}
	fill(n - ended + 1)
}

// testExceptionParts: a list is set in parts, between which other changes come; when it stops, the error says how far it came, and the list can be sent again.
func testExceptionParts(t *testing.T, s *Store) {
	ctx := t.Context()
	if _, _, err := s.Import(ctx, root(), Import{Text: "domain: parts\ndescriptors:\n  - key: user\n    limits: [10/s]\n", Team: "shop", To: Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	s.hold = 0 // each look-up is a part
	defer func() { s.hold = exceptionHold }()
	const n = 2*exceptionChunk + 10
	batch := func() ExceptionBatch {
		var b strings.Builder
		b.WriteString("user,limit,for\n")
		for i := range n {
			fmt.Fprintf(&b, "u%03d,5/s,1day\n", i)
		}
		p := ReadExceptions(strings.NewReader(b.String()), time.Now())
		p.Domain, p.Reason = "parts", "many"
		return p
	}
	held := func() int64 {
		n, err := s.ExceptionsHeld(ctx, "parts", "")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	dry := batch()
	dry.Dry = true
	if done, err := s.SetExceptions(ctx, root(), dry); err != nil || done.Set != n || held() != 0 {
		t.Fatal(done, err, held())
	}
	stopping, stop := context.WithCancel(ctx)
	s.told.ring()
	heard := s.Heard()
	go func() {
		<-heard // the first part
		stop()
	}()
	done, err := s.SetExceptions(stopping, root(), batch())
	if done.Set < exceptionChunk || done.Set >= n || held() != int64(done.Set) || !IsKind(err, Unavailable) {
		t.Fatal(done, err, held())
	}
	if want := fmt.Sprintf("%d of %d exceptions are set, up to line %d, and stay; send the whole list again", done.Set, n, done.Set+1); !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	if done, err := s.SetExceptions(ctx, root(), batch()); err != nil || done.Set != n || held() != n {
		t.Fatal(done, err, held())
	}
	lines, err := s.Audit(ctx, Audited{Domain: "parts", Before: 1 << 40, Limit: 3})
	if err != nil || len(lines) != 3 {
		t.Fatal(lines, err)
	}
	for i, want := range []string{fmt.Sprintf("10 of %d exceptions, after %d: many", n, 2*exceptionChunk), fmt.Sprintf("%d of %d exceptions, after %[1]d: many", exceptionChunk, n), fmt.Sprintf("%d of %d exceptions, after 0: many", exceptionChunk, n)} {
		if lines[i].Action != exceptionImport || lines[i].Reason != want {
			t.Errorf("%s %q, want %q", lines[i].Action, lines[i].Reason, want)
		}
	}
	long := batch()
	long.List = make([]Exception, MaxExceptionBatch+1)
	refusedAs(t, second(s.SetExceptions(ctx, root(), long)), Invalid)
}

// testExceptionReview: in a domain under review, one person alone has an hour, together with overrides, and a second person confirms.
func testExceptionReview(t *testing.T, s *Store) {
	ctx := t.Context()
	if _, _, err := s.Import(ctx, root(), Import{Text: "domain: careful\ndescriptors:\n  - key: user\n    limits: [10/s]\n", Team: "shop", To: Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	d, err := s.Domain(ctx, "careful")
	if err != nil {
		t.Fatal(err)
	}
	d.Review = true
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "carefully"); err != nil {
		t.Fatal(err)
	}
	ann, bob := as("ann", Publish, "shop"), as("bob", Publish, "shop")
	e := granting4711("100/s", 30*time.Minute)
	e.Domain = "careful"
	made, err := s.SetException(ctx, ann, e)
	if err != nil || !made.Unreviewed {
		t.Fatal(made, err)
	}
	e.Until = time.Now().Add(2 * time.Hour)
	refusedAs(t, second(s.SetException(ctx, ann, e)), Forbidden)
	refusedAs(t, s.Override(ctx, ann, Override{Domain: "careful", Until: time.Now().Add(61 * time.Minute), Reason: "as well"}), Forbidden)
	e.Until = time.Now().Add(7 * 24 * time.Hour)
	made, err = s.SetException(ctx, bob, e)
	if err != nil || made.Unreviewed || made.Author != "ann" || made.Second != "bob" {
		t.Fatal(made, err)
	}
	e.Limit = "1000/s" // another one
	refusedAs(t, second(s.SetException(ctx, bob, e)), Forbidden)
	if _, err := s.EndException(ctx, bob, made.ID, "enough"); err != nil {
		t.Fatal(err)
	}
}

// TestExceptionsFollowed: a node that hears of changes by revisions has what the database has, however it hears.
func TestExceptionsFollowed(t *testing.T) {
	s := open(t, t.TempDir())
	ctx, by := t.Context(), root()
	if _, _, err := s.Import(ctx, by, Import{Text: "domain: shop\ndescriptors:\n  - key: user\n    limits: [10/s]\n", Team: "shop", To: Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var follows [2]rules.Exceptions
	var seen [2]int64
	ids := map[string]string{}
	for step := range 60 {
		user := fmt.Sprint("u", random.IntN(8))
		if id := ids[user]; id != "" && random.IntN(3) == 0 {
			if _, err := s.EndException(ctx, by, id, "over"); err != nil {
				t.Fatal(err)
			}
			delete(ids, user)
		} else {
			e := granting4711(fmt.Sprintf("%d/s", 20+random.IntN(4)), time.Hour)
			e.Entries[0].Value = user
			made, err := s.SetException(ctx, by, e)
			if err != nil {
				t.Fatal(err)
			}
			ids[user] = made.ID
		}
		if random.IntN(10) == 0 { // what has ended is forgotten, and who has not heard reads all
			if _, err := s.write.ExecContext(ctx, `UPDATE exceptions SET ends = ends - $1 WHERE early = 1`, (2 * time.Hour).Microseconds()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range follows {
			if i == 1 && random.IntN(7) > 0 {
				continue // it is away now and then
			}
			g, err := s.Granted(ctx, seen[i], time.Now())
			if err != nil {
				t.Fatal(err)
			}
			follows[i].Change(g.Changed, g.Anew, weir.InstantOf(time.Now()))
			seen[i] = g.Revision
			if n := follows[i].Active(weir.InstantOf(time.Now())); n != len(ids) {
				t.Fatalf("step %d: the node %d has %d, and there are %d", step, i, n, len(ids))
			}
		}
	}
}

// testExceptionClocks: the clock of a node ends no exception early or late. The time of the end is told by the node's own clock.
func testExceptionClocks(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	e, err := s.SetException(ctx, root(), granting4711("100/s", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Hour, -2 * time.Hour} {
		now := time.Now().Add(ahead)
		g, err := s.Granted(ctx, 0, now)
		if err != nil || len(g.Changed) != 1 || g.Changed[0].Limit == nil {
			t.Fatalf("%v ahead: %+v %v", ahead, g, err)
		}
		if left, want := g.Changed[0].Until.Time().Sub(now), e.Until.Sub(now.Add(-ahead)); left < want-2*clockStep || left > want+2*clockStep {
			t.Errorf("%v ahead: it ends in %v, and %v are left", ahead, left, want)
		}
		if told := g.Changed[0].Until.Time(); ahead < clockStep/2 && ahead > -clockStep/2 && !told.Equal(e.Until) && s.dir != "" {
			t.Errorf("%v ahead: it ends at %v, not %v", ahead, told, e.Until)
		}
	}
	ended, err := s.EndException(ctx, root(), e.ID, "a test")
	if off := time.Since(ended.Until); err != nil || off < 0 || off > time.Minute {
		t.Error(ended.Until, err)
	}
	if g, err := s.Granted(ctx, 0, time.Now().Add(-2*time.Hour)); err != nil || len(g.Changed) != 0 {
		t.Errorf("it goes on for a node that is behind: %+v %v", g, err)
	}
}
