package logstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/porttest"
)

// startKafka starts a broker in this process, with no topic.
func startKafka(t testing.TB, o ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func urlOf(c *kfake.Cluster) string { return "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/weir" }

// atEach runs a test at each kind of log.
func atEach(t *testing.T, name string, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run(strings.TrimSpace(name+" kafka"), func(t *testing.T) {
		t.Parallel()
		test(t, urlOf(startKafka(t)))
	})
	t.Run(strings.TrimSpace(name+" nats"), func(t *testing.T) {
		t.Parallel()
		test(t, streamURL(natstest.Start(t).Addr))
	})
}

// open opens a store, and waits until it decides.
func open(t testing.TB, url, node string, o ...kgo.Opt) *Store {
	t.Helper()
	s := dial(t, url, node)
	if len(o) > 0 {
		topic, err := broker.ParseKafka(url)
		if err != nil {
			t.Fatal(err)
		}
		s.place.open = func() (eventLog, error) { return openKafka(topic, o...) }
	}
	s.Start(time.Hour, logOf(t))
	caught(t, s)
	return s
}

// caught waits until a store decides, however busy the machine is.
func caught(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s.Caught(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatal(s.away())
		}
	}
}

func dial(t testing.TB, url, node string) *Store {
	t.Helper()
	option := "?"
	if strings.Contains(url, "?") {
		option = "&"
	}
	s, err := Dial(url + option + "node=" + node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(); s.running.Wait() })
	return s
}

func logOf(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// take asks for events of a key, and says how many passed.
func take(t testing.TB, s *Store, limit, key string, events int) (passed int) {
	t.Helper()
	l := weir.MustParseLimit(limit)
	for range events {
		out := make([]weir.Decision, 1)
		err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "api/user", Key: key}, Limit: l, Cost: 1}}, out)
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Outcome == weir.Allowed {
			passed++
		}
	}
	return passed
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// used is how many events of a key a store knows of.
func used(t testing.TB, s *Store, limit, key string) int64 {
	t.Helper()
	l := weir.MustParseLimit(limit)
	now, states, err := s.Look(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "api/user", Key: key}, Limit: l}})
	if err != nil {
		t.Fatal(err)
	}
	return l.Used(states[0], now)
}

// TestShares: what one process lets pass, others know soon, and all of them know it when they start again.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"100/h fixed-window", "100/h", "100/h sliding-window"} {
		atEach(t, limit, func(t *testing.T, url string) {
			a, b := open(t, url, "a"), open(t, url, "b")
			key := strings.Repeat("k", 1<<20) + "\xff" // known by its hash
			if n := take(t, a, limit, key, 60); n != 60 {
				t.Fatalf("%d of 60 passed", n)
			}
			eventually(t, "b knows", func() bool { return used(t, b, limit, key) >= 59 })
			if n := take(t, b, limit, key, 60); n < 40 || n > 41 {
				t.Errorf("%d of 60 passed, 40 were left", n)
			}
			for _, s := range []*Store{a, b} {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, name := range []string{"a", "c"} {
				again := open(t, url, name)
				if n := take(t, again, limit, key, 10); n > 1 {
					t.Errorf("after all have started again %d passed", n)
				}
				if s := again.Stats(); s.Foreign+s.Newer+s.Lost+s.Dropped+s.Refused != 0 || s.Read == 0 || s.Lag > time.Second {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestReset: what was used is forgotten by all processes, also by those that start later.
func TestReset(t *testing.T) {
	t.Parallel()
	atEach(t, "", reset)
}

func reset(t *testing.T, url string) {
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "100/h"
	take(t, a, limit, "k", 70)
	take(t, b, limit, "k", 20)
	eventually(t, "both know of all", func() bool { return used(t, a, limit, "k") >= 89 && used(t, b, limit, "k") >= 89 })
	take(t, b, limit, "k", 4) // which a may not hear of before the reset
	if err := b.Reset(t.Context(), []weir.StateKey{{Rule: "api/user", Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a has forgotten", func() bool { return used(t, a, limit, "k") == 0 })
	take(t, b, limit, "k", 5)
	take(t, a, limit, "k", 3)
	eventually(t, "what came then counts", func() bool { return used(t, a, limit, "k") == 8 && used(t, b, limit, "k") == 8 })
	if n := used(t, open(t, url, "c"), limit, "k"); n < 7 || n > 8 {
		t.Errorf("one that starts knows of %d events, want 8", n)
	}
}

// TestSettled: others hear of what is used beyond a charge, and not of what is given back.
func TestSettled(t *testing.T) {
	t.Parallel()
	atEach(t, "", settled)
}

func settled(t *testing.T, url string) {
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "100/h fixed-window"
	ask := weir.Ask{State: weir.StateKey{Rule: "api/user", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 10}
	settle := func(receipt uint64, uses int64) {
		ask.Receipt = receipt
		out := make([]weir.Decision, 1)
		if err := a.Take(t.Context(), []weir.Ask{ask}, out); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt, Used: uses}}); err != nil {
			t.Fatal(err)
		}
	}
	settle(1, 17)
	eventually(t, "b knows of 17", func() bool { return used(t, b, limit, "k") == 17 })
	settle(2, 4)
	eventually(t, "b counts the whole charge", func() bool { return used(t, b, limit, "k") == 27 })
	if n := used(t, a, limit, "k"); n != 21 {
		t.Errorf("a counts %d, want 21", n)
	}
	refund := ask.Limit.Refund(ask.State, 5, 3)
	if err := a.Settle(t.Context(), []weir.Settlement{{Receipt: refund}}); !errors.Is(err, weir.ErrNoRefund) {
		t.Errorf("a refund without a receipt: %v", err)
	}
}

// TestNobody: a start waits no longer for a broker that is not there than it must.
func TestNobody(t *testing.T) {
	t.Parallel()
	s := dial(t, "kafka://127.0.0.1:1/weir", "a")
	s.Start(time.Hour, logOf(t))
	began := time.Now()
	err := s.Caught(t.Context())
	if !errors.Is(err, weir.ErrAway) || !strings.Contains(err.Error(), "connection refused") || time.Since(began) > 6*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// TestForeign: what others write into the topic does no harm, and is counted.
func TestForeign(t *testing.T) {
	t.Parallel()
	atEach(t, "", foreign)
}

func foreign(t *testing.T, url string) {
	a := open(t, url, "a")
	take(t, a, "100/h", "k", 10)
	send(t, url, "", "{", "null", "[1]", `{"id":7}`, strings.Repeat("x", 1<<19),
		`{"weir":1,"node":"","process":1,"beat":1}`,
		`{"weir":1,"node":"x","process":1,"rule":"api/user","key":"k","limit":"100/h","slot":1,"sum":-5,"new":1}`,
		`{"weir":1,"node":"x","process":1,"rule":"api/user","key":"k","limit":"100/h","slot":1,"sum":5,"new":9}`)
	send(t, url, `{"weir":2,"node":"x","process":1,"events":[{"rule":"api/user"}]}`)
	// One of a limit that no log can share, and one that nobody can read.
	send(t, url, `{"weir":1,"node":"x","process":1,"rule":"api/user","key":"z","limit":"5 concurrent","slot":1,"sum":5,"new":5}`,
		`{"weir":1,"node":"x","process":1,"rule":"api/user","key":"z","limit":"?","slot":1,"sum":5,"new":5}`)
	// The same twice, an older one, and one of an earlier slot.
	entry := func(slot, sum, fresh int) string {
		return fmt.Sprintf(`{"weir":1,"node":"x","process":1,"rule":"api/user","key":"k","limit":"100/h","slot":%d,"sum":%d,"new":%d,"later":true}`, slot, sum, fresh)
	}
	send(t, url, entry(2, 1007, 7), entry(2, 1007, 7), entry(2, 1003, 3), entry(1, 5, 5), entry(2, 1010, 3))
	for _, s := range []*Store{a, open(t, url, "b")} {
		// Behind is of the last beat, which may be from before the messages.
		eventually(t, "all is read", func() bool { return s.Stats().Dropped == 2 && used(t, s, "100/h", "k") >= 19 })
		if st := s.Stats(); st.Foreign != 9 || st.Newer != 1 || st.Dropped != 2 {
			t.Errorf("%+v", st)
		}
		if n := used(t, s, "100/h", "k"); n < 19 || n > 20 {
			t.Errorf("%d events are used; 10 and 7 and 3 were", n)
		}
	}
}

// clientOf is a client of the topic that is not Weir's.
func clientOf(t testing.TB, url string, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	topic, err := broker.ParseKafka(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := topic.Client(append(o, kgo.DefaultProduceTopic(topic.Topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// send writes texts into the log, into one partition.
func send(t testing.TB, url string, texts ...string) {
	t.Helper()
	if isStream(url) {
		publish(t, url, texts...)
		return
	}
	client := clientOf(t, url, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, text := range texts {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(text)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAway: while the broker is away or slow the store says so, and decides nothing; what passed before
// is known when it is back.
func TestAway(t *testing.T) {
	t.Parallel()
	port, dir := porttest.Port(t), t.TempDir()
	durable := []kfake.Opt{kfake.Ports(port), kfake.DataDir(dir)}
	c := startKafka(t, durable...)
	url := urlOf(c)
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	c.Close()
	take(t, a, limit, "k", 7) // it does not know yet that nobody hears it
	eventually(t, "a decides nothing", func() bool { return errors.Is(a.Ping(t.Context(), 0), weir.ErrAway) })
	out := make([]weir.Decision, 1)
	asks := []weir.Ask{{State: weir.StateKey{Rule: "api/user", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1}}
	if err := a.Take(t.Context(), asks, out); !errors.Is(err, weir.ErrAway) || a.Stats().Lag < time.Second {
		t.Errorf("%v, lag %v", err, a.Stats().Lag)
	}
	time.Sleep(2 * time.Second)
	c = startKafka(t, durable...)
	eventually(t, "both decide again", func() bool { return a.away() == nil && b.away() == nil })
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == 17 })

	// A broker that is slow for a while.
	slow := time.Now().Add(3 * time.Second)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if time.Now().Before(slow) {
			c.SleepControl(func() { time.Sleep(time.Until(slow)) })
		}
		return nil, nil, false
	})
	eventually(t, "a slow broker is noticed", func() bool { return a.away() != nil })
	eventually(t, "and that it is over", func() bool { return a.away() == nil })
	take(t, a, limit, "k", 3)
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == 20 })
}
