//go:build !linux

package load

import "time"

func pause(d time.Duration) { time.Sleep(d) }
