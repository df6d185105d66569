//go:build unix

package listen

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64 // nobody knows of a limit
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
