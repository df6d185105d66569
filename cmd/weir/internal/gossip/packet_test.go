package gossip

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	alice = identity{id: 1, name: "10.0.0.1:8083"}
	bob   = identity{id: 2, name: "10.0.0.2:8083"}
	carol = identity{id: 3, name: "10.0.0.3:8083"}
)

func mustSeal(t testing.TB, keys [][]byte, me, peer identity) *seals {
	t.Helper()
	s, err := newSeals(keys, me, peer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func key(n byte) []byte {
	sum := sha256.Sum256([]byte{n})
	return sum[:]
}

// TestPackets holds that a packet opens at its receiver alone, as it was, and not
// with a bit changed anywhere.
func TestPackets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		messages := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 200), 0, 5).Draw(r, "messages")
		var payload []byte
		for _, m := range messages {
			payload = appendMessage(payload, m)
		}
		sealed := rapid.Bool().Draw(r, "sealed")
		keys := [][]byte{key(1), key(2)}
		if !sealed {
			keys = nil
		}
		h := header{
			kind: datagram, sender: alice.id, round: uint8(rapid.IntRange(0, 255).Draw(r, "round")),
			heard: uint8(rapid.IntRange(0, 255).Draw(r, "heard")), sequence: rapid.Uint64Range(1, 1<<48-1).Draw(r, "sequence"),
		}
		packet := mustSeal(t, keys, alice, bob).append(nil, &h, payload)

		read := func(packet []byte, s *seals) ([]byte, Reason) {
			packet = bytes.Clone(packet)
			got, reason := parseHeader(packet, datagram, packetSize)
			if reason != None {
				return nil, reason
			}
			if got != h {
				return nil, Forged // as of another sender, or come before
			}
			return s.unseal(packet, &got)
		}
		got, reason := read(packet, mustSeal(t, keys, bob, alice))
		if reason != None || !bytes.Equal(got, payload) {
			t.Fatalf("opens as %x, %v; want %x", got, reason, payload)
		}
		if !sealed {
			return
		}
		if _, reason := read(packet, mustSeal(t, keys, carol, alice)); reason != Forged {
			t.Fatalf("opens at another node: %v", reason)
		}
		if _, reason := read(packet, mustSeal(t, keys, identity{4, bob.name}, alice)); reason != Forged {
			t.Fatalf("opens after a restart: %v", reason)
		}
		if _, reason := read(packet, mustSeal(t, [][]byte{key(3)}, bob, alice)); reason != UnknownKey {
			t.Fatalf("opens with another key: %v", reason)
		}
		at := rapid.IntRange(0, 8*len(packet)-1).Draw(r, "bit")
		packet[at/8] ^= 1 << (at % 8)
		if _, reason := read(packet, mustSeal(t, keys, bob, alice)); reason == None {
			t.Fatalf("opens with bit %d changed", at)
		}
		if _, reason := read(packet[:rapid.IntRange(0, len(packet)-1).Draw(r, "length")], mustSeal(t, keys, bob, alice)); reason == None {
			t.Fatal("opens cut short")
		}
	})
}

// TestPrefix holds that messages are cut into packets in order, none lost, none too
// large.
func TestPrefix(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		messages := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, room-lengthMax), 1, 20).Draw(r, "messages")
		var queued []byte
		for _, m := range messages {
			queued = appendMessage(queued, m)
		}
		var got [][]byte
		for len(queued) > 0 {
			n := prefix(queued, room)
			if n == 0 || n > room || !whole(queued[:n]) {
				t.Fatalf("a packet of %d bytes", n)
			}
			for rest := queued[:n]; len(rest) > 0; {
				var m []byte
				m, rest, _ = cut(rest)
				got = append(got, m)
			}
			queued = queued[n:]
		}
		if diff := cmp.Diff(messages, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestWindow holds the window to a set of all that came.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var w window
		seen := map[uint64]bool{}
		newest := uint64(0)
		for range rapid.IntRange(1, 200).Draw(r, "packets") {
			step := rapid.OneOf(
				rapid.Int64Range(-10, 10), rapid.Int64Range(-2*windowSize, 2*windowSize), rapid.SampledFrom([]int64{-windowSize, 1 - windowSize, 64, 1 << 20}),
			).Draw(r, "step")
			sequence := uint64(max(int64(newest)+step, 1))
			want := !seen[sequence] && (sequence > newest || newest-sequence < windowSize)
			if got := w.fresh(sequence); got != want {
				t.Fatalf("%d after %d: fresh %v; want %v", sequence, newest, got, want)
			}
			if !want {
				continue
			}
			if got := w.take(sequence); got != (sequence > newest) {
				t.Fatalf("%d after %d: newest %v", sequence, newest, got)
			}
			seen[sequence], newest = true, max(newest, sequence)
		}
	})
}

// FuzzPacket opens whatever comes, and reads what a member may have sealed.
func FuzzPacket(f *testing.F) {
	s := mustSeal(f, [][]byte{key(1)}, alice, bob)
	open := mustSeal(f, [][]byte{key(1)}, bob, alice)
	none := mustSeal(f, nil, bob, alice)
	h := header{kind: datagram, sender: alice.id, round: 1, sequence: 1}
	f.Add(s.append(nil, &h, appendMessage(nil, []byte("hello"))))
	f.Add(mustSeal(f, nil, alice, bob).append(nil, &h, appendMessage(nil, []byte("hello"))))
	f.Fuzz(func(t *testing.T, packet []byte) {
		for _, s := range []*seals{open, none} {
			b := bytes.Clone(packet)
			h, reason := parseHeader(b, datagram, packetSize)
			if reason != None {
				continue
			}
			messages, reason := s.unseal(b, &h)
			if reason != None || !whole(messages) {
				continue
			}
			var again []byte
			for rest := messages; len(rest) > 0; {
				var m []byte
				m, rest, _ = cut(rest)
				again = appendMessage(again, m)
			}
			if len(again) > len(messages) {
				t.Fatalf("%x reads as more than it is: %x", messages, again)
			}
			if packed := (&h).append(nil); !bytes.Equal(packed, packet[:headerSize]) {
				t.Fatalf("header %x reads as %x", packet[:headerSize], packed)
			}
		}
	})
}
