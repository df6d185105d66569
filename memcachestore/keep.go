package memcachestore

import (
	"time"
)

const (
	// relative is the longest time that memcached takes as a number of seconds;
	// what is more it takes as Unix time.
	relative = 30 * 24 * 3600
	// lastSecond is the last Unix time that it takes: 2038-01-19.
	lastSecond = 1<<31 - 1
)

// ttl is how memcached is told to keep an item, and how long that is at least: keep, or more.
// Memcached's clock ticks in seconds, and an item may go up to one earlier than its time: so ttl has
// one more than life. A time beyond 30 days is told by the clock of this process; when that is off,
// the item goes earlier or later by as much.
//
// Beyond lastSecond an item would go too early: unfit refuses limits that need so long.
func ttl(keep time.Duration) (ttl int64, life time.Duration) {
	seconds := int64((keep+time.Second-1)/time.Second) + 1
	life = time.Duration(seconds-1) * time.Second
	if seconds <= relative {
		return seconds, life
	}
	return min(time.Now().Unix()+seconds, lastSecond), life
}
