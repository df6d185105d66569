package member

import (
	"encoding/binary"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/packing"
)

// Heartbeat is what a process tells each other member again and again: that it lives, whom
// it hears, and whom it lends its votes.
type Heartbeat struct {
	Incarnation uint64 // of the process
	Members     uint64 // a digest of the names that it takes for members
	Voters      uint64 // of those of them whose votes it counts
	Active      bool   // all members have told it the same names: its vote counts
	Leaving     bool   // it goes, and wants no votes any more
	Clean       bool   // it has no ledgers that are another's now
	Blank       bool   // it has not been told what was before it
	Backs       bool   // it keeps backups
	Saved       bool   // all that it has granted is in backups at other members
	// Age is for how long its vote counts, 0: it does not.
	Age time.Duration
	// Losses are the processes that it knows to have gone without a word, or been given up.
	Losses []Loss

	Stamp weir.Instant // the time of sending, by the sender's clock
	Echo  weir.Instant // the last stamp that it has heard of the receiver, 0: none
	// Vote is a stamp of the receiver: it may count on the sender's votes for Life
	// from that time. 0: it has none.
	Vote weir.Instant
	Life time.Duration
	// Run numbers the times that the sender has begun to lend votes to the receiver:
	// another may have had them between two runs.
	Run uint64
	// Lasting numbers the sender's leases that may be used for a Life from Echo, 0: none. No
	// vote that they were granted on has been another's.
	Lasting uint64

	// Others are how the sender stands to members, where that is not Settled.
	Others []Other
	// Clear tells that the sender has nothing of the receiver's keys: as the members are of which it is a
	// digest. 0: it may have.
	Clear uint64
}

// Other is how a process stands to a member.
type Other struct {
	Member uint64 // the hash of its name
	Stand  Stand
	Order  uint64 // the heartbeats that the process had sent when the member might have its votes
	Saved  bool   // nobody but the member was cut off, and it had all in backups, as far as the process knows
}

// Stand is how a process stands to a member: whether the member may have its votes.
type Stand uint8

// The stands.
const (
	Settled  Stand = iota // it may, and may have had them for long
	Entering              // it may, and may not count on them yet: one before it may count on them still
	Leaving               // it may not, but may count on them still
	Out                   // it may not
)

// heartbeat is the kind of messages that are heartbeats.
const heartbeat = 32

// HeartbeatTo is a heartbeat and the peer that it is for.
type HeartbeatTo struct {
	Peer string
	Heartbeat
}

// sound is whether a process could have sent b at now, by the receiver's clock.
func (b *Heartbeat) sound(now weir.Instant) bool {
	return b.Stamp > 0 && frame.Within(int64(b.Echo), 0, int64(now)) && frame.Within(int64(b.Vote), 0, int64(now)) &&
		frame.Within(int64(b.Life), 0, int64(MaxLife)) && b.Age >= 0
}

// Append adds b to bytes as it goes over the wire, framed as messages are.
func (b *Heartbeat) Append(bytes []byte) []byte {
	body := append(make([]byte, 0, 128), frame.Version, heartbeat, frame.Flag(b.Active)|frame.Flag(b.Leaving)<<1|frame.Flag(b.Clean)<<2|frame.Flag(b.Blank)<<3|frame.Flag(b.Backs)<<4|frame.Flag(b.Saved)<<5)
	for _, n := range []uint64{b.Incarnation, b.Members, b.Voters, uint64(b.Stamp), uint64(b.Echo), uint64(b.Vote), uint64(b.Life), b.Run, uint64(b.Age), uint64(len(b.Others))} {
		body = binary.AppendUvarint(body, n)
	}
	for _, o := range b.Others {
		body = append(binary.LittleEndian.AppendUint64(body, o.Member), byte(o.Stand)|frame.Flag(o.Saved && o.Stand == Out)<<7) // a version before takes that for Out
		body = binary.AppendUvarint(body, o.Order)
	}
	body = binary.AppendUvarint(body, uint64(len(b.Losses)))
	for _, l := range b.Losses {
		body = packing.AppendText(body, l.Member)
		for _, n := range []uint64{l.Incarnation, uint64(l.Ago), uint64(frame.Flag(l.Alone)), uint64(l.Of)} {
			body = binary.AppendUvarint(body, n)
		}
	}
	body = binary.AppendUvarint(body, b.Lasting)
	saved := uint64(0)
	for i, l := range b.Losses {
		saved |= uint64(frame.Flag(l.Saved)) << i
	}
	body = binary.AppendUvarint(body, saved)
	body = binary.AppendUvarint(body, b.Clear)
	return packing.AppendText(bytes, body)
}

// IsHeartbeat is whether b begins with a heartbeat, and not with a Message.
func IsHeartbeat(b []byte) bool {
	_, size := binary.Uvarint(b)
	return size > 0 && len(b) >= size+2 && b[size] == frame.Version && b[size+1] == heartbeat
}

// ParseHeartbeat reads a heartbeat that Append has written, and tells what follows it.
func ParseHeartbeat(bytes []byte) (b Heartbeat, rest []byte, err error) {
	body, rest, err := frame.Cut(bytes)
	if err != nil {
		return Heartbeat{}, rest, err
	}
	if len(body) < 3 || body[0] != frame.Version || body[1] != heartbeat {
		return Heartbeat{}, rest, frame.ErrUnknown
	}
	b.Active, b.Leaving, b.Clean, b.Blank = body[2]&1 != 0, body[2]&2 != 0, body[2]&4 != 0, body[2]&8 != 0
	b.Backs, b.Saved = body[2]&16 != 0, body[2]&32 != 0
	r := packing.Reader{Rest: body[3:]}
	b.Incarnation, b.Members, b.Voters = r.Number(), r.Number(), r.Number()
	for _, at := range []*weir.Instant{&b.Stamp, &b.Echo, &b.Vote} {
		*at = weir.Instant(r.Below(1 << 62))
	}
	b.Life = time.Duration(r.Below(1 << 62))
	b.Run, b.Age = r.Number(), time.Duration(r.Below(1<<62))
	others := r.Below(MaxMembers + 1)
	for i := uint64(0); i < others && len(r.Rest) >= 9; i++ {
		o := Other{Member: binary.LittleEndian.Uint64(r.Rest), Stand: min(Stand(r.Rest[8]&0x7f), Out), Saved: r.Rest[8]&0x80 != 0}
		r.Rest = r.Rest[9:]
		o.Order = r.Number()
		b.Others = append(b.Others, o)
	}
	losses := r.Below(MaxLosses + 1)
	for i := uint64(0); i < losses && !r.Bad; i++ {
		l := Loss{Member: r.Text(frame.MaxText), Incarnation: r.Number(), Ago: time.Duration(r.Below(1 << 62))}
		l.Alone, l.Of = r.Below(2) == 1, int64(r.Below(MaxMembers+1))
		b.Losses = append(b.Losses, l)
	}
	if len(r.Rest) > 0 { // the first version had no more
		b.Lasting = r.Number()
	}
	if len(r.Rest) > 0 { // nor did the second
		saved := r.Number()
		for i := range b.Losses {
			b.Losses[i].Saved = saved>>i&1 == 1
		}
	}
	if len(r.Rest) > 0 { // nor did the third
		b.Clear = r.Number()
	}
	if r.Bad || uint64(len(b.Others)) < others {
		return Heartbeat{}, nil, frame.ErrMessage
	}
	return b, rest, nil
}
