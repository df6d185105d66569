package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// plan is what a subject is made for.
type plan struct {
	keys int
	deny bool
}

// take asks for one event of a key and says whether it may pass. It may keep the
// keys of its first calls, which come from one goroutine; when all were there, a
// key is only there until take returns.
type take func(key string) bool

// subject is what is measured. Make returns nil where it can't do what is
// planned. Where workers is set, each worker gets a take of its own instead.
type subject struct {
	name string
	make func(plan) take

	workers func(plan) func() take
}

// takes makes a take for each worker, or nil.
func (s *subject) takes(p plan) func() take {
	if s.workers != nil {
		return s.workers(p)
	}
	if f := s.make(p); f != nil {
		return func() take { return f }
	}
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// text is the limit of a plan.
func (p plan) text() string {
	if p.deny {
		return "1/day burst 1"
	}
	return allow
}

// keep asks store as a caller does who minds speed: with an ask that it keeps.
func keep(store *memstore.Store, text string) func() take {
	limit, ctx := weir.MustParseLimit(text), context.Background()
	return func() take {
		asks := []weir.Ask{{State: weir.StateKey{Rule: "bench/per-key#gcra"}, Limit: limit, Cost: 1}}
		out := make([]weir.Decision, 1)
		return func(key string) bool {
			asks[0].State.Key = key
			must(store.Take(ctx, asks, out))
			return out[0].Charged
		}
	}
}

// allow passes a thousand million events of a key that comes often, and each
// stays in use: a key that is as never used needs no place.
const allow = "1000000/day burst 1000000000"

// ours is the store with room for all keys.
var ours = subject{name: "memstore", workers: func(p plan) func() take { return keep(p.store(), p.text()) }}

func (p plan) store() *memstore.Store {
	return memstore.New(memstore.Options{MaxKeys: max(p.keys, memstore.DefaultMaxKeys)})
}

// front is the call that the README shows.
var front = subject{name: "`Limiter.Take`", make: func(p plan) take { return ask(weir.NewLimiter(p.store(), "bench", weir.MustParseLimit(p.text()))) }}

// frontOfTwo is that of a limiter of two limits, of which the second always allows.
var frontOfTwo = subject{name: "`Limiter.Take` of two", make: func(p plan) take {
	return ask(weir.NewLimiter(p.store(), "bench", weir.MustParseLimit(p.text()), weir.MustParseLimit(allow)))
}}

func ask(l *weir.Limiter) take {
	ctx := context.Background()
	return func(key string) bool {
		a, err := l.Take(ctx, key, 1)
		must(err)
		return a.Outcome == weir.Allowed
	}
}

// file is a check by the rules of a file, with a descriptor of the key alone.
var file = subject{name: "`rules.Limiter.Check`", make: func(p plan) take { return p.check(false) }}

// fileOfTwo has two descriptors, the key alone and the key on a path, of which the second
// always passes.
var fileOfTwo = subject{name: "`rules.Limiter.Check` of two", make: func(p plan) take { return p.check(true) }}

// check asks as a server does that makes each request anew.
func (p plan) check(two bool) take {
	set, err := rules.Parse("bench.yaml", fmt.Appendf(nil, `
domain: bench
descriptors:
  - key: user
    limits: [%s]
  - key: path
    value: /api
    descriptors:
      - key: user
        limits: [%s]
`, p.text(), allow))
	must(err)
	l, ctx := rules.NewLimiter(p.store(), set), context.Background()
	return func(key string) bool {
		user := rules.Entry{Key: "user", Value: key}
		descriptors := []rules.Descriptor{{Entries: []rules.Entry{user}, Cost: 1}}
		if two {
			descriptors = append(descriptors, rules.Descriptor{Entries: []rules.Entry{{Key: "path", Value: "/api"}, user}, Cost: 1})
		}
		a, err := l.Check(ctx, &rules.Request{Domain: "bench", Descriptors: descriptors})
		must(err)
		return a.Allowed
	}
}

// floor is the least that a limiter with a precise clock can do: read it, hash
// the key, and change a word in a table of the size of ours.
var floor = subject{name: "floor", make: func(p plan) take {
	const words = 4 // of a key
	table := make([]atomic.Uint64, max(p.keys, 1)*words)
	start, seed := time.Now(), maphash.MakeSeed()
	return func(key string) bool {
		now := uint64(time.Since(start))
		i := maphash.String(seed, key) % uint64(len(table)/words) * words
		for {
			old := table[i].Load()
			if table[i].CompareAndSwap(old, now) {
				return true // also where a limiter would deny, so that it waits for the load
			}
		}
	}
}}

var floors = []subject{
	{name: "key alone", make: func(plan) take { return func(key string) bool { return len(key) > 0 } }},
	{name: "clock", make: func(plan) take {
		start := time.Now()
		return func(string) bool { return time.Since(start) > 0 }
	}},
	{name: "hash", make: func(plan) take {
		seed := maphash.MakeSeed()
		return func(key string) bool { return maphash.String(seed, key) != 0 }
	}},
	{name: "CAS", make: func(plan) take {
		var word atomic.Uint64
		return func(string) bool { old := word.Load(); return word.CompareAndSwap(old, old+1) }
	}},
	{name: "sync.Map, lookup", make: func(p plan) take {
		var m sync.Map
		return func(key string) bool {
			_, ok := m.Load(key)
			if !ok {
				m.Store(key, true)
			}
			return true
		}
	}},
	{name: "xsync.Map, lookup", make: func(p plan) take {
		m := xsync.NewMap[string, bool]()
		return func(key string) bool {
			_, ok := m.Load(key)
			if !ok {
				m.Store(key, true)
			}
			return true
		}
	}},
}
