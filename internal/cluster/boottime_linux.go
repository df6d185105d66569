package cluster

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is how long the machine has been on, asleep or not; 0 when it does not
// tell.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
