package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	juju "github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// peers are made for as many events a second as they can be asked to let pass,
// or for one event a day.
var peers = []subject{
	{name: "x/time/rate in a map", make: func(p plan) take {
		return inMap(p, func() *rate.Limiter {
			if p.deny {
				return rate.NewLimiter(rate.Every(day), 1)
			}
			return rate.NewLimiter(plenty, plenty)
		}, (*rate.Limiter).Allow)
	}},
	{name: "throttled", make: func(p plan) take {
		store, err := throttledmem.NewCtx(0)
		must(err)
		quota := throttled.RateQuota{MaxRate: throttled.PerSec(1_000_000), MaxBurst: 1_000_000}
		if p.deny {
			quota = throttled.RateQuota{MaxRate: throttled.PerDay(1)}
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, quota)
		must(err)
		ctx := context.Background()
		return func(key string) bool {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited // it gives up after ten tries for a key that others ask for, too
		}
	}},
	{name: "sethvargo/go-limiter", make: func(p plan) take {
		c := &memorystore.Config{Tokens: 1 << 62, Interval: time.Hour}
		if p.deny {
			c = &memorystore.Config{Tokens: 1, Interval: day}
		}
		store, err := memorystore.New(c)
		must(err)
		ctx := context.Background()
		return func(key string) bool {
			_, _, _, ok, err := store.Take(ctx, key)
			must(err)
			return ok
		}
	}},
	{name: "ulule/limiter", make: func(p plan) take {
		r := ulule.Rate{Period: time.Hour, Limit: 1 << 60}
		if p.deny {
			r = ulule.Rate{Period: day, Limit: 1}
		}
		l := ulule.New(ululemem.NewStore(), r)
		ctx := context.Background()
		return func(key string) bool {
			c, err := l.Get(ctx, key)
			must(err)
			return !c.Reached
		}
	}},
	{name: "httprate", workers: func(p plan) func() take {
		l := httprate.NewRateLimiter(1<<60, time.Hour)
		if p.deny {
			l = httprate.NewRateLimiter(1, day)
		}
		return func() take { // with the headers that it always sets
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
			return func(key string) bool { return !l.OnLimit(w, r, key) }
		}
	}},
	{name: "juju/ratelimit in a map", make: func(p plan) take {
		return inMap(p, func() *juju.Bucket {
			if p.deny {
				b := juju.NewBucket(day, 1)
				return b
			}
			return juju.NewBucketWithRate(plenty, plenty)
		}, func(b *juju.Bucket) bool { return b.TakeAvailable(1) == 1 })
	}},
	{name: "uber/ratelimit in a map", make: func(p plan) take {
		if p.deny {
			return nil // it sleeps
		}
		return inMap(p, func() uber.Limiter { return uber.New(plenty) }, func(l uber.Limiter) bool { l.Take(); return true })
	}},
	{name: "failsafe-go in a map", make: func(p plan) take {
		return inMap(p, func() ratelimiter.RateLimiter[any] {
			if p.deny {
				return ratelimiter.NewBursty[any](1, day)
			}
			return ratelimiter.NewBursty[any](plenty, time.Second)
		}, func(l ratelimiter.RateLimiter[any]) bool { return l.TryAcquirePermit() })
	}},
}

// twice are the peers nearest to a limiter of two limits: of each two, one after the other,
// the second only if the first lets it pass.
func twice() []subject {
	var all []subject
	for _, peer := range peers {
		if !slices.Contains([]string{"throttled", "sethvargo/go-limiter", "ulule/limiter"}, peer.name) {
			continue
		}
		all = append(all, subject{name: peer.name + " twice", make: func(p plan) take {
			first, second := peer.make(p), peer.make(plan{keys: p.keys})
			return func(key string) bool { return first(key) && second(key) }
		}})
	}
	return all
}

const (
	plenty = 1_000_000_000
	day    = 24 * time.Hour
)

// inMap keeps one limiter for each key, the way that most programs do.
func inMap[L any](p plan, limiter func() L, ask func(L) bool) take {
	var mu sync.RWMutex
	limiters := map[string]L{}
	return func(key string) bool {
		mu.RLock()
		l, ok := limiters[key]
		mu.RUnlock()
		if !ok {
			mu.Lock()
			if l, ok = limiters[key]; !ok {
				l = limiter()
				limiters[key] = l
			}
			mu.Unlock()
		}
		return ask(l)
	}
}
