package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/memcachestore"
)

// pair is a store of two servers: what begins with b is on the second.
type pair [2]*remote

func (p pair) Servers() []string { return []string{"one", "two"} }

func (p pair) ServerOf(k weir.StateKey) int {
	if strings.HasPrefix(k.Rule, "b") {
		return 1
	}
	return 0
}

func (p pair) of(k weir.StateKey) *remote { return p[p.ServerOf(k)] }

func (p pair) Traits() weir.Traits { return weir.Traits{} }

func (p pair) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return p.of(asks[0].State).Take(ctx, asks, out)
}

func (p pair) Settle(ctx context.Context, all []weir.Settlement) error {
	if err := p.of(all[0].Receipt.State).reach(ctx); err != nil {
		return err
	}
	return p.of(all[0].Receipt.State).Settle(ctx, all)
}

func (p pair) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := p.of(keys[0]).reach(ctx); err != nil {
		return err
	}
	return p.of(keys[0]).Reset(ctx, keys)
}

func (p pair) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	return p.of(asks[0].State).Look(ctx, asks)
}

// of is an ask of one event of a rule.
func of(rule, limit string, f weir.Fallback) weir.Ask {
	a := ask(limit, f)[0]
	a.State.Rule = rule
	return a
}

// TestServers: a server that is away is so for what it has alone. Takes of several
// servers are decided by each for its part, and pass all or nothing.
func TestServers(t *testing.T) {
	for name, away := range map[string]func(*remote){
		"frozen":  func(r *remote) { r.delay.Store(-1) },
		"refused": func(r *remote) { r.broken.Store(&errRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, changes := pair{newRemote(), newRemote()}, []string{}
				var mu sync.Mutex
				g := guard.New(store, guard.Options{Changed: func(server string, err error) {
					mu.Lock()
					defer mu.Unlock()
					changes = append(changes, fmt.Sprint(server, " ", err == nil))
				}})
				away(store[1])
				for range 300 {
					if d := take(t, g, []weir.Ask{of("a", "1000/h", weir.FallbackClosed)}); d.Degraded != "" {
						t.Fatalf("%+v of a server that is there", d)
					}
					if d := take(t, g, []weir.Ask{of("b", "1000/h", weir.FallbackClosed)}); d.Degraded != weir.FallbackClosed {
						t.Fatalf("%+v of a server that is away", d)
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Second) // until it is not looked for any more
				if s := g.Stats(); s.Away != 1 || s.Servers != 2 {
					t.Errorf("%+v", s)
				}
				both := []weir.Ask{of("a", "1000/h", weir.FallbackClosed), of("b", "2/h", weir.FallbackLocal)}
				out := make([]weir.Decision, 2)
				for n := range 4 {
					if err := g.Take(t.Context(), both, out); err != nil {
						t.Fatal(err)
					}
					if pass := n < 2; out[0].Charged != pass || out[1].Charged != pass || out[0].Degraded != "" || out[1].Degraded != weir.FallbackLocal {
						t.Errorf("take %d of both: %+v", n, out)
					}
				}
				if d := take(t, g, both[:1]); d.Remaining != 697 {
					t.Errorf("after 303 takes: %+v", d)
				}
				store[1].delay.Store(0)
				store[1].broken.Store(nil)
				time.Sleep(time.Second)
				take(t, g, both[1:]) // has the server asked whether it is back
				synctest.Wait()
				if d := take(t, g, both[1:]); d.Degraded != "" || d.Outcome != weir.Denied {
					t.Errorf("after its return: %+v; want what was used meanwhile to count", d)
				}
				mu.Lock()
				defer mu.Unlock()
				if fmt.Sprint(changes) != "[two false two true]" {
					t.Errorf("told %q", changes)
				}
			})
		})
	}
}

// TestReceiptsOfServers: receipts of one take are settled by whoever gave each.
func TestReceiptsOfServers(t *testing.T) {
	synctest.Test(t, testReceiptsOfServers)
}

func testReceiptsOfServers(t *testing.T) {
	store := pair{newRemote(), newRemote()}
	g := guard.New(store, guard.Options{})
	store[1].broken.Store(&errRefused)
	both := []weir.Ask{of("a", "9/h", ""), of("b", "9/h", "")}
	for i := range both {
		both[i].Receipt, both[i].Cost = 5, 4
	}
	out := make([]weir.Decision, 2)
	if err := g.Take(t.Context(), both, out); err != nil || out[0].Receipt == nil || out[1].Receipt == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	all := []weir.Settlement{{Receipt: out[0].Receipt, Used: 1}, {Receipt: out[1].Receipt, Used: 1}}
	if err := g.Settle(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if err := g.Settle(t.Context(), all); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
	for i := range both {
		both[i].Cost, both[i].Peek = 1, true
	}
	if err := g.Take(t.Context(), both, out); err != nil || out[0].Remaining != 8 || out[1].Remaining != 8 {
		t.Errorf("%+v, %v; want 8 of 9 to remain of each", out, err)
	}
	keys := []weir.StateKey{both[0].State, both[1].State}
	if err := g.Reset(t.Context(), keys); !errors.Is(err, weir.ErrAway) {
		t.Errorf("reset with a server away: %v", err)
	}
	if _, _, err := g.Look(t.Context(), both); !errors.Is(err, weir.ErrAway) {
		t.Errorf("look with a server away: %v", err)
	}
	store[1].broken.Store(nil)
	time.Sleep(time.Second)
	g.Contact(t.Context(), func(context.Context, int) error { return nil })
	if err := g.Reset(t.Context(), keys); err != nil {
		t.Error(err)
	}
	if now, states, err := g.Look(t.Context(), both); err != nil || len(states) != 2 || both[0].Limit.Used(states[0], now)+both[1].Limit.Used(states[1], now) > 0 {
		t.Errorf("%v, %v after a reset", states, err)
	}
}

// TestOneServerKilled: of two memcached one is killed; the keys of the other are
// decided by it throughout.
func TestOneServerKilled(t *testing.T) {
	a, b := memcachedtest.Start(t, "-m", "8"), memcachedtest.Start(t, "-m", "8")
	store, err := memcachestore.Dial("memcached://"+a.Addr+","+b.Addr, memcachestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	g := guard.New(store, guard.Options{})
	g.Contact(t.Context(), store.Ping)
	b.Kill()
	decided, late := [2]int{}, 0
	for n := range 400 {
		one := ask("1000000/h", weir.FallbackOpen)
		one[0].State.Key = fmt.Sprint(n % 40)
		d := take(t, g, one)
		server := store.ServerOf(one[0].State)
		if decided[server]++; d.Degraded == "" && server == 1 {
			t.Fatalf("take %d, of server %d: %+v", n, server, d)
		}
		if d.Degraded != "" && server == 0 {
			late++ // on a machine with other work
			time.Sleep(time.Millisecond)
		}
	}
	if s := g.Stats(); s.Away != 1 || decided[0] < 50 || decided[1] < 50 || late > decided[0]/2 {
		t.Errorf("%+v after %v takes, %d of the first late", s, decided, late)
	}
}

// TestBadAsks are refused, and say nothing of the store.
func TestBadAsks(t *testing.T) {
	store := newRemote()
	var bad error = &record.AskError{Err: errors.New("not so")}
	store.broken.Store(&bad)
	g := guard.New(store, guard.Options{})
	for range 2 * guard.Enough {
		if err := g.Take(t.Context(), ask("9/h", ""), make([]weir.Decision, 1)); !errors.Is(err, bad) {
			t.Errorf("%v, want the store's answer", err)
		}
	}
	if g.Stats().Away > 0 {
		t.Error("what was asked wrong has sent the store away")
	}
}

// TestBadAsksWhileAway: what no store decides is refused while the store is away, whatever the fallback.
func TestBadAsksWhileAway(t *testing.T) {
	store := newRemote()
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{Nodes: func() int { return 3 }})
	for _, f := range []weir.Fallback{"", weir.FallbackLocal, weir.FallbackOpen, weir.FallbackClosed} {
		for name, bad := range map[string]weir.Ask{
			"no limit":   {Cost: 1},
			"too costly": {Cost: weir.MaxCost + 1, Limit: weir.MustParseLimit("9/h")},
			"negative":   {Cost: -1, Limit: weir.MustParseLimit("9/h")},
		} {
			bad.Policy.Fallback = f
			out := make([]weir.Decision, 1)
			err := g.Take(t.Context(), []weir.Ask{bad}, out)
			if _, wrong := errors.AsType[*record.AskError](err); !wrong {
				t.Errorf("%s, fallback %q: %+v, %v", name, f, out[0], err)
			}
		}
		take(t, g, ask("9/h", f))
	}
}
