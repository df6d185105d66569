package size

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

func drawNeed(t *rapid.T) Need {
	return Need{
		Limit: weir.MustParseLimit(rapid.SampledFrom([]string{
			"100/min", "1/day", "0/s", "1000/s burst 20", "60/min leaky-queue", "100/min fixed-window", "1000/month fixed-window", "10000/h sliding-log",
			"100/min sliding-window", "100/min sliding-window 6", "100/min sliding-window 60", "100/min warm-up 1min", "50 concurrent", "100/min strict",
		}).Draw(t, "limit")),
		Keys:      rapid.Int64Range(1, MaxKeys).Draw(t, "keys"),
		Rate:      rapid.Int64Range(0, MaxRate).Draw(t, "rate"),
		Nodes:     rapid.Int64Range(1, 100).Draw(t, "nodes"),
		Limits:    rapid.Int64Range(1, MaxLimits).Draw(t, "limits"),
		Regions:   rapid.Int64Range(1, 3).Draw(t, "regions"),
		Tolerance: rapid.Int64Range(0, 200).Draw(t, "tolerance"),
	}
}

// TestMoreIsNeverLess asks for more of one thing: no figure may get smaller.
func TestMoreIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNeed(t)
		more := n
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			more.Keys += rapid.Int64Range(0, MaxKeys-n.Keys).Draw(t, "more keys")
		case 1:
			more.Rate += rapid.Int64Range(0, MaxRate-n.Rate).Draw(t, "more requests")
		case 2:
			more.Limits += rapid.Int64Range(0, MaxLimits-n.Limits).Draw(t, "more limits")
		}
		for _, s := range []Store{Memory, Redis, Cluster, Memcached, Postgres, NATS} {
			small, err := n.Of(s, 0)
			large, err2 := more.Of(s, 0)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%v, %v", err, err2)
			}
			if err != nil {
				continue
			}
			a := []int64{small.KeyBytes, small.MemoryBytes, small.Takes, small.NetworkBytes, small.StoreCPU, small.NodeCPU, small.Servers}
			b := []int64{large.KeyBytes, large.MemoryBytes, large.Takes, large.NetworkBytes, large.StoreCPU, large.NodeCPU, large.Servers}
			for i := range a {
				if a[i] < 0 || b[i] < a[i] {
					t.Fatalf("%s: %+v for more than %+v", s, large, small)
				}
			}
		}
	})
}

// TestMoreSubWindowsAreNeverSmaller holds the lines between measured points to
// going up, and to go through the points.
func TestMoreSubWindowsAreNeverSmaller(t *testing.T) {
	for _, s := range []Store{Memory, Redis, Memcached, Postgres, NATS} {
		before := int64(0)
		for _, n := range []string{"", " 2", " 3", " 4", " 5", " 6", " 10", " 12", " 30", " 60"} {
			bytes, ok := keyBytes(s, weir.MustParseLimit("100/min sliding-window"+n))
			if !ok || bytes < before {
				t.Errorf("%s, sliding-window%s: %d B after %d", s, n, bytes, before)
			}
			before = bytes
		}
	}
	for _, c := range []struct {
		store       Store
		limit       string
		least, most int64
	}{
		{Memory, "100/min", 36, 39},
		{Memory, "100/min sliding-window 60", 405, 410},
		{Redis, "100/min sliding-window 60", 470, 475},
		{Redis, "1000/min sliding-log", 198 + 8*999, 198 + 8*999},
		{Memcached, "100/min sliding-window 60", 482, 515},
		{NATS, "100/min sliding-window 60", 771, 800},
		{Postgres, "100/min sliding-window 60", 872, 880},
	} {
		if got, _ := keyBytes(c.store, weir.MustParseLimit(c.limit)); got < c.least || got > c.most {
			t.Errorf("%s, %s: %d B, measured %d…%d", c.store, c.limit, got, c.least, c.most)
		}
	}
}

func TestAdvice(t *testing.T) {
	noLogs := func(s Store, l *weir.Limit) string {
		if (s == Memcached || s == NATS) && l.Algorithm() == weir.SlidingLog {
			return "it keeps no logs"
		}
		return ""
	}
	const m, k = 1_000_000, 1_000
	for _, c := range []struct {
		name, limit                                   string
		keys, rate, nodes, limits, regions, tolerance int64
		want                                          string // the advice
		or                                            string // what else fits
	}{
		{"one machine, one bucket", "100/min", m, k, 1, 1, 1, 0, "the load balancer's own limit", "Weir in memory"},
		{"a rate over a minute", "100/min sliding-window", m, k, 1, 1, 1, 0, "the load balancer's own limit", "Weir in memory"},
		{"connections", "20 concurrent", m, k, 1, 1, 1, 0, "the load balancer's own limit", "Weir in memory"},
		{"a quota on one machine", "1000/month fixed-window", m, k, 1, 1, 1, 0, "Weir in memory", ""},
		{"a slow bucket on one machine", "10/day", m, k, 1, 1, 1, 0, "Weir in memory", ""},
		{"promises on one machine", "100/min strict", m, k, 1, 1, 1, 0, "Weir in memory", ""},
		{"several nodes", "100/min", m, k, 4, 1, 1, 0, "Weir with a Redis", "Weir with a Redis Cluster"},
		{"several nodes, nearly exact", "100/min", m, k, 4, 1, 1, 5, "Weir with a Redis", "Weir with a Redis Cluster, Weir with PostgreSQL, Weir with NATS, Weir with memcached"},
		{"hot keys, nearly exact", "1000/s burst 2000", k, 500 * k, 3, 1, 1, 50, "Weir with a Redis, and sync", "Weir with a Redis, and leases, Weir nodes that share counts, by leases, Weir with a Redis Cluster, Weir with memcached, Weir nodes, each with its part of the limit"},
		{"hot keys, exact", "1000/s burst 2000", k, 500 * k, 3, 1, 1, 0, "Weir with a Redis, and leases", "Weir nodes that share counts, by leases, Weir with a Redis Cluster"},
		{"one key, hotter than any server", "1000000/s", 1, 1000 * k, 15, 1, 1, 0, "Weir with a Redis, and leases", "Weir nodes that share counts, by leases"},
		{"more nodes than Redis takes connections", "100/min", m, k, 20 * k, 1, 1, 0, "", ""},
		{"few keys, nearly exact", "100000/day", k, k, 4, 1, 1, 30, "Weir with a Redis, and sync", "Weir with a Redis, Weir nodes that share counts, by leases, Weir with a Redis Cluster, Weir with PostgreSQL, Weir with NATS, Weir with memcached, Weir nodes, each with its part of the limit"},
		{"too many keys for one server", "100/min", 1000 * m, k, 3, 1, 1, 0, "Weir with a Redis Cluster", ""},
		{"rough is enough", "100/min", m, k, 3, 1, 1, 200, "Weir in memory on each node, each with the whole limit", "Weir with a Redis, Weir with a Redis Cluster, Weir with PostgreSQL, Weir with NATS, Weir with memcached"},
		{"logs are not for memcached", "100/min sliding-log", m, k, 3, 1, 1, 5, "Weir with a Redis", "Weir with a Redis Cluster"},
		{"regions", "100/min", m, k, 6, 1, 3, 0, "Weir in each region, with a count of its own", ""},
		{"regions, rough is enough", "100/min", m, k, 3, 1, 3, 200, "Weir in memory on each node, each with the whole limit", "Weir in each region, with a count of its own"},
		{"what can't be divided", "2/min", m, k, 3, 1, 3, 0, "", ""},
		{"and need not be", "2/min", m, k, 6, 1, 3, 200, "Weir in each region, with a count of its own", ""},
		{"a log that is late", "1000/s burst 10", k, k, 3, 1, 1, 30, "Weir with a Redis, and sync", "Weir with a Redis, Weir nodes that share counts, by leases, Weir with a Redis Cluster, Weir with PostgreSQL, Weir with NATS, Weir with memcached, Weir nodes that tell each other, by mesh, Weir nodes that tell each other, by gossip, Weir with an event log in Kafka"},
		{"a log that is too late", "1000/s burst 10", k, k, 3, 1, 1, 21, "Weir with a Redis, and sync", "Weir with a Redis, Weir nodes that share counts, by leases, Weir with a Redis Cluster, Weir with PostgreSQL, Weir with NATS, Weir with memcached"},
		{"warm-up on several nodes", "100/min warm-up 10s", m, k, 3, 1, 1, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := Need{Limit: weir.MustParseLimit(c.limit), Keys: c.keys, Rate: c.rate, Nodes: c.nodes, Limits: c.limits, Regions: c.regions, Tolerance: c.tolerance, Unfit: noLogs}
			var fit []string
			for _, v := range n.Advise() {
				if v.Why == "" || v.Fits == (v.Run == "" && v.store != "") && v.Fits {
					t.Errorf("%+v", v)
				}
				if v.Fits {
					fit = append(fit, v.Design)
				}
			}
			fit = append(fit, "")
			if got := strings.Join(slices.DeleteFunc(fit[1:], func(s string) bool { return s == "" }), ", "); fit[0] != c.want || got != c.or {
				t.Errorf("take %s, or %s", fit[0], got)
			}
			r, err := NewReport(&n, "")
			if err != nil || r.Design != c.want {
				t.Errorf("report %+v, %v", r, err)
			}
		})
	}
}

// TestAdviceKeepsItsWord: what is advised passes no more than is allowed, and a
// server is not asked for more than is planned.
func TestAdviceKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNeed(t)
		for _, v := range n.Advise() {
			switch {
			case !v.Fits:
			case v.sync > 0 && !v.lease && 100*n.Nodes*n.Limit.Unsynced(v.sync) > n.Tolerance*n.Limit.Spec().Count:
				t.Fatalf("%+v passes more than %d %%", v, n.Tolerance)
			case (v.store == Cluster || v.store == Memcached) && n.Regions == 1:
				if z, err := n.Of(v.store, 0); err != nil || up(z.StoreCPU, n.Keys) > load || z.Connections > connections[v.store].most {
					t.Fatalf("%+v takes %+v, %v", v, z, err)
				}
			case v.store == Postgres:
				z, err := n.Of(v.store, 0)
				if err != nil || z.StoreCPU > load*serverProcessors || z.MemoryBytes > serverMemory || z.Connections > connections[v.store].most {
					t.Fatalf("%+v takes %+v, %v", v, z, err)
				}
			case v.store == Redis:
				z, err := n.Of(v.store, v.sync)
				if err != nil || z.StoreCPU > load || z.MemoryBytes > serverMemory/2 || z.Connections > 10_000 {
					t.Fatalf("%+v takes %+v, %v", v, z, err)
				}
			}
		}
		if _, err := NewReport(&n, ""); err != nil {
			t.Fatal(err)
		}
	})
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1500": 1500, "10M": 10_000_000, "2.5k": 2500, "1g": 1_000_000_000, "0.001M": 1000,
		"9223372036854775807": math.MaxInt64, "99999999999G": math.MaxInt64,
		"": -1, "k": -1, "-1": -1, "+1": -1, "1.5": -1, "1.0001k": -1, "1e6": -1, "1,000": -1, "10MM": -1, "1.k": -1, "1.xk": -1, "ten": -1, "10 M": -1, "99999999999999999999": -1,
	} {
		got, err := ParseCount(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 1001: "1.01 kB", 99_999: "100.0 kB", 123_456: "124 kB", 2_300_000_000: "2.30 GB", math.MaxInt64: "9224 PB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}
