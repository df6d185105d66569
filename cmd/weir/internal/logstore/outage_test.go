package logstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/porttest"
)

// heard starts a store whose log a test reads.
func heard(t *testing.T, url, node string) (*Store, *notes) {
	t.Helper()
	said := new(notes)
	s := dial(t, url, node)
	s.Start(time.Hour, slog.New(slog.NewTextHandler(said, nil)))
	caught(t, s)
	return s, said
}

// TestDeleted: a topic that is deleted while processes run is made again. They go on, and know of each
// other; one that starts later knows of what came since.
func TestDeleted(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	url := urlOf(c)
	a, said := heard(t, url, "a")
	b, _ := heard(t, url, "b")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	eventually(t, "b knows of 10", func() bool { return used(t, b, limit, "k") == 10 })
	if err := c.DeleteTopic("weir"); err != nil {
		t.Fatal(err)
	}
	take(t, a, limit, "k", 5) // it does not know yet
	eventually(t, "a says so", func() bool { return said.has("the log was deleted") })
	eventually(t, "both decide again", func() bool { return a.away() == nil && b.away() == nil })
	if n := take(t, a, limit, "k", 7); n != 7 {
		t.Errorf("%d of 7 passed", n)
	}
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == 22 })
	if n := used(t, open(t, url, "c"), limit, "k"); n != 12 {
		t.Errorf("one that starts later knows of %d, want the 12 that came since", n)
	}
}

// TestGrown: processes read partitions that are added while they run, and say so.
func TestGrown(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	if err := c.CreateTopic("weir", 1, nil); err != nil {
		t.Fatal(err)
	}
	url := urlOf(c)
	a, said := heard(t, url, "a")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 10)
	all, err := kadm.NewClient(clientOf(t, url)).CreatePartitions(t.Context(), 5, "weir")
	if err != nil || all.Error() != nil {
		t.Fatal(err, all.Error())
	}
	b := open(t, url, "b")
	keys := []string{"k", "l", "m", "n", "o", "p", "q", "r"} // which are in several partitions
	for _, key := range keys {
		take(t, b, limit, key, 3)
	}
	eventually(t, "a says so", func() bool { return said.has("the log has other partitions now") && said.has("partitions=6 before=1") })
	eventually(t, "a knows of all", func() bool {
		for _, key := range keys[1:] {
			if used(t, a, limit, key) != 3 {
				return false
			}
		}
		return used(t, a, limit, "k") == 13 && a.away() == nil
	})
	if n := used(t, b, limit, "k"); n != 13 {
		t.Errorf("b knows of %d, want 13", n)
	}
}

// TestLeaders: nothing is lost or counted twice while the leaders of partitions change.
func TestLeaders(t *testing.T) {
	t.Parallel()
	c := startKafka(t, kfake.NumBrokers(3))
	url := urlOf(c)
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "100000/h fixed-window"
	passed := int64(0)
	for range 10 {
		for p := range int32(partitions) {
			if err := c.MoveTopicPartition("weir", p, (c.PartitionInfo("weir", p).Leader+1)%3); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			passed += int64(take(t, a, limit, "k", 2) + take(t, b, limit, "k", 3))
			time.Sleep(5 * time.Millisecond)
		}
	}
	eventually(t, "both know of all", func() bool { return used(t, a, limit, "k") == passed && used(t, b, limit, "k") == passed })
}

// TestKilled: of a process that dies without Close, all is known that it had appended.
func TestKilled(t *testing.T) {
	t.Parallel()
	atEach(t, "", killed)
}

func killed(t *testing.T, url string) {
	a := open(t, url, "a")
	const limit = "1000/h fixed-window"
	take(t, a, limit, "k", 30)
	eventually(t, "all is appended", func() bool { s := a.Stats(); return s.Waiting == 0 && s.InFlight == 0 })
	a.stop()
	a.running.Wait()
	b := open(t, url, "a") // it has the same name, and is another process
	take(t, b, limit, "k", 5)
	if n := used(t, b, limit, "k"); n != 35 {
		t.Errorf("%d are used; 30 passed before it died, and 5 since", n)
	}
	eventually(t, "a third one knows of all", func() bool { return used(t, open(t, url, "c"), limit, "k") == 35 })
}

// slowed has a broker answer fetches late while slow is true.
func slowed(c *kfake.Cluster, slow *atomic.Bool) {
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for slow.Load() {
			c.SleepControl(func() { time.Sleep(20 * time.Millisecond) })
		}
		return nil, nil, false
	})
}

// TestLongStart: a process decides nothing before it has read back all, however long that takes, and what
// it reads late counts as of when it passed.
func TestLongStart(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	url := urlOf(c)
	a := open(t, url, "a")
	const limit = "1000/h fixed-window"
	const bucket = "10/s burst 1000"
	take(t, a, limit, "k", 400)
	take(t, a, bucket, "b", 400)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var slow atomic.Bool
	slowed(c, &slow)
	b := dial(t, url, "b")
	b.Start(time.Hour, logOf(t))
	eventually(t, "b has begun", func() bool { return b.log.Load() != nil })
	slow.Store(true)
	began := time.Now()
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := b.Caught(ctx); !errors.Is(err, weir.ErrAway) || !strings.Contains(err.Error(), "still being read back") {
		t.Skipf("it was read before the broker was slow: %v", err)
	}
	slow.Store(false)
	eventually(t, "b decides", func() bool { return b.away() == nil })
	if n := used(t, b, limit, "k"); n != 400 {
		t.Errorf("%d are used, want 400", n)
	}
	drained := int64(10 * time.Since(began) / time.Second)
	if n := used(t, b, bucket, "b"); n > 400-drained+10 || n < 400-drained-40 {
		t.Errorf("%d of a bucket are used; 400 were, of which about %d have drained", n, drained)
	}
}

// TestLost: messages that are deleted before a process has read them are counted, and it goes on.
func TestLost(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	url := urlOf(c)
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "1000/h fixed-window"
	var slow atomic.Bool
	slow.Store(true)
	slowed(c, &slow)
	eventually(t, "a decides nothing", func() bool { return a.away() != nil })
	send(t, url, "1", "2", "3", "4", "5")
	for p := range int32(partitions) {
		if err := c.DeleteRecords("weir", p, c.PartitionInfo("weir", p).HighWatermark); err != nil {
			t.Fatal(err)
		}
	}
	slow.Store(false)
	eventually(t, "both decide again", func() bool { return a.away() == nil && b.away() == nil })
	if a.Stats().Lost < 5 {
		t.Errorf("%+v", a.Stats())
	}
	take(t, a, limit, "k", 3)
	eventually(t, "b knows", func() bool { return used(t, b, limit, "k") == 3 })
}

// TestFallback: what fallbacks let pass while the broker is away is told to all when it is back.
func TestFallback(t *testing.T) {
	t.Parallel()
	port, dir := porttest.Port(t), t.TempDir()
	durable := []kfake.Opt{kfake.Ports(port), kfake.DataDir(dir)}
	c := startKafka(t, durable...)
	url := urlOf(c)
	a, b := open(t, url, "a"), open(t, url, "b")
	at := edge.New(a, edge.Options{})
	defer func() { _ = at.Close() }()
	const limit = "1000/h fixed-window"
	l, passed := weir.MustParseLimit(limit), int64(0)
	ask := func() (degraded bool) {
		out := make([]weir.Decision, 1)
		if err := at.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "api/user", Key: "k"}, Limit: l, Cost: 1}}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Outcome == weir.Allowed {
			passed++
		}
		return out[0].Degraded != ""
	}
	ask()
	c.Close()
	eventually(t, "the fallback decides", ask)
	for range 20 {
		ask()
	}
	startKafka(t, durable...)
	eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == passed })
	eventually(t, "a decides again", func() bool { return !ask() })
	eventually(t, "b knows of that, too", func() bool { return used(t, b, limit, "k") == passed })
}

// TestReason: what a broker said that is no good is forgotten when all is well again, so that another outage is not told
// with it.
func TestReason(t *testing.T) {
	t.Parallel()
	c := startKafka(t)
	a := open(t, urlOf(c), "a")
	a.reading.fail(errors.New("of an outage before"))
	eventually(t, "it is forgotten", func() bool {
		a.reading.mu.Lock()
		defer a.reading.mu.Unlock()
		return a.reading.why == nil
	})
	c.Close()
	eventually(t, "another outage is noticed", func() bool { return a.away() != nil })
	if err := a.away(); strings.Contains(err.Error(), "before") {
		t.Error(err)
	}
}

// TestApart: processes whose clocks are 10 minutes apart share buckets as others do.
func TestApart(t *testing.T) {
	t.Parallel()
	atEach(t, "", apart)
}

func apart(t *testing.T, url string) {
	a, b := open(t, url, "a"), dial(t, url, "b")
	b.now = func() weir.Instant { return weir.InstantOf(time.Now().Add(10 * time.Minute)) }
	b.Start(time.Hour, logOf(t))
	caught(t, b)
	const limit = "100/day"
	passed := 0
	for range 6 {
		n := passed + take(t, a, limit, "k", 15)
		eventually(t, "b knows of all", func() bool { return used(t, b, limit, "k") == int64(n) })
		passed = n + take(t, b, limit, "k", 15)
		eventually(t, "a knows of all", func() bool { return used(t, a, limit, "k") == int64(passed) })
	}
	if passed != 100 {
		t.Errorf("%d passed, want 100", passed)
	}
}

// TestReported: of work reported afterwards a bucket keeps what it can hold, here and at others.
func TestReported(t *testing.T) {
	t.Parallel()
	atEach(t, "", reported)
}

func reported(t *testing.T, url string) {
	a, b := open(t, url, "a"), open(t, url, "b")
	const limit = "10/day"
	out := make([]weir.Decision, 1)
	ask := weir.Ask{State: weir.StateKey{Rule: "api/user", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1000, After: true}
	if err := a.Take(t.Context(), []weir.Ask{ask}, out); err != nil || !out[0].Charged || out[0].RetryAfter > 3*time.Hour {
		t.Errorf("%+v, %v", out[0], err)
	}
	eventually(t, "b knows", func() bool { return used(t, b, limit, "k") == 10 })
	if err := b.Take(t.Context(), []weir.Ask{{State: ask.State, Limit: ask.Limit, Cost: 1}}, out); err != nil || out[0].RetryAfter > 3*time.Hour {
		t.Errorf("%+v, %v", out[0], err)
	}
}

// TestOnePartition: a process that can't append to one partition decides nothing, for others may not hear of all that it lets pass.
func TestOnePartition(t *testing.T) {
	t.Parallel()
	c := startKafka(t, kfake.NumBrokers(2))
	a := open(t, urlOf(c), "a")
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range r.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Partition == 3 { // which comes with others of one broker of the two
					return nil, errors.New("not this one"), true
				}
			}
		}
		return nil, nil, false
	})
	eventually(t, "it decides nothing", func() bool { return a.away() != nil })
}
