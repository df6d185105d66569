//go:build !linux

package gossip

import "time"

// sinceBoot is the time of day: it goes on while the machine sleeps, and may be set.
func sinceBoot() time.Duration { return time.Duration(time.Now().UnixNano()) }
