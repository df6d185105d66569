package lease

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/member"
	"pgregory.net/rapid"
)

func TestUnfit(t *testing.T) {
	for text, fits := range map[string]bool{
		"100/min": true, "100/min strict": true, "10/s burst 50": true, "100/min fixed-window": true, "1000/day fixed-window zone Europe/Berlin": true,
		"100/min sliding-window 6": true, "100/min sliding-log": true,
		"60/min leaky-queue": false, "20 concurrent": false, "100/min warm-up 10s": false, "100/min fixed-window anchored": false,
		"10/s debt 5": false, "10/s initial 1": false, "100/min sliding-window count-denied": false,
	} {
		l, err := weir.ParseLimit(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if why := Unfit(l); (why == "") != fits {
			t.Errorf("%s: %q", text, why)
		}
	}
}

// TestOwner holds keys to lie evenly on their owners, and to stay where they are
// when another member goes.
func TestOwner(t *testing.T) {
	members := []string{"node1", "node2", "node3", "node4"}
	owned := map[string]int{}
	for i := range 4000 {
		key := weir.StateKey{Rule: "api", Key: fmt.Sprint("user", i)}
		owner := member.Owner(key, members)
		owned[owner]++
		if after := member.Owner(key, []string{"node3", "node1", "node2"}); owner != "node4" && after != owner {
			t.Fatalf("%v moved from %s to %s, though only node4 went", key, owner, after)
		}
	}
	for _, m := range members {
		if n := owned[m]; n < 850 || n > 1150 {
			t.Errorf("%s owns %d of 4000 keys", m, n)
		}
	}
}

func TestNewNode(t *testing.T) {
	for _, s := range []Settings{{}, {Name: "a"}, {Name: "a", Keys: -1}, {Keys: 1}} {
		if _, err := NewNode(s); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

// named are members of these names.
func named(names ...string) []member.Member {
	var members []member.Member
	for _, name := range names {
		members = append(members, member.Member{Name: name, Incarnation: 1})
	}
	return members
}

// TestLedger holds an owner to set aside no more than the limit has left (I3), whatever
// nodes say and however many votes it has, and to answer an ask that comes again as before,
// for nothing (I5).
func TestLedger(t *testing.T) {
	limits := []*weir.Limit{
		weir.MustParseLimit("100/s"), weir.MustParseLimit("10/s burst 3"), weir.MustParseLimit("50/s fixed-window"),
		weir.MustParseLimit("50/s sliding-log"), weir.MustParseLimit("50/s sliding-window 4"),
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		all, _ := limit.Standing(nil, 0)
		g := newLedger(limit, []charge{{0, all}})
		now, next, number := weir.Instant(0), uint64(0), rapid.Int64Range(0, 200)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += weir.Instant(rapid.Int64Range(0, 300_000).Draw(t, "since"))
			from := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "from")
			m := Message{
				Kind: Ask, Incarnation: uint64(rapid.IntRange(1, 3).Draw(t, "incarnation")), ID: uint64(rapid.IntRange(1, 50).Draw(t, "id")),
				Lease: rapid.Uint64Range(0, next).Draw(t, "lease"), Spent: number.Draw(t, "spent"), Closed: rapid.Bool().Draw(t, "closed"),
				Least: 1 + number.Draw(t, "least"), Demand: number.Draw(t, "demand"),
			}
			m.Want, m.Ahead = m.Least+number.Draw(t, "want"), number.Draw(t, "ahead")
			view := &member.View{Sure: 1 << 62, Prolongs: 1, Lent: now - weir.Instant(rapid.IntRange(0, 1_000_000).Draw(t, "quiet"))}
			if may := rapid.SampledFrom([]entitlement{{1, 1}, {1, 1}, {2, 3}, {1, 5}, {0, 1}}).Draw(t, "entitlement"); may.less(g.may) || g.may.of == 0 {
				g.enter(now, may)
			}
			answer, ok := g.ask(now, view, from, &m, next+1)
			next = max(next, answer.Lease)
			outstanding, free := g.takes(0), g.free(now)
			if outstanding < 0 || outstanding > free {
				t.Fatalf("%d are needed for what is outstanding, and the limit has %d left", outstanding, free)
			}
			if !ok {
				continue
			}
			again, _ := g.ask(now, view, from, &m, next+1)
			again.Words, again.At = answer.Words, answer.At // what it stands on is told once
			if diff := cmp.Diff(answer, again); diff != "" || g.free(now)-g.takes(0) != free-outstanding {
				t.Fatalf("asked again: %s, %d left and %d outstanding; before %d and %d", diff, g.free(now), g.takes(0), free, outstanding)
			}
		}
	})
}

func TestMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Message{
			Kind:        Kind(rapid.IntRange(1, int(Stored)).Draw(t, "kind")),
			Incarnation: rapid.Uint64().Draw(t, "incarnation"), Epoch: rapid.Uint64().Draw(t, "epoch"), ID: rapid.Uint64().Draw(t, "id"), Lease: rapid.Uint64().Draw(t, "lease"),
		}
		texts, all := m.texts()
		for _, text := range texts[:all] {
			*text = rapid.String().Draw(t, "text")
		}
		numbers, all := m.numbers()
		for _, n := range numbers[:all] {
			*n = rapid.Int64Range(0, 1<<62-1).Draw(t, "number")
		}
		if m.Kind == Grant && rapid.Bool().Draw(t, "seen") {
			m.Words = strings.Repeat("8 bytes ", rapid.IntRange(1, maxSight).Draw(t, "words"))
			m.At = weir.Instant(rapid.Int64Range(0, 1<<62-1).Draw(t, "at"))
		}
		if m.Kind != Grant {
			m.Closed, m.Policy = rapid.Bool().Draw(t, "closed"), Policy(rapid.IntRange(0, 4).Draw(t, "policy"))
		}
		switch m.Kind {
		case Handoff, Backup:
			m.Known, m.Resets = rapid.Uint64().Draw(t, "known"), rapid.Bool().Draw(t, "resets")
			m.Shard, m.Earlier = rapid.Uint64Range(0, MaxShards-1).Draw(t, "shard"), rapid.String().Draw(t, "earlier")
			m.Lost, m.LostRun = rapid.String().Draw(t, "lost"), rapid.Uint64().Draw(t, "its incarnation")
		case Ask:
			m.Ahead = rapid.Int64Range(0, 1<<62-1).Draw(t, "ahead")
		case Grant:
			m.Lasts = rapid.Uint64().Draw(t, "lasts")
		case Release, Taken, Stored:
		}
		got, rest, err := Parse(append(m.Append([]byte("before")), "more"...)[len("before"):])
		if err != nil || string(rest) != "more" || got != m {
			t.Fatalf("%v, then %q: %v; want %v", got, rest, err, m)
		}
	})
}

// TestVersions holds a node to read what a later version says, as far as it knows it:
// fields behind those known are passed over, and so are messages of unknown kinds.
func TestVersions(t *testing.T) {
	m := Message{Kind: Release, State: weir.StateKey{Rule: "api", Key: "k"}, Lease: 7, Spent: 3}
	known := m.Append(nil)
	longer := append(append([]byte{known[0] + 2}, known[1:]...), 1, 2)
	if got, rest, err := Parse(append(longer, "more"...)); err != nil || got != m || string(rest) != "more" {
		t.Errorf("with later fields: %v, then %q: %v", got, rest, err)
	}
	for i, what := range []string{"version", "kind"} {
		other := bytes.Clone(known)
		other[1+i] = 99
		if _, rest, err := Parse(append(other, known...)); !errors.Is(err, frame.ErrUnknown) || !bytes.Equal(rest, known) {
			t.Errorf("an unknown %s: %v, then % x", what, err, rest)
		}
	}
}

// FuzzParse holds what is read as a message to be read alike again, and all else to be
// refused.
func FuzzParse(f *testing.F) {
	m := Message{Kind: Ask, State: weir.StateKey{Rule: "api", Key: "k"}, ID: 1, Want: 3, Least: 1, Life: time.Second}
	f.Add(m.Append(nil))
	m.Kind = Grant
	f.Add(m.Append(nil))
	m.Kind = Release
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := Parse(b)
		if err != nil {
			return
		}
		if again, rest, err := Parse(m.Append(nil)); err != nil || again != m || len(rest) > 0 {
			t.Errorf("% x is read as %v, which is read as %v, then % x: %v", b, m, again, rest, err)
		}
		if len(rest) >= len(b) {
			t.Errorf("nothing was read of % x", b)
		}
	})
}

// TestGarbage holds a node to live through whatever a peer says, and to keep no more
// keys than it may.
func TestGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := map[string]*weir.Limit{"api": weir.MustParseLimit("100/s"), "none": weir.MustParseLimit("20 concurrent")}
		n, err := NewNode(Settings{Name: "a", Incarnation: 1, Keys: 3})
		if err != nil {
			t.Fatal(err)
		}
		now, waiting := begin, map[uint64]bool{}
		peers := member.NewPeers(now, "a", 1)
		peers.Agree(now, named("a", "b", "c"), &[]member.HeartbeatTo{})
		number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 3))
		for id := range uint64(rapid.IntRange(1, 40).Draw(t, "steps")) {
			now += weir.Instant(rapid.Int64Range(0, 1_000_000).Draw(t, "since"))
			key := weir.StateKey{Rule: rapid.SampledFrom([]string{"api", "none"}).Draw(t, "rule"), Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
			var fx Effects
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 3:
				b := rapid.Make[member.Heartbeat]().Draw(t, "heartbeat")
				peers.Tick(now, false, false, &[]member.HeartbeatTo{})
				peers.Receive(now, rapid.SampledFrom([]string{"b", "c", "mallory"}).Draw(t, "peer"), &b)
				n.View(now, peers.View(), &fx)
			case 0:
				waiting[id] = true
				n.Ask(now, &Request{ID: id, State: key, Limit: limits[key.Rule], Cost: number.Draw(t, "cost")}, &fx)
			case 1:
				n.Tick(now, &fx)
			default:
				n.Receive(now, rapid.SampledFrom([]string{"b", "c", "mallory"}).Draw(t, "peer"), &Message{
					Kind: Kind(rapid.IntRange(0, int(Stored)+1).Draw(t, "kind")), State: key, Incarnation: uint64(number.Draw(t, "incarnation")),
					Limit: rapid.SampledFrom([]string{"100/s", "7/min", "20 concurrent", "9/s sliding-log", "100 / s", ""}).Draw(t, "limit"), Epoch: uint64(number.Draw(t, "epoch")),
					ID: uint64(number.Draw(t, "id")), Lease: uint64(number.Draw(t, "lease")), Spent: number.Draw(t, "spent"), Closed: rapid.Bool().Draw(t, "closed"),
					Policy: Policy(rapid.IntRange(0, 6).Draw(t, "policy")), Least: number.Draw(t, "least"), Want: number.Draw(t, "want"), Demand: number.Draw(t, "demand"),
					Granted: number.Draw(t, "granted"), Life: time.Duration(number.Draw(t, "life")), Wait: time.Duration(number.Draw(t, "wait")),
					Words: rapid.SampledFrom([]string{"", "12345678abcdefgh", "\x01\x00\x00\x00\x00\x00\x00\x0012345678abcdefgh\x01\x00\x00\x00\x00\x00\x00\x00", "123"}).Draw(t, "words"), At: weir.Instant(number.Draw(t, "at")),
					Lost: rapid.SampledFrom([]string{"", "c", "mallory"}).Draw(t, "lost"), LostRun: uint64(number.Draw(t, "its incarnation")),
					Part: number.Draw(t, "part"), Of: number.Draw(t, "of"),
					Known: uint64(number.Draw(t, "known")), Free: number.Draw(t, "free"), Fresh: time.Duration(number.Draw(t, "fresh")),
				}, &fx)
			}
			for _, a := range fx.Answers {
				if !waiting[a.ID] {
					t.Fatalf("request %d is answered, which nobody waits for", a.ID)
				}
				delete(waiting, a.ID)
			}
			if len(n.holders.Rows) > 3 || len(n.ledgers.Rows) > 3 {
				t.Fatalf("%d and %d keys are kept", len(n.holders.Rows), len(n.ledgers.Rows))
			}
		}
	})
}
