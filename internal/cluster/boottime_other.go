//go:build !linux

package cluster

import "time"

// sinceBoot is 0: this system is not asked how long it was asleep.
func sinceBoot() time.Duration { return 0 }
