package rank

import (
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// A leader is the owner of many keys: of a rule's keys, all those of one seat. So whatever holds for
// owners holds for leaders, and the only thing of their own is here: members are ranked for a seat, and
// not for each key.
//
// A seat stands in the name of the rule. So all nodes rank the members for a key in the same way, also while
// some of them have rules that say otherwise: these speak of another count.

// seatMark begins the name of a rule whose counts are with leaders, and seatEnd ends the mark.
const (
	seatMark = "leader:"
	seatEnd  = "\x00"
)

// MaxMark is how long the mark of a seat is at most.
const MaxMark = len(seatMark) + len("63") + len(seatEnd)

// Led is the key by which nodes know a count that is with one of so many leaders; 0: one. The leader goes by
// the hash of the key, so that all counts of a descriptor are with one.
func Led(key weir.StateKey, leaders int) weir.StateKey {
	key.Rule = Mark(Seat(key.Key, leaders)) + key.Rule
	return key
}

// Seat numbers the leader that has a key, from 0.
func Seat(key string, leaders int) int {
	if leaders <= 1 {
		return 0
	}
	return int(record.Mix(record.Hash(record.Basis, key)) % uint64(min(leaders, weir.MaxLeaders)))
}

// Mark is what stands before the name of a rule whose counts are with the leader of a seat.
func Mark(seat int) string { return seatMark + strconv.Itoa(seat) + seatEnd }

// CutMark is the mark before the name of a rule, and the rest; the mark is empty where the rule has no leaders.
func CutMark(rule string) (mark, rest string) {
	if !strings.HasPrefix(rule, seatMark) {
		return "", rule
	}
	seat, rest, ok := strings.Cut(rule[len(seatMark):], seatEnd)
	if !ok || len(seat) == 0 || len(seat) > MaxMark-len(seatMark)-len(seatEnd) {
		return "", rule
	}
	return rule[:len(rule)-len(rest)], rest
}
