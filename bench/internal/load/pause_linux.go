package load

import (
	"syscall"
	"time"
)

// pause waits for about d. time.Sleep waits for a whole millisecond where the
// process has nothing else to do.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it early
}
