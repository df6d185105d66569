package redisstore

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/lane"
)

// The bounds of a lane.
const (
	// maxAsks is how many asks travel together. More bring no more throughput,
	// only latency.
	//
	// One call has more where a single take has more: a take is never split, as all of it is
	// decided at one moment.
	maxAsks = 64
	// maxAlone is how long a caller that left may be kept until it is told so.
	//
	// Such a caller runs the call itself, and may be kept that long after its context was
	// cancelled.
	maxAlone = 100 * time.Millisecond
)

// call is a take on its way. Its caller made keys and asks and reads answers;
// nobody else touches the asks it was made of. So a caller that leaves while its call is on the way
// may use its asks again at once; what was decided then is a charge that nobody hears of.
type call struct {
	// The caller writes the first part before it hands the call to the lane, and reads the second
	// part after Do has returned without an error. In between the call is the lane's. Do itself
	// makes the order: the mutex of the lane before, and the closed channel, or the same
	// goroutine, after.
	//
	// A call travels once: a take that has to be decided again makes a new one.
	lane.Call

	keys   []string    // one for each ask, in their order
	limits []limitText // each once, however many asks have it
	asks   []askText
	// A call of the lane paced has one key and a pair, and no limits or asks.
	pair string // of pace.lua, in place of limits and asks

	// The rest is what has come back. Without Call.Err there is an answer for each key.
	now weir.Instant // by which the script decided
	// The strings are parts of the server's one answer to all calls that travelled together. They
	// are only read.
	answers []string // of keys: a letter, and the state before
}

// limitText is a limit as take.lua reads it, and askText an ask; of is the index
// of its limit in the call.
type limitText struct {
	limit *weir.Limit
	text  string
}

type askText struct {
	of int
	// Its bytes 1 and 2 are the number of its limit, which join fills in: it is known only when
	// the calls that travel together are.
	text []byte
}

// begin has a lane carry script calls.
func begin(l *lane.Lane[*call], run func(context.Context, []*call)) {
	l.Name, l.Run, l.Together, l.Alone = "redisstore", run, together, soon
}

// together is how many of the first calls travel together.
//
// The first call always goes, however large it is, or it would never go. So at most maxAsks asks,
// or one take, are in one script call, and Redis, which runs nothing else meanwhile, is never held
// up for long.
func together(calls []*call) (n int) {
	for asks := 0; n < len(calls) && (n == 0 || asks+len(calls[n].keys) <= maxAsks); n++ {
		asks += len(calls[n].keys)
	}
	return n
}

// soon is whether a caller may be kept as long as it takes: it can't leave, or its time is over
// soon. Such a caller carries the call itself, which is a change of goroutines less for it.
//
// A context without Done can't end, so its caller stays in any case. The bound is for contexts
// that may be cancelled before their deadline: whoever cancels waits no longer than maxAlone.
func soon(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Done() == nil || ok && time.Until(end) < maxAlone
}
