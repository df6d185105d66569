package gossip

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time of this machine, with the time that it was suspended: what
// was not heard then is silence, too.
func sinceBoot() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // fails for a clock that the kernel has not: all have it since 2.6.39
	return time.Duration(t.Nano())
}
