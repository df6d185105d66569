package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// maxName is how long a rule's place and a key may be to travel as they are. Longer
// ones are known by their SHA-256.
const maxName = 1024

// short is the key by which nodes know a count. Its placement is that of k. It leaves the mark of a leader
// where it is.
func short(k weir.StateKey) weir.StateKey {
	if mark, rest := rank.CutMark(k.Rule); mark != "" {
		k.Rule = rest
		k = short(k)
		k.Rule = mark + k.Rule
		return k
	}
	if travels(k.Rule) && travels(k.Key) {
		return k
	}
	if !travels(k.Rule) {
		place := k.Placement()
		label := k.Rule[len(place):]
		if len(label) > maxName/2 {
			label = "#" + hashed(label)
		}
		k.Rule = hashed(place) + label
	}
	if !travels(k.Key) {
		k.Key = hashed(k.Key)
	}
	return k
}

// Text is short for keys that stand in texts: it has no bytes that are not UTF-8.
func Text(k weir.StateKey) weir.StateKey {
	k = short(k)
	if !utf8.ValidString(k.Rule) {
		place := k.Placement()
		k.Rule = hashed(place) + "#" + hashed(k.Rule[len(place):])
	}
	if !utf8.ValidString(k.Key) {
		k.Key = hashed(k.Key)
	}
	return k
}

// travels is whether text is neither too long nor looks like what stands for such.
func travels(text string) bool { return len(text) <= maxName && (text == "" || text[0] != 0) }

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "\x00" + hex.EncodeToString(sum[:])
}
