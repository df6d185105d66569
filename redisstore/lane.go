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
	maxAsks = 64
	// maxAlone is how long a caller that left may be kept until it is told so.
	maxAlone = 100 * time.Millisecond
)

// call is a take on its way. Its caller made keys and asks and reads answers;
// nobody else touches the asks it was made of. So a caller that leaves while its call is on the way
// may use its asks again at once; what was decided then is a charge that nobody hears of.
type call struct {
	lane.Call

	keys   []string    // one for each ask, in their order
	limits []limitText // each once, however many asks have it
	asks   []askText
	pair   string // of pace.lua, in place of limits and asks

	// The rest is what has come back. Without Call.Err there is an answer for each key.
	now     weir.Instant // by which the script decided
	answers []string     // of keys: a letter, and the state before
}

// limitText is a limit as take.lua reads it, and askText an ask; of is the index
// of its limit in the call.
type limitText struct {
	limit *weir.Limit
	text  string
}

type askText struct {
	of   int
	text []byte
}

// begin has a lane carry script calls.
func begin(l *lane.Lane[*call], run func(context.Context, []*call)) {
	l.Name, l.Run, l.Together, l.Alone = "redisstore", run, together, soon
}

// together is how many of the first calls travel together.
func together(calls []*call) (n int) {
	for asks := 0; n < len(calls) && (n == 0 || asks+len(calls[n].keys) <= maxAsks); n++ {
		asks += len(calls[n].keys)
	}
	return n
}

// soon is whether a caller may be kept as long as it takes: it can't leave, or its time is over
// soon. Such a caller carries the call itself, which is a change of goroutines less for it.
func soon(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Done() == nil || ok && time.Until(end) < maxAlone
}
