package counter

import (
	"encoding/binary"
	"maps"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/packing"
)

// The messages of replicas have kinds beyond those of nodes.
const (
	charges = 64 + iota // what nodes have let pass
	ask                 // one that is new, or was not heard, wants to know all
)

// MaxPost is how long a message of a replica is, unless one key alone is longer: it
// fits into a packet of 1,400 bytes with all that is around it.
const MaxPost = 1200

// maxBody is how much of it packer may fill: the rest is for what stands before.
const maxBody = MaxPost - 3 - 2*binary.MaxVarintLen64

// tick is the unit of times in messages.
const tick = weir.Instant(10_000)

// IsPost is whether a message between nodes is from a Replica, and of which
// weir.Sharing; else it is from a Node.
func IsPost(message []byte) (way weir.Sharing, ok bool) {
	if len(message) < 3 || message[0] != frame.Version || message[1] < charges {
		return "", false
	}
	switch message[2] {
	case gossips:
		return weir.SharingGossip, true
	case hubs, reports:
		return weir.SharingHub, true
	}
	return weir.SharingMesh, true
}

// What marks the messages of replicas: 0 those of a mesh.
const (
	gossips = 1 // of those that gossip
	hubs    = 2 // of those with hubs
	reports = 3 // the same, to the hub
)

// head begins a message.
func head(kind byte, way weir.Sharing) []byte {
	mark := byte(0)
	switch way {
	case weir.SharingGossip:
		mark = gossips
	case weir.SharingHub:
		mark = hubs
	default: // a mesh
	}
	return append(make([]byte, 0, MaxPost), frame.Version, kind, mark)
}

// packer writes the body of a message of charges. Texts stand in it once: what comes
// again is the number of what came before.
type packer struct {
	b         []byte
	texts     map[string]int // rules and limits
	processes map[source]int
}

type source struct {
	node        string
	incarnation uint64
}

func newPacker() *packer {
	return &packer{texts: map[string]int{}, processes: map[source]int{}}
}

// add writes the lines of r that pick picks, from the i-th on. It returns the line
// that it came to because the message is full, or len(r.lines).
func (k *packer) add(now weir.Instant, peers []neighbor, r *tally, i int, pick func(*line) bool) int {
	first, some := k.here(), false
	k.text(r.key.Rule)
	k.text(r.form.limit.String())
	k.b = packing.AppendText(k.b, r.key.Key)
	for ; i < len(r.lines); i++ {
		l := &r.lines[i]
		if !pick(l) {
			continue
		}
		before := k.here()
		k.line(now, source{peers[l.node].name, l.incarnation}, l)
		if len(k.b) >= maxBody && (first.b > 0 || some) {
			k.back(before)
			break
		}
		some = true
	}
	if !some {
		k.back(first)
		return i
	}
	k.b = append(k.b, 0)
	return i
}

// packed is how far a packer has come.
type packed struct{ b, texts, processes int }

func (k *packer) here() packed { return packed{len(k.b), len(k.texts), len(k.processes)} }

func (k *packer) back(to packed) {
	k.b = k.b[:to.b]
	if len(k.texts) > to.texts {
		maps.DeleteFunc(k.texts, func(_ string, n int) bool { return n >= to.texts })
	}
	if len(k.processes) > to.processes {
		maps.DeleteFunc(k.processes, func(_ source, n int) bool { return n >= to.processes })
	}
}

// message is all that was added, as an answer to the ask from; next is where the
// answer after it begins. Both are 0 when nobody asked.
func (k *packer) message(way weir.Sharing, from, next uint64) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(head(charges, way), from), next), k.b...)
}

func (k *packer) text(text string) {
	n, known := k.texts[text]
	if !known {
		n = len(k.texts)
		k.texts[text] = n
	}
	k.b = binary.AppendUvarint(k.b, uint64(n))
	if !known {
		k.b = packing.AppendText(k.b, text)
	}
}

func (k *packer) line(now weir.Instant, of source, l *line) {
	n, known := k.processes[of]
	if !known {
		n = len(k.processes)
	}
	k.b = binary.AppendUvarint(k.b, uint64(n)+1)
	if !known {
		k.b = packing.AppendText(k.b, of.node)
		k.b = binary.AppendUvarint(k.b, of.incarnation)
		k.processes[of] = n
	}
	for _, v := range []uint64{l.slot, uint64(l.count), uint64(max(now-l.opened, 0) / tick), uint64(max(now-l.changed, 0) / tick)} {
		k.b = binary.AppendUvarint(k.b, v)
	}
}

// told is a line as it was heard.
type told struct {
	node              string
	incarnation, slot uint64
	count             int64
	before            int64 // of count, what needs no charge where nothing was known; 0 but of an Entry
	opened, changed   weir.Instant
	reported          bool // to this node, as the hub
}

// unpacker reads a message of charges.
type unpacker struct {
	packing.Reader

	now       weir.Instant
	texts     []string
	processes []source
}

// oldest is the longest time ago that a message may tell of.
const oldest = uint64(weir.MaxDrain/time.Microsecond) / uint64(tick)

// tally reads a tally: of which key, its limit, and its lines. It is false at the
// end, and after something bad.
func (u *unpacker) tally(lines []told) (key weir.StateKey, limit string, _ []told, ok bool) {
	if u.Bad || len(u.Rest) == 0 {
		return key, "", nil, false
	}
	key.Rule, limit = u.ref(), u.ref()
	key.Key = u.Text(frame.MaxText)
	for !u.Bad {
		n := u.Number()
		if n == 0 {
			break
		}
		lines = append(lines, u.line(n-1))
	}
	if u.Bad || len(lines) == 0 {
		u.Bad = true
		return key, "", nil, false
	}
	return key, limit, lines, true
}

func (u *unpacker) ref() string {
	switch n := u.Below(uint64(len(u.texts)) + 1); {
	case u.Bad:
		return ""
	case n < uint64(len(u.texts)):
		return u.texts[n]
	}
	u.texts = append(u.texts, u.Text(frame.MaxText))
	return u.texts[len(u.texts)-1]
}

func (u *unpacker) line(n uint64) (t told) {
	switch known := uint64(len(u.processes)); {
	case n > known:
		u.Bad = true
		return told{}
	case n == known:
		u.processes = append(u.processes, source{u.Text(frame.MaxText), u.Number()})
	}
	of := u.processes[n]
	t = told{node: of.node, incarnation: of.incarnation, slot: u.Number(), count: int64(u.Below(1 << 62))}
	t.opened = u.now - weir.Instant(u.Below(oldest))*tick
	t.changed = u.now - weir.Instant(u.Below(oldest))*tick
	if t.node == "" || t.slot == 0 || t.count == 0 {
		u.Bad = true
	}
	return t
}
