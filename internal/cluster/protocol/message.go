package protocol

import (
	"encoding/binary"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/packing"
)

// Kind is what a message is for.
type Kind uint8

// The kinds of messages.
const (
	Ask     Kind = 1 + iota // a holder wants events, and reports
	Grant                   // an owner's answer, also when it grants none
	Release                 // a holder reports, and gives back what is left
	Handoff                 // an owner hands its ledger over
	Taken                   // the next owner has it
	Backup                  // an owner tells another member what it has granted, and will
	Stored                  // that member keeps it
)

// Message is what one node tells another about one key. Numbers are not negative.
type Message struct {
	Kind  Kind
	State weir.StateKey
	// Incarnation tells the holder's process from those that had its name before:
	// later ones have more.
	Incarnation uint64
	// Epoch is the incarnation of the owner that gave the lease.
	Epoch uint64
	// ID numbers the asks of a holder for a key. An ask that comes again is answered
	// as before.
	ID uint64
	// Lease is its number, 0 for none. An owner uses none twice.
	Lease uint64
	// Limit is the limit's text, in asks and handoffs: their owner may not have the rule.
	Limit string

	Spent  int64 // Ask, Release: events passed under the lease since it began
	Closed bool  // Ask, Release: the rest of the lease will not be used

	Least  int64  // Ask: fewer events are of no use
	Want   int64  // Ask: more are of no use now
	Demand int64  // Ask: events wanted in a Horizon
	Ahead  int64  // Ask: events beyond Want that it would use while the lease lasts
	Policy Policy // Ask: what holds while part of the members is not heard

	Granted int64         // Grant: events set aside under the lease since it began
	Life    time.Duration // Grant: how long, from when the ask was first sent
	Wait    time.Duration // Grant: asking sooner is of no use
	Free    int64         // Grant: events that the owner has left for anybody
	Fresh   time.Duration // Grant: how long until the limit is as never used, if no more passes
	Lasts   uint64        // Grant: the number of the owner's heartbeats that prolong the lease, 0: none do
	Retry   time.Duration // Grant: how long until Least more pass, if no other request comes; 0: not known, or now
	Next    time.Duration // Grant: the same of one event

	// Words are of a Handoff and a Backup the state, and of a Grant that lets wait the one that it
	// stands on, with what is outstanding: each word in eight bytes, the lowest first.
	Words string
	At    weir.Instant // of it, by the clock that its windows go by
	Part  int64        // Handoff: how much of the limit its owner was entitled to: Part/Of
	Of    int64
	// Known is of a Handoff the digest of the losses that were known of when all that had
	// passed was in the state, 0: it may not be.
	Known uint64
	// Resets is of a Handoff that all is to be forgotten when nothing is outstanding any more.
	Resets bool
	// Shard is of a Handoff which node of its process has numbered it.
	Shard uint64
	// Earlier is of a Handoff the states by limits that the rule had before, packed.
	Earlier string
	// Lost and LostRun are of a Handoff the member that is gone whose backup it is, and its incarnation; empty: it
	// is a ledger of the sender.
	Lost    string
	LostRun uint64
}

// Envelope is a message and the peer that it is for, or from.
type Envelope struct {
	Peer string
	Message
}

// Sound is whether a node could have sent m.
func (m *Message) Sound() bool {
	if max(len(m.State.Rule), len(m.State.Key)) > frame.MaxText {
		return false
	}
	switch m.Kind {
	case Ask:
		return m.ID > 0 && len(m.Limit) <= frame.MaxText && m.Spent >= 0 && frame.Within(m.Least, 1, weir.MaxCount) && frame.Within(m.Want, m.Least, weir.MaxCount) && frame.Within(m.Demand, 0, weir.MaxCount) && frame.Within(m.Ahead, 0, weir.MaxCount) && m.Policy < Policies
	case Grant:
		return frame.Within(m.Granted, 0, 1<<62-1) && frame.Within(int64(m.Life), 0, int64(member.MaxLife)) &&
			m.Wait >= 0 && frame.Within(m.Free, 0, 1<<62-1) && m.Fresh >= 0 && m.Retry >= 0 && m.Next >= 0 && len(m.Words)%8 == 0
	case Release:
		return m.Spent >= 0
	case Handoff, Backup:
		return m.ID > 0 && len(m.Lost) <= frame.MaxText && frame.Within(m.Spent, 0, weir.MaxCount) && frame.Within(int64(m.Life), 0, int64(member.MaxLife)) && m.Wait >= 0 && m.Policy < Policies &&
			m.At >= 0 && frame.Within(m.Of, 1, Reserved*member.MaxMembers) && frame.Within(m.Part, 0, m.Of) && len(m.Words)%8 == 0
	case Taken, Stored:
		return true
	}
	return false
}

// Append adds m to b as it goes over the wire. Texts longer than frame.MaxText have no such
// form: the node denies their requests before.
func (m *Message) Append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, frame.Version, byte(m.Kind))
	texts, all := m.texts()
	for _, text := range texts[:all] {
		b = packing.AppendText(b, *text)
	}
	for _, n := range [...]uint64{m.Incarnation, m.Epoch, m.ID, m.Lease} {
		b = binary.AppendUvarint(b, n)
	}
	numbers, all := m.numbers()
	for _, n := range numbers[:all] {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	if m.Kind == Grant {
		b = packing.AppendText(b, m.Words)
		b = binary.AppendUvarint(b, uint64(m.At))
		b = binary.AppendUvarint(b, m.Lasts)
	} else {
		b = append(b, frame.Flag(m.Closed)|byte(m.Policy)<<1)
	}
	if m.Kind == Ask {
		b = binary.AppendUvarint(b, uint64(m.Ahead))
	}
	if m.Kind == Handoff || m.Kind == Backup {
		b = append(binary.AppendUvarint(b, m.Known), frame.Flag(m.Resets))
		b = binary.AppendUvarint(b, m.Shard)
		b = packing.AppendText(b, m.Earlier)
		b = binary.AppendUvarint(packing.AppendText(b, m.Lost), m.LostRun)
	}
	return frame.Measured(b, start)
}

// granted is how many numbers a Grant has at least: the first version had no more.
const granted = 5

// texts is the texts of a message of this kind, and how many these are.
func (m *Message) texts() ([4]*string, int) {
	all := [...]*string{&m.State.Rule, &m.State.Key, &m.Limit, &m.Words}
	switch m.Kind {
	case Ask:
		return all, 3
	case Handoff, Backup:
		return all, 4
	default:
		return all, 2
	}
}

// numbers is what a message of this kind has beside what all have, and how many these
// are.
func (m *Message) numbers() ([7]*int64, int) {
	switch m.Kind {
	case Ask:
		return [7]*int64{&m.Spent, &m.Least, &m.Want, &m.Demand}, 4
	case Grant:
		return [7]*int64{&m.Granted, (*int64)(&m.Life), (*int64)(&m.Wait), &m.Free, (*int64)(&m.Fresh), (*int64)(&m.Retry), (*int64)(&m.Next)}, 7
	case Handoff, Backup:
		return [7]*int64{&m.Spent, (*int64)(&m.Life), (*int64)(&m.Wait), (*int64)(&m.At), &m.Part, &m.Of}, 6
	case Release:
		return [7]*int64{&m.Spent}, 1
	default:
		return [7]*int64{}, 0
	}
}

// Parse reads a message that Append has written, and tells what follows it. Fields
// that a later version has added behind those known are passed over.
func Parse(b []byte) (m Message, rest []byte, err error) {
	body, rest, err := frame.Cut(b)
	if err != nil {
		return Message{}, rest, err
	}
	if len(body) < 2 || body[0] != frame.Version || body[1] < byte(Ask) || body[1] > byte(Stored) {
		return Message{}, rest, frame.ErrUnknown
	}
	m.Kind = Kind(body[1])
	r := packing.Reader{Rest: body[2:]}
	texts, all := m.texts()
	for _, text := range texts[:all] {
		*text = r.Text(frame.MaxMessage)
	}
	for _, n := range [...]*uint64{&m.Incarnation, &m.Epoch, &m.ID, &m.Lease} {
		*n = r.Number()
	}
	numbers, all := m.numbers()
	for i, n := range numbers[:all] {
		if m.Kind == Grant && i >= granted && len(r.Rest) == 0 {
			break
		}
		*n = int64(r.Below(1 << 62))
	}
	if m.Kind == Grant {
		if seen := (packing.Reader{Rest: r.Rest}); len(seen.Rest) > 0 {
			m.Words, m.At = seen.Text(8*MaxSight), weir.Instant(seen.Below(1<<62))
			if len(seen.Rest) > 0 {
				m.Lasts = seen.Number()
			}
			if seen.Bad {
				m.Words, m.At, m.Lasts = "", 0, 0 // another version's
			}
		}
	} else {
		flags := r.Below(2 * uint64(Policies))
		m.Closed, m.Policy = flags&1 == 1, Policy(flags>>1)
		if m.Kind == Ask && len(r.Rest) > 0 { // the first version had no more
			m.Ahead = int64(r.Below(1 << 62))
		}
		if (m.Kind == Handoff || m.Kind == Backup) && len(r.Rest) > 0 {
			m.Known, m.Resets, m.Shard, m.Earlier = r.Number(), r.Below(2) == 1, r.Below(MaxShards), r.Text(MaxState)
			if len(r.Rest) > 0 {
				m.Lost, m.LostRun = r.Text(frame.MaxText), r.Number()
			}
		}
	}
	if r.Bad {
		return Message{}, nil, frame.ErrMessage
	}
	return m, rest, nil
}

// MaxSight is how many words a state has at most that an owner tells with a denial.
const MaxSight = 64

// MaxState is how many bytes of states are handed over. If they are more, none is, and all counts
// as used: with the longest texts they would not go into one message.
const MaxState = 51 << 10

// Carry is for a message to have a ledger's states, where they are not too long.
func (m *Message) Carry(k *weir.Kept) {
	m.Words, m.Earlier = Text(k.State), versions(k.Earlier)
	if len(m.Words)+len(m.Earlier) > MaxState {
		m.Words, m.Earlier, m.Part, m.Of, m.Known = "", "", 0, 1, 0
	}
}

// Carried is the states that a message has, by the limits of their texts. ok is false for what no node would send.
func (m *Message) Carried(limits func(text string) *weir.Limit) (k weir.Kept, ok bool) {
	k = weir.Kept{Limit: limits(m.Limit), State: Words(m.Words)}
	k.Earlier, ok = earlier(m.Earlier, limits)
	return k, ok && k.Limit != nil && holds(k.Limit, k.State)
}

// versions is the states by earlier limits as messages carry them. The next owner does not know which
// receipts of them were used.
func versions(earlier []weir.Version) string {
	var b []byte
	for _, v := range earlier {
		b = packing.AppendText(b, v.Limit.String())
		b = binary.AppendUvarint(b, uint64(max(v.Until, 0)))
		b = packing.AppendText(b, Text(v.State))
	}
	return string(b)
}

// earlier is what versions has packed.
func earlier(s string, limits func(text string) *weir.Limit) (all []weir.Version, ok bool) {
	r := packing.Reader{Rest: []byte(s)}
	for len(r.Rest) > 0 {
		limit, until := limits(r.Text(frame.MaxText)), weir.Instant(r.Below(1<<62))
		v := weir.Version{Limit: limit, State: Words(r.Text(MaxState)), Until: until}
		if r.Bad || limit == nil || !holds(limit, v.State) || len(all) == weir.MaxVersions-1 {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

// holds is whether a state could be one of l. A state that grows says itself how long it is.
func holds(l *weir.Limit, s weir.State) bool {
	last := uint64(len(s)) - 1
	switch {
	case len(s) == 0:
		return true
	case l.Algorithm() == weir.Concurrent:
		held := uint64(0)
		for i := 3; i < len(s); i += 3 {
			held += min(s[i], weir.MaxCount)
		}
		return last%3 == 0 && s[0] == held
	case l.Algorithm() == weir.SlidingLog:
		return s[0]&(1<<14-1) <= last && s[0]>>32 < max(last, 1) // between them stands how many more found no room
	}
	return len(s) == l.Words()
}

// Text is a state as messages carry it, and Words what they carry.
func Text(state weir.State) string {
	b := make([]byte, 0, 8*len(state))
	for _, w := range state {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

// Words is the state that Text has packed.
func Words(s string) weir.State {
	state := make(weir.State, len(s)/8)
	for i := range state {
		state[i] = binary.LittleEndian.Uint64([]byte(s[8*i : 8*i+8]))
	}
	return state
}
