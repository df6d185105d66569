package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

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
			m.Words = strings.Repeat("8 bytes ", rapid.IntRange(1, MaxSight).Draw(t, "words"))
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

// TestHoldsLogBeyondItsCount: a log that counts events which found no room can be handed over.
func TestHoldsLogBeyondItsCount(t *testing.T) {
	log := weir.MustParseLimit("5/day sliding-log")
	k := weir.Kept{Limit: log}
	k.Charge(1_000_000, 7)
	if log.Used(k.State, 1_000_000) < 5 || !holds(log, k.State) {
		t.Errorf("%v of 7 events is taken for no state", k.State)
	}
	if k.State[0] = uint64(len(k.State)); holds(log, k.State) {
		t.Errorf("%v has more stamps than words, and is taken for a state", k.State)
	}
}

// TestDistance: a round trip that is unlike the others moves what is known by an eighth.
func TestDistance(t *testing.T) {
	var d Distance
	if d.Retry() != Retry || d.Patience() != Patience || d.Asks() != member.Life/2 {
		t.Errorf("not known: %v, %v, %v", d.Retry(), d.Patience(), d.Asks())
	}
	d = d.Measure(80 * time.Millisecond).Measure(160 * time.Millisecond)
	if d != Distance(90*time.Millisecond) || d.Retry() != member.Life/2 || d.Patience() != 180*time.Millisecond {
		t.Errorf("%d: %v, %v", d, d.Retry(), d.Patience())
	}
	if d = d.Measure(10 * time.Millisecond); d != Distance(50*time.Millisecond) {
		t.Errorf("%d after a shorter one", d)
	}
	for range 100 {
		d = d.Measure(time.Hour)
	}
	if d > Distance(MaxDistance) || d.Patience() != maxPatience || d.Asks() >= member.Life {
		t.Errorf("%d: %v, %v", d, d.Patience(), d.Asks())
	}
}
