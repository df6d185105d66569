package usagelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// broker is a Sink in memory, which can be made to fail.
type broker struct {
	mu     sync.Mutex
	lines  []string
	fail   func() (keep bool, err error) // nil: it never fails
	slow   time.Duration
	closed bool
}

func (b *broker) Append(ctx context.Context, batch Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slow > 0 {
		select {
		case <-time.After(b.slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	keep, err := true, error(nil)
	if b.fail != nil {
		keep, err = b.fail()
	}
	if keep {
		for line := range strings.Lines(string(batch.Lines)) {
			b.lines = append(b.lines, line)
		}
	}
	return err
}

func (b *broker) Close() error {
	b.closed = true
	return nil
}

// records are those of lines, each once.
func records(t interface{ Fatalf(string, ...any) }, lines []string) map[string]Record {
	all := map[string]Record{}
	for _, line := range lines {
		r, err := ParseRecord([]byte(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if before, ok := all[r.ID]; ok && before != r {
			t.Fatalf("one id, two records: %+v and %+v", before, r)
		}
		all[r.ID] = r
	}
	return all
}

// whole says why the intervals of a node's records are not all there, each whole.
func whole(all map[string]Record) error {
	rows, most := map[string]map[int]int{}, map[string]int{}
	want := map[string]int{}
	for id, r := range all {
		part := strings.Split(id, "/")
		self := part[0] + "/" + part[1]
		interval, _ := strconv.Atoi(part[2])
		if rows[self] == nil {
			rows[self] = map[int]int{}
		}
		rows[self][interval]++
		want[self+"/"+part[2]] = r.Rows
		most[self] = max(most[self], interval)
	}
	for self, n := range most {
		for i := 1; i <= n; i++ {
			if got, want := rows[self][i], want[fmt.Sprint(self, "/", i)]; got == 0 || got != want {
				return fmt.Errorf("interval %d of %s has %d records of %d", i, self, got, want)
			}
		}
	}
	return nil
}

// sums are what records say of each rule and key.
func sums(all map[string]Record) map[string]Counts {
	by := map[string]Counts{}
	for _, r := range all {
		at := fmt.Sprint(r.Domain, "|", r.Rule, "|", r.Key, "|", r.Shadow)
		c, n := by[at], r.Counts()
		c.Add(&n)
		by[at] = c
	}
	return by
}

const testRules = `
domain: d
descriptors:
  - {key: user, limits: [5/min, 20/h fixed-window]}
  - {key: path, value: /in, name: entrance, limits: [7/min]}
  - {key: tenant, shadow_mode: true, limits: [3/min], descriptors: [{key: job, limits: [4/min]}]}
`

func testSet(t interface{ Fatal(...any) }) *rules.Set {
	set, err := rules.Parse("test.yaml", []byte(testRules))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// decision is one of a rule about a key.
func decision(r *rules.Rule, key string, o weir.Outcome, cost int64) *rules.Decision {
	d := &rules.Decision{Rule: r, Key: key}
	d.Outcome, d.Cost, d.Charged = o, cost, o == weir.Allowed
	return d
}

// TestSums: whatever the broker does, however long it is away, and however little room there is,
// what it has in the end adds up to what was counted, in intervals without a gap, each told once.
func TestSums(t *testing.T) {
	set := testSet(t)
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) { playSums(t, rand.New(rand.NewPCG(seed, 0)), set) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func playSums(t *testing.T, r *rand.Rand, set *rules.Set) {
	b := &broker{}
	away, flaky := false, r.IntN(2) == 0
	turn := 0
	b.fail = func() (bool, error) {
		turn++
		switch {
		case away:
			return false, errors.New("away")
		case flaky && turn%3 == 0: // it keeps what it does not acknowledge
			return true, errors.New("the answer is lost")
		}
		return true, nil
	}
	l := New(b, Options{Node: "n", room: 1 + r.Int64N(20_000)})
	l.Start()
	want := map[string]Counts{}
	for range 1 + r.IntN(60) {
		switch r.IntN(10) {
		case 0:
			b.mu.Lock()
			away = !away
			b.mu.Unlock()
		case 1:
			time.Sleep(time.Duration(1+r.IntN(30)) * time.Second)
		default:
			drawCounts(r, l, set, want)
		}
	}
	b.mu.Lock()
	away = false
	b.mu.Unlock()
	if err := l.Stop(t.Context()); err != nil || !b.closed {
		t.Fatalf("stopped: %v, closed %v", err, b.closed)
	}
	all := records(t, b.lines)
	if err := whole(all); err != nil {
		t.Fatalf("%v", err)
	}
	if got := sums(all); !maps.Equal(got, want) {
		t.Fatalf("the records add up to\n%+v, counted was\n%+v", got, want)
	}
	if s := l.Stats(); s.Kept != int64(len(all)) || s.Waiting != 0 {
		t.Fatalf("%d records, and %+v", len(all), s)
	}
}

// drawCounts counts something of a rule, and adds it to what is wanted.
func drawCounts(draw *rand.Rand, l *Log, set *rules.Set, want map[string]Counts) {
	rule := set.Rules()[draw.IntN(len(set.Rules()))]
	key := []string{"ann", "bob", "\xfe\xffodd"}[draw.IntN(3)]
	r := l.Open(ID{rule.Domain, rule.Name, rule.Shadow})
	at := fmt.Sprint(rule.Domain, "|", rule.Name, "|", strings.ToValidUTF8(rule.KeyText(key), "\ufffd"), "|", rule.Shadow)
	c := want[at]
	cost := draw.Int64N(10)
	if draw.IntN(5) == 0 {
		stays := draw.Int64N(10)
		receipt := &weir.Receipt{State: rule.State(key), Cost: cost}
		r.Settled(&weir.Settlement{Receipt: receipt, Charged: stays}, rule)
		r.Settled(&weir.Settlement{Receipt: receipt, Renew: true}, rule) // which is no settlement
		c.Settled++
		c.GivenBack += max(cost-stays, 0)
		c.ChargedMore += max(stays-cost, 0)
		want[at] = c
		return
	}
	d := decision(rule, key, weir.Outcome(draw.IntN(3)), cost)
	if draw.IntN(2) == 0 {
		d.Degraded = weir.FallbackLocal
		c.Degraded++
	}
	r.Decided(d, []rules.Entry{{Key: "user", Value: key}})
	switch d.Outcome {
	case weir.Allowed:
		c.Allowed, c.AllowedEvents, c.Charged = c.Allowed+1, c.AllowedEvents+cost, c.Charged+cost
	case weir.Denied:
		c.Denied, c.DeniedEvents = c.Denied+1, c.DeniedEvents+cost
	case weir.Impossible:
		c.Impossible++
	}
	want[at] = c
}

// TestAway: while nobody takes records for half a minute at 10,000 keys a second, memory stays
// bounded, keys are told apart, and in the end all sums are there.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := testSet(t).Rules()[0]
		var said []string
		b := &broker{fail: func() (bool, error) { return false, errors.New("no broker") }}
		l := New(b, Options{Node: "n", Changed: func(away error) { said = append(said, fmt.Sprint(away)) }})
		r := l.Open(ID{Domain: "d", Rule: "r"})
		l.Start()
		const keys = 10_000
		for range 30 {
			for i := range keys {
				r.Decided(decision(rule, fmt.Sprint("user-", i), weir.Allowed, 2), nil)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if s := l.Stats(); s.Waiting > MaxWaiting {
				t.Fatalf("%d bytes wait", s.Waiting)
			}
		}
		s := l.Stats()
		if s.Late == 0 || s.Failures == 0 || s.Oldest < 25*time.Second {
			t.Errorf("after half a minute: %+v", s)
		}
		b.mu.Lock()
		b.fail = nil
		b.mu.Unlock()
		time.Sleep(2 * retryMost)
		if err := l.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := records(t, b.lines)
		if err := whole(all); err != nil {
			t.Fatal(err)
		}
		got := sums(all)
		if len(got) != keys || got["d|r|user-7|false"] != (Counts{Allowed: 30, AllowedEvents: 60, Charged: 60}) {
			t.Errorf("%d keys; the seventh has %+v", len(got), got["d|r|user-7|false"])
		}
		if want := []string{"no broker", "<nil>"}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

// TestManyKeys: keys beyond MaxKeys are counted together, for each rule, and the next interval has
// room for other keys.
func TestManyKeys(t *testing.T) {
	rule, b := testSet(t).Rules()[0], &broker{}
	l := New(b, Options{Node: "n", room: 1 << 40})
	r, other := l.Open(ID{Domain: "d", Rule: "r"}), l.Open(ID{Domain: "d", Rule: "s"})
	count := func(from int) {
		for i := range MaxKeys {
			r.Decided(decision(rule, fmt.Sprint(from+i), weir.Allowed, 1), nil)
		}
		other.Decided(decision(rule, "x", weir.Denied, 3), nil)
		r.Settled(&weir.Settlement{Receipt: &weir.Receipt{State: rule.State("late"), Cost: 5}}, rule)
		l.end(time.Now(), false)
	}
	count(0)
	count(MaxKeys)
	if kept := l.table.size(); kept > MaxKeys {
		t.Errorf("%d rows are kept", kept)
	}
	l.end(time.Now(), false)
	l.end(time.Now(), false)
	if kept := l.table.size(); kept != 0 || l.table.bytes.Load() != 0 || l.table.keys.Load() != 0 {
		t.Errorf("%d rows of nobody, %d bytes", kept, l.table.bytes.Load())
	}
	l.Start()
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, r := range records(t, b.lines) {
		if r.Other {
			others = append(others, fmt.Sprint(r.Rule, " ", r.Key, r.Denied, " ", r.DeniedEvents, " ", r.GivenBack))
		}
	}
	slices.Sort(others)
	if want := []string{"r 0 0 5", "r 0 0 5", "s 1 3 0", "s 1 3 0"}; !slices.Equal(others, want) || l.Stats().Other != 4 {
		t.Errorf("others: %q, want %q; %+v", others, want, l.Stats())
	}
	if n := len(records(t, b.lines)); n != 2*(MaxKeys+2) {
		t.Errorf("%d records", n)
	}
}

// size is how many rows the table has.
func (t *table) size() (n int) {
	for i := range t.shards {
		n += len(t.shards[i].rows)
	}
	return n
}

// TestLost: what is not acknowledged when there is no more time is said to be lost.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := testSet(t).Rules()[0]
		b := &broker{slow: time.Hour}
		l := New(b, Options{Node: "n"})
		l.Start()
		r := l.Open(ID{Domain: "d", Rule: "r"})
		for _, key := range []string{"ann", "ann", "bob"} {
			r.Decided(decision(rule, key, weir.Allowed, 1), nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := l.Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "2 records of 3 decisions were not acknowledged") || time.Since(start) > 4*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestBackAtTheEnd: what could not be kept is tried at once when the daemon ends, and soon again, for it has
// less time then than pauses take.
func TestBackAtTheEnd(t *testing.T) {
	for _, back := range []time.Duration{time.Minute, time.Minute + time.Second} {
		synctest.Test(t, func(t *testing.T) {
			rule := testSet(t).Rules()[0]
			begin := time.Now()
			b := &broker{fail: func() (bool, error) {
				if time.Since(begin) < back {
					return false, errors.New("away")
				}
				return true, nil
			}}
			l := New(b, Options{Node: "n"})
			l.Start()
			l.Open(ID{Domain: "d", Rule: "r"}).Decided(decision(rule, "ann", weir.Allowed, 1), nil)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := l.Stop(ctx); err != nil || l.Stats().Kept != 1 {
				t.Errorf("the log was back: %v", err)
			}
		})
	}
}

// TestReasons: a new reason for which records can't be kept is told, and not more often than each minute.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := testSet(t).Rules()[0]
		begin, tries := time.Now(), 0
		b := &broker{fail: func() (bool, error) {
			tries++
			switch took := time.Since(begin); {
			case took < 30*time.Second:
				return false, errors.New("no broker answers")
			case took < 3*time.Minute:
				return false, errors.New("there is no topic")
			case took < 10*time.Minute:
				return false, fmt.Errorf("failure %d", tries)
			}
			return true, nil
		}}
		var told []string
		l := New(b, Options{Node: "n", Changed: func(err error) { told = append(told, fmt.Sprint(err)) }})
		l.Start()
		l.Open(ID{Domain: "d", Rule: "r"}).Decided(decision(rule, "ann", weir.Allowed, 1), nil)
		time.Sleep(11 * time.Minute)
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if len(told) < 8 || len(told) > 10 || told[0] != "no broker answers" || told[1] != "there is no topic" || told[len(told)-1] != "<nil>" {
			t.Errorf("of %d tries was told %q", tries, told)
		}
	})
}

// frozenSink takes a batch and never ends, whatever its context says, as a frozen file system does.
type frozenSink struct{ called chan struct{} }

func (f frozenSink) Append(context.Context, Batch) error {
	close(f.called)
	select {}
}

func (f frozenSink) Close() error { panic("it is in use") }

// TestFrozen: a sink that never ends does not hold up the end of the daemon.
func TestFrozen(t *testing.T) {
	rule := testSet(t).Rules()[0]
	sink := frozenSink{make(chan struct{})}
	l := New(sink, Options{Node: "n", every: time.Millisecond})
	l.Start()
	l.Open(ID{Domain: "d", Rule: "r"}).Decided(decision(rule, "ann", weir.Allowed, 1), nil)
	<-sink.called
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Stop(ctx) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "1 records of 1 decisions") || !strings.Contains(err.Error(), "frozen") {
			t.Error(err)
		}
	case <-time.After(10 * frozen):
		t.Error("Stop does not end")
	}
}

// TestClockSetBack: an interval does not end before it begins, by the clock that its records tell. The
// monotonic clock of the process would say that it does not, and readers would take its records for
// foreign ones.
func TestClockSetBack(t *testing.T) {
	rule := testSet(t).Rules()[0]
	l := New(&broker{}, Options{Node: "n"})
	if r := l.since; r != r.Round(0) {
		t.Error("the first interval begins by the monotonic clock")
	}
	now := time.Now()
	l.end(now, false)
	if r := l.since; r != r.Round(0) {
		t.Error("the second interval begins by the monotonic clock")
	}
	l.Open(ID{Domain: "d", Rule: "r"}).Decided(decision(rule, "ann", weir.Allowed, 1), nil)
	l.end(now.Add(-time.Hour), false)
	if _, err := ParseRecord(l.queue[0].lines); err != nil {
		t.Errorf("%s: %v", l.queue[0].lines, err)
	}
}

// TestWords: a key is told in words or as a digest with its name, is hidden where that is wanted,
// and what is no text does no harm.
func TestWords(t *testing.T) {
	long := strings.Repeat("k", 200)
	set := testSet(t)
	for _, hide := range []bool{false, true} {
		b := &broker{}
		o := Options{Node: "n"}
		if hide {
			o.Hide = func(key string) string { return fmt.Sprint("hidden ", len(key)) }
		}
		l := New(b, o)
		r := l.Open(ID{Domain: "d \"\n\xff", Rule: "r"})
		for _, value := range []string{"ann", long, "\xff", ""} {
			met, key := set.Match("d", &rules.Descriptor{Entries: []rules.Entry{{Key: "user", Value: value}}})
			r.Decided(decision(met[0], key, weir.Allowed, 1), []rules.Entry{{Key: "user", Value: value}})
		}
		d := &weir.Decision{Outcome: weir.Allowed, Cost: 1}
		for _, key := range []string{"plain", long, "\xffx", ""} {
			l.Open(ID{Rule: "t"}).Throttled(key, d)
		}
		l.Gone(ID{Domain: "d", Rule: "gone"}).Settled(&weir.Settlement{Receipt: &weir.Receipt{Cost: 1}}, nil)
		l.Start()
		if err := l.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range records(t, b.lines) {
			got = append(got, fmt.Sprintf("%s %s %v %d %d", r.Rule, r.Key, r.Other, len(r.Name), r.Allowed))
		}
		slices.Sort(got)
		want := []string{"gone  true 0 0", "r  false 0 1", "r ann false 0 1", "r \ufffd false 0 1", "t  false 0 1", "t plain false 0 1"}
		if hide {
			want = []string{
				"gone  true 0 0", "r  false 0 1", "r hidden 1 false 0 1", "r hidden 3 false 0 1", "r hidden 71 false 0 1",
				"t  false 0 1", "t hidden 5 false 0 1", "t hidden 71 false 0 1", "t hidden 71 false 0 1",
			}
		}
		named := 0
		got = slices.DeleteFunc(got, func(line string) bool {
			digest := strings.Contains(line, " sha256:")
			if digest && !strings.HasSuffix(line, " 0 1") {
				named++
			}
			return digest
		})
		slices.Sort(want)
		if !slices.Equal(got, want) || !hide && named != 3 {
			t.Errorf("hide %v: %d digests with names, and\n%q, want\n%q", hide, named, got, want)
		}
	}
}

// TestParseRecord: what is no record is refused, and a member of a later version is not.
func TestParseRecord(t *testing.T) {
	good := `{"id":"n/1/1/0","rows":1,"from":"2026-11-23T10:00:00Z","to":"2026-11-23T10:00:01Z","domain":"d","rule":"r","allowed":1,"later":[1]}`
	if r, err := ParseRecord([]byte(good + "\n")); err != nil || r.Allowed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, line := range []string{
		"", "x", "{}", `"text"`, good[:40], strings.Replace(good, "n/1/1/0", "n", 1), strings.Replace(good, "10:00:01", "09:00:00", 1),
		strings.Replace(good, `"rows":1`, `"rows":0`, 1), strings.Replace(good, `"allowed":1`, `"allowed":"x"`, 1),
		strings.Replace(good, `"allowed":1`, `"allowed":-1`, 1), strings.Replace(good, `"allowed":1`, `"charged":9223372036854775807`, 1),
	} {
		if r, err := ParseRecord([]byte(line)); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
	}
}

// TestSplit: parts of a batch are whole lines, within what they may have, and their ids are those of
// their first records.
func TestSplit(t *testing.T) {
	const most = 256 << 10
	line := strings.Repeat("x", 1000) + "\n"
	long := strings.Repeat("y", most+10) + "\n"
	lines := []byte(strings.Repeat(line, 300) + long + line)
	var ids []string
	var all []byte
	for b := range (Batch{ID: "n/i/1/7", Lines: lines}).Split(most) {
		ids, all = append(ids, b.ID), append(all, b.Lines...)
		if len(b.Lines) > most && bytes.Count(b.Lines, endOfLine) > 1 || !bytes.HasSuffix(b.Lines, endOfLine) {
			t.Errorf("%s has %d bytes", b.ID, len(b.Lines))
		}
	}
	if want := []string{"n/i/1/7", "n/i/1/268", "n/i/1/307", "n/i/1/308"}; !slices.Equal(ids, want) || !bytes.Equal(all, lines) {
		t.Errorf("parts %q, want %q", ids, want)
	}
}

// TestKnownKeyIsFree: to count a key again allocates nothing.
func TestKnownKeyIsFree(t *testing.T) {
	rule := testSet(t).Rules()[0]
	l := New(&broker{}, Options{Node: "n"})
	r, d := l.Open(ID{Domain: "d", Rule: "r"}), decision(rule, "ann", weir.Allowed, 1)
	count := func() {
		r.Decided(d, nil)
		r.Throttled("bob", &d.Decision)
	}
	count()
	l.table.take() // and it is known still
	if n := testing.AllocsPerRun(100, count); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var none *Rule
	none.Decided(d, nil)
	none.Throttled("bob", &d.Decision)
	none.Settled(&weir.Settlement{}, nil)
}

func BenchmarkDecided(b *testing.B) {
	rule := testSet(b).Rules()[0]
	l := New(&broker{}, Options{Node: "n"})
	r := l.Open(ID{Domain: "d", Rule: "r"})
	all := make([]*rules.Decision, 10_000)
	for i := range all {
		all[i] = decision(rule, fmt.Sprint("user-", i), weir.Allowed, 1)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			r.Decided(all[i*7919%len(all)], nil)
		}
	})
}

// BenchmarkInterval is one of 10,000 keys.
func BenchmarkInterval(b *testing.B) {
	rule := testSet(b).Rules()[0]
	l := New(&broker{}, Options{Node: "n"})
	r := l.Open(ID{Domain: "d", Rule: "r"})
	for b.Loop() {
		b.StopTimer()
		for i := range 10_000 {
			r.Decided(decision(rule, fmt.Sprint("user-", i), weir.Allowed, 1), nil)
		}
		b.StartTimer()
		l.end(time.Now(), true)
		l.queue = nil
	}
}
