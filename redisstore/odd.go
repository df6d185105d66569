package redisstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	// oddKeys is how many keys are remembered that pace.lua left alone, by their hash: of two with one place
	// the later one is.
	oddKeys = 1 << 14
	// oddFor is for how long: then pace.lua is tried again. A limit that has recovered is plain again.
	oddFor = 10 * time.Second
)

// odd are keys that pace.lua has left alone, mostly since a receipt gave something back. They go to take.lua at
// once for a while, which saves a call for each take. It is a guess: both scripts decide alike.
type odd struct {
	seed  maphash.Seed
	began time.Time
	keys  [oddKeys]oddKey
}

// oddKey is written by many goroutines without a lock: a hash with the time of another key is only a wrong guess.
type oddKey struct {
	hash  atomic.Uint64
	until atomic.Int64 // since odd.began
}

func newOdd() *odd { return &odd{seed: maphash.MakeSeed(), began: time.Now()} }

func (o *odd) add(key string) {
	hash := maphash.String(o.seed, key)
	k := &o.keys[hash%oddKeys]
	k.hash.Store(hash)
	k.until.Store(int64(time.Since(o.began) + oddFor))
}

func (o *odd) has(key string) bool {
	hash := maphash.String(o.seed, key)
	k := &o.keys[hash%oddKeys]
	return k.hash.Load() == hash && int64(time.Since(o.began)) < k.until.Load()
}
