package sim

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
)

// TestWorkloadText: a workload prints every word, and reads back as the same.
func TestWorkloadText(t *testing.T) {
	l := weir.MustParseLimit("100/min")
	for text, want := range map[string]string{
		"poisson": "poisson rate=100/min clients=1 skew=0 cost=1 tries=1 retry=told",
		"poisson rate=90/90s clients=20 skew=1.1 cost=2-5 tries=3 retry=1500ms": "poisson rate=90/90s clients=20 skew=1.1 cost=2-5 tries=3 retry=1500ms",
		"poisson   rate=1/24h":              "poisson rate=1/day clients=1 skew=0 cost=1 tries=1 retry=told",
		"edge size=7 every=1m30s gap=1s":    "edge size=7 every=90s gap=1s clients=1 skew=0 cost=1 tries=1 retry=told",
		"daily":                             "daily rate=200/min low=0/min every=1day clients=1 skew=0 cost=1 tries=1 retry=told",
		"greedy clients=3 rate=5/s low=0/s": "greedy rate=5/s low=0/s clients=3 cost=1 tries=1 retry=told",
		"square rate=1000000/s skew=0.05":   "square rate=1000000/s low=0/min every=4min clients=1 skew=0.05 cost=1 tries=1 retry=told",
	} {
		w, err := ParseWorkload(text, l)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if w.String() != want {
			t.Errorf("%s: %s, want %s", text, w, want)
		}
		again, err := ParseWorkload(w.String(), weir.MustParseLimit("5/h"))
		if err != nil || again.String() != want {
			t.Errorf("%s reads back as %v, %v", w, again, err)
		}
	}
}

func TestWorkloadRefuses(t *testing.T) {
	l := weir.MustParseLimit("100/min")
	for text, want := range map[string]string{
		"":                                     "the workload is empty",
		"poison":                               "there is no such kind; take one of poisson, bursts",
		"poisson low=5/s":                      `unknown word "low=5/s"; it has rate, clients`,
		"poisson rate":                         `"" has no period`,
		"poisson rate=5":                       "such as 100/min",
		"poisson rate=-5/s":                    "whole number from 0",
		"poisson rate=5/fortnight":             "is no time",
		"poisson rate=5/":                      "is no time",
		"poisson rate=1000001/s":               "faster than 1000000 a second",
		"poisson rate=1073741824/ms":           "faster than 1000000 a second",
		"poisson rate=2/us":                    "faster than 1000000 a second",
		"poisson clients=0":                    "from 1 to 1000000",
		"poisson clients=1000001":              "from 1 to 1000000",
		"poisson clients=99999999999999999999": "from 1 to 1000000",
		"poisson skew=1.234":                   "at most two decimals",
		"poisson skew=-1":                      "from 0 to 10",
		"poisson skew=11":                      "from 0 to 10",
		"poisson cost=3-2":                     "from 3 to",
		"poisson cost=2000000000":              "from 0 to 1073741824",
		"poisson rate=5/s rate=6/s":            "stands there twice",
		"edge every=0s":                        "1us…407day",
		"edge every=1ns":                       "1us…407day",
		"edge every=408day":                    "407day",
		"edge size=1000001":                    "from 1 to 1000000",
		"herd clients=2000 size=501":           "more than 1000000 at once",
		"poisson tries=1001":                   "from 1 to 1000",
		"poisson retry=never":                  "is no time",
	} {
		_, err := ParseWorkload(text, l)
		if bad, ok := errors.AsType[*InputError](err); !ok || !strings.Contains(bad.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseWorkload("poisson", weir.MustParseLimit("5 concurrent")); err == nil {
		t.Error("a workload for permits")
	}
	for name, requests := range map[string][]Request{
		"none": nil, "earlier": {{At: 5}, {At: 4}}, "client": {{Client: MaxClients}}, "negative client": {{Client: -1}},
		"cost": {{Cost: weir.MaxCount + 1}}, "negative cost": {{Cost: -1}}, "years": {{}, {At: 1 << 50}}, "before 1970": {{At: -1}},
	} {
		if _, err := Recorded(name, requests); err == nil {
			t.Errorf("recorded: %s: no error", name)
		}
	}
}

// all is the requests of a workload.
func all(t *testing.T, text, limit string, seed uint64, d time.Duration) []Request {
	t.Helper()
	w, err := ParseWorkload(text, weir.MustParseLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	var requests []Request
	next := w.requests(seed, d)
	for r, ok := next(); ok; r, ok = next() {
		if n := len(requests); n > 0 && r.At < requests[n-1].At {
			t.Fatalf("%s: request %d is earlier than the one before", text, n)
		}
		if r.Client == nobody {
			continue
		}
		if r.At < Start || r.At >= Start+weir.Instant(d.Microseconds()) || r.Client < 0 || r.Client >= int32(w.Clients()) {
			t.Fatalf("%s: %+v", text, r)
		}
		requests = append(requests, r)
	}
	return requests
}

// about fails when n is more than five standard deviations off what chance gives.
func about(t *testing.T, what string, n int, want float64) {
	t.Helper()
	if math.Abs(float64(n)-want) > 5*math.Sqrt(want)+1 {
		t.Errorf("%s: %d, want about %.0f", what, n, want)
	}
}

// between counts requests of a stretch of time.
func count(requests []Request, from, to time.Duration) (n int) {
	for _, r := range requests {
		if at := (r.At - Start).Duration(); at >= from && at < to {
			n++
		}
	}
	return n
}

// TestPoisson: the number of requests, and how many gaps are longer than the mean,
// twice the mean and so on, are those of a Poisson process.
func TestPoisson(t *testing.T) {
	requests := all(t, "poisson rate=100/s", "5/s", 3, 1000*time.Second)
	about(t, "requests", len(requests), 100_000)
	for k := range 6 {
		n := 0
		for i := range requests[1:] {
			if requests[i+1].At-requests[i].At > weir.Instant(k)*10_000 {
				n++
			}
		}
		about(t, "gaps", n, float64(len(requests)-1)*math.Exp(-float64(k)))
	}
	for _, rate := range []string{"1000000/s", "1/day", "0/s"} {
		w, err := ParseWorkload("poisson rate="+rate, weir.MustParseLimit("5/s"))
		if err != nil {
			t.Fatal(err)
		}
		d := time.Second
		if rate == "1/day" {
			d = MaxDuration
		}
		n := 0
		for next := w.requests(1, d); ; n++ {
			if _, ok := next(); !ok {
				break
			}
		}
		about(t, rate, n, map[string]float64{"1000000/s": 1e6, "1/day": 407, "0/s": 0}[rate])
	}
}

// TestShapes: each kind sends as much as it says, when it says.
func TestShapes(t *testing.T) {
	const min = time.Minute
	square := all(t, "square rate=600/min low=60/min every=2min", "1/s", 1, 20*min)
	about(t, "square, first half of a stretch", count(square, 4*min, 5*min), 600)
	about(t, "square, second half of a stretch", count(square, 5*min, 6*min), 60)
	about(t, "square", len(square), 6600)
	square = all(t, "square rate=60/min low=600/min every=2min", "1/s", 1, 20*min)
	about(t, "square upside down", count(square, 5*min, 6*min), 600)
	ramp := all(t, "ramp low=0/min rate=1200/min", "1/s", 1, 100*min)
	about(t, "ramp", len(ramp), 60_000)
	about(t, "ramp, first tenth", count(ramp, 0, 10*min), 600)
	about(t, "ramp, last tenth", count(ramp, 90*min, 100*min), 11_400)
	daily := all(t, "daily rate=100/min low=0/min", "1/s", 1, 24*time.Hour)
	about(t, "daily", len(daily), 72_000)
	about(t, "daily at noon", count(daily, 715*min, 725*min), 1000)
	about(t, "daily at midnight", count(daily, 0, 60*min), 100.0*60*2/(12*12)/3)
	greedy := all(t, "greedy rate=300/min low=30/min clients=4", "1/s", 1, 100*min)
	first := 0
	for _, r := range greedy {
		if r.Client == 0 {
			first++
		}
	}
	about(t, "greedy, the first client", first, 30_000)
	about(t, "greedy, the others", len(greedy)-first, 3000)
	bursts := all(t, "bursts size=7 every=1min", "1/s", 1, 10*min)
	for i := 0; i < len(bursts); i += 7 {
		if bursts[i].At != bursts[i+6].At || (bursts[i].At-Start).Duration()/min != time.Duration(i/7) {
			t.Errorf("burst %d is from %v to %v", i/7, bursts[i].At.Time(), bursts[i+6].At.Time())
		}
	}
	edge := all(t, "edge size=2 every=1min gap=1s", "1/s", 1, 4*min)
	want := []time.Duration{59 * time.Second, 59 * time.Second, min, min, 179 * time.Second, 179 * time.Second, 3 * min, 3 * min}
	for i, r := range edge {
		if (r.At - Start).Duration() != want[i] {
			t.Errorf("edge: request %d at %v", i, (r.At - Start).Duration())
		}
	}
	herd := all(t, "herd size=3 clients=5 every=1min gap=1s", "1/s", 1, 3*min)
	if len(herd) != 45 || count(herd, min, min+time.Second) != 15 {
		t.Errorf("herd: %d requests, %d in the second second minute", len(herd), count(herd, min, min+time.Second))
	}
}

// TestRanks: the weights are those of Zipf's law, to nine digits, and are drawn so.
func TestRanks(t *testing.T) {
	for _, skew := range []int64{5, 50, 80, 100, 117, 250, 1000} {
		const n = 100_000
		r := newRanks(n, skew)
		last := uint64(0)
		for i, sum := range r.sum {
			exact := math.Pow(float64(i+1), -float64(skew)/100) * (1 << weightBits)
			if got := float64(sum - last); math.Abs(got-exact) > exact*1e-8+1.5 {
				t.Fatalf("skew %d: rank %d weighs %.0f, want %.0f", skew, i+1, got, exact)
			}
			last = sum
		}
		d := newDraw(1, 1)
		var drawn [3]int
		for range n {
			if at := r.pick(d); at < len(drawn) {
				drawn[at]++
			}
		}
		for i, got := range drawn {
			about(t, "drawn", got, n*math.Pow(float64(i+1), -float64(skew)/100)*(1<<weightBits)/float64(last))
		}
	}
	d := newDraw(1, 1)
	even := newRanks(10, 0)
	var drawn [10]int
	for range 100_000 {
		drawn[even.pick(d)]++
	}
	for _, got := range drawn {
		about(t, "evenly", got, 10_000)
	}
}

// TestRetrying: who is denied asks again when it was told, and then passes if it is
// alone; or after times that double, so often and no more.
func TestRetrying(t *testing.T) {
	run := func(limit, workload string) *Trial {
		t.Helper()
		l := weir.MustParseLimit(limit)
		w, err := ParseWorkload(workload, l)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Of(l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, []Contender{c}, Options{Seed: 1, Duration: 10 * time.Minute, Step: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return r.Trials[0]
	}
	once := run("1/min", "edge size=3 every=5min gap=1s")
	told := run("1/min", "edge size=3 every=5min gap=1s tries=2")
	if once.Figures.Asked != 6 || once.Figures.Passed != 1 {
		t.Errorf("asked once: %+v", once.Figures)
	}
	if told.Figures.Asked != 11 || told.Figures.Passed != 2 || told.Series.Passed[299] != 1 || told.Series.Passed[359] != 1 {
		t.Errorf("asked again when told: %+v", told.Figures)
	}
	late := run("0/min", "edge size=1 every=5min gap=1s tries=4 retry=10s")
	want := make([]int64, 600)
	for _, at := range []int{299, 309, 329, 369, 300, 310, 330, 370} {
		want[at]++
	}
	if d := cmp.Diff(want, late.Series.Asked); d != "" {
		t.Errorf("asked again after 10 s, 20 s and 40 s:\n%s", d)
	}
}

// FuzzParseWorkload: any text is refused or read, and what is read prints as text
// that reads as the same, and begins.
func FuzzParseWorkload(f *testing.F) {
	for _, text := range append(kindNames(), "poisson rate=5/90s clients=3 skew=1.1 cost=0-3 tries=2 retry=1m30s", "edge every=1us gap=407day size=1", "herd clients=9 size=1 gap=1us") {
		f.Add(text)
	}
	l := weir.MustParseLimit("100/min")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWorkload(text, l)
		if err != nil {
			return
		}
		again, err := ParseWorkload(w.String(), l)
		if err != nil || again.String() != w.String() {
			t.Fatalf("%q prints as %q, which reads as %v, %v", text, w, again, err)
		}
		if w.settings.clients > 1000 || w.settings.size > 1000 {
			return // a fuzz test is many runs
		}
		next, last := w.requests(1, time.Minute), Start
		for range 10 {
			r, ok := next()
			if ok && (r.At < last || r.At >= Start+60_000_000) {
				t.Fatalf("%s: a request at %v after one at %v", w, r.At.Time(), last.Time())
			}
			if last = max(last, r.At); !ok {
				break
			}
		}
	})
}
