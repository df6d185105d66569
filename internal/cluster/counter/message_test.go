package counter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/table"
	"github.com/weir-limit/weir/internal/packing"
	"pgregory.net/rapid"
)

// TestReplicaMessages tells of many keys and processes: all is heard, in messages that
// are no longer than they may be.
func TestReplicaMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = replicaStart
		all := group(t, weir.SharingGossip, 2)
		a, b := all[0], all[1]
		key := rapid.StringN(0, 300, -1)
		for range rapid.IntRange(1, 40).Draw(t, "keys") {
			k := weir.StateKey{Rule: key.Draw(t, "rule"), Key: key.Draw(t, "key")}
			l := weir.MustParseLimit(rapid.SampledFrom([]string{"100/s", "1000/h burst 20", "9/day fixed-window"}).Draw(t, "limit"))
			r := a.tally(now, &weir.Ask{State: k, Limit: l})
			for range rapid.IntRange(1, 80).Draw(t, "lines") {
				of := told{
					node: rapid.StringN(1, 60, -1).Draw(t, "node"), incarnation: rapid.Uint64().Draw(t, "incarnation"), slot: 1 + rapid.Uint64Range(0, 1<<60).Draw(t, "slot"),
					count: rapid.Int64Range(1, 1<<61).Draw(t, "count"), opened: now - tick*weir.Instant(rapid.Int64Range(0, 1000).Draw(t, "opened")), changed: now,
				}
				a.hear(now, r, &of)
			}
		}
		var posts []Post
		a.Tick(now+bounds.Micros(Sync), &posts)
		for _, post := range posts {
			if sharing, ok := IsPost(post.Message); !ok || sharing != weir.SharingGossip {
				t.Fatalf("a message that begins with % x is not known", post.Message[:3])
			}
			if len(post.Message) > MaxPost {
				t.Fatalf("a message of %d bytes", len(post.Message))
			}
			if err := b.Receive(now+bounds.Micros(Sync), "n0", post.Message, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range a.tallies.Rows {
			other, _ := b.tallies.Get(row.Key)
			for _, l := range row.Of.lines {
				at, ok := other.find(b.id(now, a.peers[l.node].name), l.incarnation)
				if !ok || other.lines[at].slot != l.slot || other.lines[at].count != l.count || l.opened-other.lines[at].opened > tick {
					t.Fatalf("%q: of %v came %v", row.Key, l, other.lines)
				}
			}
		}
	})
}

// TestPosts holds a replica to a bound of messages at a time, and to tell the rest later.
func TestPosts(t *testing.T) {
	now := replicaStart
	p, err := New(now, Settings{Name: "a", Incarnation: 1, Sharing: weir.SharingMesh, Keys: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	p.View(now, []member.Presence{{Name: "a"}, {Name: "b"}})
	p.peers[1].pull.done = true
	l := weir.MustParseLimit("10/h")
	for i := range 10_000 {
		var out [1]weir.Decision
		p.Take(now, []weir.Ask{{State: weir.StateKey{Rule: "shop/" + strings.Repeat("x", 30), Key: fmt.Sprint("customer-", i)}, Limit: l, Cost: 1}}, out[:])
	}
	told := map[string]int{}
	for p.Stats().Waiting > 0 {
		var posts []Post
		before := p.Stats().Waiting
		now += bounds.Micros(Sync)
		p.Tick(now, &posts)
		if len(posts) > MaxPosts+1 {
			t.Fatalf("%d messages at a time", len(posts))
		}
		u := unpacker{now: now}
		for _, post := range posts {
			u = unpacker{Reader: packing.Reader{Rest: post.Message[5:]}, now: now}
			for key, _, _, ok := u.tally(nil); ok; key, _, _, ok = u.tally(nil) {
				told[key.Key]++
			}
		}
		t.Logf("%d messages, %d keys waited and %d do", len(posts), before, p.Stats().Waiting)
	}
	twice := 0
	for _, n := range told {
		if n >= 2 {
			twice++
		}
	}
	if twice != 10_000 {
		t.Errorf("%d of 10,000 keys were told twice", twice)
	}
}

// FuzzReplica holds a replica to live through whatever a peer sends, and to keep no
// more than it may.
func FuzzReplica(f *testing.F) {
	const now = replicaStart
	all := group(f, weir.SharingMesh, 3)
	all[0].passes(now, "100/s", 3)
	var posts []Post
	all[0].Tick(now+bounds.Micros(Sync), &posts)
	for _, post := range posts {
		f.Add(post.Message)
	}
	f.Add([]byte{frame.Version, ask, 0, 5})
	f.Add([]byte{frame.Version, charges, 0, 0, 0, 0, 1, 'r', 1, 5, '1', '0', '0', '/', 's', 0, 1, 1, 'b', 1, 1, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		hears(t, group(t, weir.SharingMesh, 3)[0], b)
		if len(b) > 2 { // the same by a hub, and to it
			b = slices.Clone(b)
			b[2] = hubs + b[2]%2
		}
		hears(t, group(t, weir.SharingHub, 3)[0], b)
	})
}

// hears has one of three replicas hear a message, and what it says then.
func hears(t *testing.T, p *Replica, b []byte) {
	t.Helper()
	const now = replicaStart
	p.passes(now, "100/s", 10)
	var posts []Post
	for range 2 {
		if err := p.Receive(now+1, "n1", b, &posts); err != nil && !errors.Is(err, frame.ErrMessage) {
			t.Fatal(err)
		}
	}
	if n := p.passes(now+1, "100/s", 200); n > 90 {
		t.Errorf("after % x, %d more than 100 pass", b, n-90)
	}
	p.Tick(now+bounds.Micros(Sweep), &posts)
	for _, post := range posts {
		if err := p.Receive(now+2, "n2", post.Message, &posts); err != nil {
			t.Errorf("after % x it says % x: %v", b, post.Message, err)
		}
	}
	if len(p.tallies.Rows) > 100 || len(p.peers) > MaxPeers {
		t.Errorf("%d keys and %d nodes are kept", len(p.tallies.Rows), len(p.peers))
	}
}

// TestManyNames lets thousands of nodes come and go: the last of them is known as well as the
// first, and a count of one that has gone stays as long as it is in use.
func TestManyNames(t *testing.T) {
	p, now := newReplica(t, replicaStart, "a", 1, weir.SharingMesh), replicaStart
	p.passes(now, "100/h", 1)
	for i := range 3 * MaxPeers {
		now += bounds.Micros(Sync)
		p.View(now, []member.Presence{{Name: "a"}, {Name: fmt.Sprint("pod-", i)}, {Name: fmt.Sprint("pod-", i)}})
		if p.view.members != 2 || len(p.peers) > MaxPeers {
			t.Fatalf("after %d nodes: %d members, %d names", i, p.view.members, len(p.peers))
		}
		if i%MaxPeers == 0 {
			r, _ := p.tallies.Get(apiKey)
			p.hear(now, r, &told{node: fmt.Sprint("pod-", i), incarnation: 1, slot: 1, count: 1, opened: now, changed: now})
		}
	}
	for i := range 3 {
		if _, count := p.Known(apiKey, fmt.Sprint("pod-", i*MaxPeers), 1); count != 1 {
			t.Errorf("of node %d %d events are known", i*MaxPeers, count)
		}
	}
}

// TestReplicaFull holds a replica that is told of more keys than it keeps to its part
// of those that it did not keep.
func TestReplicaFull(t *testing.T) {
	const now = replicaStart
	all := group(t, weir.SharingMesh, 2)
	l := weir.MustParseLimit("100/h")
	for i := range 200 {
		key := weir.StateKey{Rule: "api", Key: fmt.Sprint(i)}
		all[0].hear(now, &tally{key: key, form: all[0].form(l)}, &told{node: "n1", incarnation: 1, slot: 1, count: 1, opened: now, changed: now})
		if r := all[0].tallyOf(now, key, l.String()); r != nil {
			r.state = weir.State{1 << 50, 0} // in use for long
		}
	}
	if kept := all[0].Stats(); kept.Keys != 100 || kept.Dropped != 100 {
		t.Errorf("%+v; want 100 keys kept and 100 dropped", kept)
	}
	out := make([]weir.Decision, 1)
	if all[0].Take(now, []weir.Ask{{State: weir.StateKey{Rule: "new"}, Limit: l, Cost: 1}}, out); out[0].Outcome != weir.Denied || out[0].RetryAfter != table.MaxDeny {
		t.Errorf("a key too many: %+v", out[0])
	}
	all[0].tallies.Remove(0)
	n := 0
	for range 200 {
		if all[0].Take(now, []weir.Ask{{State: weir.StateKey{Rule: "new"}, Limit: l, Cost: 1}}, out); out[0].Outcome == weir.Allowed {
			n++
		}
	}
	if n != 50 {
		t.Errorf("%d of 100 pass where what others said of the key may have been dropped; want 50", n)
	}
}
