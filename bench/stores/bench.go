package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/redisstore"
)

// bench is one run.
type bench struct {
	short     bool
	redis     *redis
	memcached *memcached // nil where there is none
	postgres  *postgres  // likewise
	nats      *natsServer
	ways      []way // of redis
	keys      []string
	table     *table.Table
}

func (b *bench) start(ctx context.Context) (err error) {
	if b.redis, err = startRedis(ctx); err != nil {
		return err
	}
	b.keys = make([]string, 10_000)
	for i := range b.keys {
		b.keys[i] = fmt.Sprintf("key%013d", i)
	}
	if b.ways, err = ways(b.redis); err != nil {
		return err
	}
	if b.memcached, err = startMemcached(ctx); err != nil {
		return err
	}
	if b.postgres, err = startPostgres(ctx); err != nil {
		return err
	}
	b.nats, err = startNATS(ctx)
	return err
}

func (b *bench) stop() {
	b.redis.stop()
	b.memcached.stop()
	b.postgres.stop()
	b.nats.stop()
}

// rounds is how often each way is measured, and how long.
func (b *bench) rounds() (int, time.Duration) {
	if b.short {
		return 3, 300 * time.Millisecond
	}
	return 5, 2 * time.Second
}

// run measures all stores, or one of them.
func (b *bench) run(ctx context.Context, only string) error {
	for _, s := range []struct {
		name    string
		there   bool
		measure func(context.Context) error
	}{
		{"redis", true, b.inRedis},
		{"memcached", b.memcached != nil, b.inMemcached},
		{"postgres", b.postgres != nil, b.inPostgres},
		{"nats", true, b.inNATS},
		{"lease", true, b.leases},
	} {
		if !s.there || only != "" && only != s.name {
			continue
		}
		if err := s.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// inRedis measures Weir's store in Redis beside others.
func (b *bench) inRedis(ctx context.Context) error {
	many, err := b.byTurns(ctx, b.ways, goroutines)
	if err != nil {
		return err
	}
	const what = "256 goroutines, 10,000 keys: "
	b.rates(what, b.ways, many, map[int]*table.Target{1: table.AtLeast(1.35), 2: table.AtLeast(3)})
	b.table.Compare(what+"Redis CPU of a decision, beside "+b.ways[1].name, "µs", many[0].server, many[1].server, table.AtMost(0.7))
	b.table.Compare(what+"our CPU of a decision, beside "+b.ways[1].name, "µs", many[0].client, many[1].client, nil)
	one, err := b.byTurns(ctx, b.ways, 1)
	if err != nil {
		return err
	}
	b.rates("one goroutine: ", b.ways, one, map[int]*table.Target{2: table.AtLeast(1)})
	b.table.Compare("one goroutine: Redis CPU of a decision, beside "+b.ways[2].name, "µs", one[0].server, one[2].server, nil)
	b.table.Compare("one goroutine: our CPU of a decision, beside "+b.ways[2].name, "µs", one[0].client, one[2].client, nil)
	return b.denied(ctx)
}

// inMemcached measures Weir's store in memcached beside what can be done with
// another client.
func (b *bench) inMemcached(ctx context.Context) error {
	ways := b.memcached.ways()
	for _, callers := range []int{goroutines, 1} {
		what := "memcached, 256 goroutines, 10,000 keys: "
		if callers == 1 {
			what = "memcached, one goroutine: "
		}
		of, err := b.byTurns(ctx, ways, callers)
		if err != nil {
			return err
		}
		b.rates(what, ways, of, nil)
		b.table.Compare(what+"memcached CPU of a decision, beside "+ways[1].name, "µs", of[0].server, of[1].server, nil)
		b.table.Compare(what+"our CPU of a decision, beside "+ways[1].name, "µs", of[0].client, of[1].client, nil)
	}
	return nil
}

// rates adds a line for each way but ours.
func (b *bench) rates(what string, ways []way, of []costs, targets map[int]*table.Target) {
	for i := 1; i < len(of); i++ {
		b.table.Compare(what+"decisions/s, beside "+ways[i].name, "", of[0].rate, of[i].rate, targets[i])
	}
}

// costs are what one way has cost, by round.
type costs struct {
	rate, server, client []float64 // decisions a second; microseconds of the server and of this process for each
}

// byTurns measures each way once a round, in an order that turns.
func (b *bench) byTurns(ctx context.Context, ways []way, callers int) ([]costs, error) {
	all := make([]costs, len(ways))
	rounds, last := b.rounds()
	for round := range rounds + 1 {
		if round > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines: round %d of %d\n", callers, round, rounds)
		}
		for turn := range ways {
			i := (round + turn) % len(ways)
			long := last
			if round == 0 {
				long = 300 * time.Millisecond // to warm up
			}
			if err := b.measure(ctx, &all[i], ways[i], callers, long); err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round == 0 {
				all[i] = costs{}
			}
		}
	}
	return all, nil
}

// measure asks by one way for a time, and adds what it cost.
func (b *bench) measure(ctx context.Context, c *costs, w way, callers int, last time.Duration) error {
	runtime.GC() // what the way before has left is not this one's
	before, err := w.cpu(ctx)
	if err != nil {
		return err
	}
	own, began := ownCPU(), time.Now()
	n, err := b.load(ctx, callers, last, w.take)
	if err != nil {
		return err
	}
	took, own := time.Since(began), ownCPU()-own
	after, err := w.cpu(ctx)
	if err != nil {
		return err
	}
	c.rate = append(c.rate, float64(n)/took.Seconds())
	c.server = append(c.server, micros(after-before)/float64(n))
	c.client = append(c.client, micros(own)/float64(n))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ownCPU is the time that this process has used, and the kernel for it.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it is asked for as the manual says
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load has so many callers ask of keys at random, and counts the answers.
func (b *bench) load(ctx context.Context, callers int, last time.Duration, take func(context.Context, string) (bool, error)) (int64, error) {
	var g sync.WaitGroup
	var stop atomic.Bool
	var total, denied atomic.Int64
	var failed atomic.Pointer[error]
	ctx = context.WithoutCancel(ctx) // not all of them would look at it
	for c := range callers {
		g.Go(func() {
			n, no := int64(0), int64(0)
			for at := uint64(c) * 0x9e3779b97f4a7c15; !stop.Load(); n++ {
				at = at*6364136223846793005 + 1442695040888963407
				allowed, err := take(ctx, b.keys[at>>33%uint64(len(b.keys))])
				if err != nil {
					failed.Store(&err)
					return
				}
				if !allowed {
					no++
				}
			}
			total.Add(n)
			denied.Add(no)
		})
	}
	time.Sleep(last)
	stop.Store(true)
	g.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	if n := denied.Load(); n*100 > total.Load() {
		return 0, fmt.Errorf("%d of %d were denied: not what is measured here", n, total.Load())
	}
	return total.Load(), nil
}

// denied measures takes of one key that has nothing left.
func (b *bench) denied(ctx context.Context) error {
	client, err := connect(b.redis.addr)
	if err != nil {
		return err
	}
	defer client.Close()
	s, limit := redisstore.New(client, redisstore.Options{Prefix: "denied:"}), weir.MustParseLimit("1/h")
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r#gcra", Key: "hot"}, Limit: limit, Cost: 1}}
	if err := s.Take(ctx, asks, make([]weir.Decision, 1)); err != nil {
		return err
	}
	var rates, commands []float64
	rounds, last := b.rounds()
	for range rounds {
		before, began := s.Stats().Calls, time.Now()
		n, err := hammer(ctx, s, asks, last)
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		rates, commands = append(rates, float64(n)/took), append(commands, float64(s.Stats().Calls-before)/took)
	}
	rate, traffic := table.Median(rates), table.Median(commands)
	b.table.Rows = append(b.table.Rows,
		table.Row{
			What: "hot denied key: decisions/s", Weir: table.Spread(rates, ""),
			Measured: fmt.Sprintf("%.1f M/s", rate/1e6), Target: "≥ 5 M/s", Verdict: table.AtLeast(5e6).Verdict(rate),
		},
		table.Row{ // each second, those who find the memory too old ask
			What: "hot denied key: calls to Redis/s", Weir: table.Spread(commands, ""),
			Measured: fmt.Sprintf("%.1f/s", traffic), Target: "≤ 10/s", Verdict: table.AtMost(10).Verdict(traffic),
		})
	return nil
}

// hammer asks the same by as many goroutines as there are processors.
func hammer(ctx context.Context, s weir.Store, asks []weir.Ask, last time.Duration) (int64, error) {
	var g sync.WaitGroup
	var stop atomic.Bool
	var total atomic.Int64
	var failed atomic.Pointer[error]
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() {
			n, out := int64(0), make([]weir.Decision, 1)
			for ; !stop.Load(); n++ {
				if err := s.Take(ctx, asks, out); err != nil {
					failed.Store(&err)
					return
				}
			}
			total.Add(n)
		})
	}
	time.Sleep(last)
	stop.Store(true)
	g.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return total.Load(), nil
}

// profileLeases measures leases alone.
func (b *bench) profileLeases(ctx context.Context) error {
	file, err := os.Create("cpu.out")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = b.leases(ctx)
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	return b.table.Print(os.Stdout, false)
}

// profile runs one way alone, and writes what this process did.
func (b *bench) profile(ctx context.Context, name string, callers int) error {
	if name == "lease" {
		return b.profileLeases(ctx)
	}
	inNATS, err := b.nats.ways(ctx)
	if err != nil {
		return err
	}
	for i := range inNATS {
		inNATS[i].name = "nats: " + inNATS[i].name
	}
	for _, w := range append(inNATS, b.ways...) {
		if w.name != name {
			continue
		}
		file, err := os.Create("cpu.out")
		if err != nil {
			return err
		}
		defer file.Close()
		var c costs
		if err := b.measure(ctx, &c, w, callers, time.Second/2); err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		err = b.measure(ctx, &c, w, callers, 4*time.Second)
		pprof.StopCPUProfile()
		if err == nil {
			fmt.Printf("%.0f decisions/s, %.2f µs of Redis, %.2f µs here\n", c.rate[1], c.server[1], c.client[1])
		}
		return err
	}
	return fmt.Errorf("no way is named %q", name)
}
