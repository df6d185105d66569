package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/redisstore"
)

// way is one way to decide: 100 a second and 100 at once, for each key.
type way struct {
	name string
	cpu  func(context.Context) (time.Duration, error) // of the server, so far
	take func(ctx context.Context, key string) (allowed bool, err error)
}

const perSecond = 100

// goroutines is how many ask at once, and so how many connections those may have
// that use one for each.
const goroutines = 256

// ways are all that are measured. Weir, one script call for each decision on the
// same client, and redis_rate come first.
func ways(r *redis) ([]way, error) {
	weirWay, err := weirStore(r)
	if err != nil {
		return nil, err
	}
	alone, err := evalsha(r)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(&goredis.Options{Addr: r.addr, PoolSize: goroutines, MaxRetries: -1})
	all := []way{weirWay, alone, redisRate(r, "redis_rate", client)}
	auto, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	all = append(all, redisRate(r, "redis_rate, AutoPipeline", auto))
	for _, peer := range []func(*redis, *goredis.Client) (way, error){throttledWay, ululeWay} {
		w, err := peer(r, client)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func weirStore(r *redis) (way, error) {
	client, err := connect(r.addr)
	if err != nil {
		return way{}, err
	}
	s, limit := redisstore.New(client, redisstore.Options{}), weir.MustParseLimit("100/s burst 100")
	return way{"weir", r.cpu, func(ctx context.Context, key string) (bool, error) {
		var asks [1]weir.Ask
		var out [1]weir.Decision
		asks[0] = weir.Ask{State: weir.StateKey{Rule: "r#gcra", Key: key}, Limit: limit, Cost: 1}
		err := s.Take(ctx, asks[:], out[:])
		return out[0].Outcome == weir.Allowed, err
	}}, nil
}

// pacer is as little as a script can do: times in whole microseconds, no limit
// that changes, no refund, and of the state no more than the client needs.
const pacer = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local after = tat + ARGV[1]
if after - now > tonumber(ARGV[2]) then return {0, tat - now} end
redis.call('SET', KEYS[1], after, 'PX', math.ceil((after - now) / 1000))
return {1, after - now}`

// evalsha decides by one call of pacer for each decision.
func evalsha(r *redis) (way, error) {
	client, err := connect(r.addr)
	if err != nil {
		return way{}, err
	}
	script := rueidis.NewLuaScript(pacer)
	args := []string{"10000", "1000000"}
	return way{"EVALSHA each", r.cpu, func(ctx context.Context, key string) (bool, error) {
		answer, err := script.Exec(ctx, client, []string{"alone:" + key}, args).AsIntSlice()
		return err == nil && answer[0] == 1, err
	}}, nil
}

// pipeline is what redis_rate asks for.
type pipeline interface {
	Eval(ctx context.Context, script string, keys []string, args ...any) *goredis.Cmd
	EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *goredis.Cmd
	ScriptExists(ctx context.Context, hashes ...string) *goredis.BoolSliceCmd
	ScriptLoad(ctx context.Context, script string) *goredis.StringCmd
	Del(ctx context.Context, keys ...string) *goredis.IntCmd
	EvalRO(ctx context.Context, script string, keys []string, args ...any) *goredis.Cmd
	EvalShaRO(ctx context.Context, sha1 string, keys []string, args ...any) *goredis.Cmd
}

func redisRate(r *redis, name string, client pipeline) way {
	l, limit := redis_rate.NewLimiter(client), redis_rate.PerSecond(perSecond)
	return way{name, r.cpu, func(ctx context.Context, key string) (bool, error) {
		a, err := l.Allow(ctx, key, limit)
		return err == nil && a.Allowed > 0, err
	}}
}

func throttledWay(r *redis, client *goredis.Client) (way, error) {
	store, err := throttledredis.NewCtx(client, "throttled:")
	if err != nil {
		return way{}, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond - 1})
	if err != nil {
		return way{}, err
	}
	return way{"throttled", r.cpu, func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}}, nil
}

func ululeWay(r *redis, client *goredis.Client) (way, error) {
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return way{}, err
	}
	l := limiter.New(store, limiter.Rate{Period: time.Second, Limit: perSecond})
	return way{"ulule", r.cpu, func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached, err
	}}, nil
}
