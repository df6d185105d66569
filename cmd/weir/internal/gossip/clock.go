package gossip

import (
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/boottime"
)

// sinceBoot is a time that goes on while the machine sleeps: what was not heard then
// is silence, too. It is the time of day where the machine does not tell how long it
// has been on.
func sinceBoot() time.Duration {
	if t, ok := boottime.Now(); ok {
		return t
	}
	return time.Duration(time.Now().UnixNano())
}
