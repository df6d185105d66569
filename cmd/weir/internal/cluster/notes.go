package cluster

import (
	"slices"

	"github.com/weir-limit/weir/internal/record"
)

// maxReplies is how many answers to calls a shard remembers as owner, for calls that come again; of
// older ones that do, the work is done twice, so that less passes.
const maxReplies = 1 << 8

// notes are what an owner remembers beside its ledgers. They stay with the process.
type notes struct {
	once    record.Once
	replies map[callID][]byte
	order   [maxReplies]callID // of replies, the oldest at next
	next    int
}

// callID is a call, as its caller numbers it.
type callID struct {
	from string
	id   uint64
}

// answer remembers a reply, in the place of the oldest.
func (n *notes) answer(c callID, reply []byte) {
	if n.replies == nil {
		n.replies = map[callID][]byte{}
	}
	delete(n.replies, n.order[n.next])
	n.order[n.next] = c
	n.next = (n.next + 1) % maxReplies
	n.replies[c] = slices.Clone(reply)
}
