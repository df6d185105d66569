// Package boottime tells how long the machine has been on, asleep or not.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is how long the machine has been on, with the time that it was suspended; it is
// a system call. ok is false when the system does not tell.
func Now() (on time.Duration, ok bool) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil { // a clock of all kernels since 2.6.39
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
