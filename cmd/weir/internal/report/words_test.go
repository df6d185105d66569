package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

func TestVerdict(t *testing.T) {
	trial := func(limit string, f sim.Figures) *sim.Trial {
		return &sim.Trial{Name: limit, Limit: weir.MustParseLimit(limit), Figures: f}
	}
	naive := trial("10/s", sim.Figures{Asked: 10, Passed: 10, WorstPeriod: 10})
	naive.Naive, naive.Says = "expiring", "forgets too early"
	for _, c := range []struct {
		trial *sim.Trial
		want  string
	}{
		{
			trial("100/min sliding-log", sim.Figures{Asked: 1000, Passed: 900, Denied: 100, WorstPeriod: 100, Bound: 100, Believes: true}),
			`Of 1,000 requests it let 900 pass and denied 100 (10 %).
An exact log of the last minute would have decided each of them alike.
At most 100 went in any minute; the worst traffic that a search found makes it 100; by proof it can't be more than 100.
Its count of the last minute was never off.`,
		},
		{
			trial("100/min fixed-window", sim.Figures{
				Asked: 1_000_000, Passed: 999_999, Denied: 1, WronglyPassed: 7, WorstPeriod: 180, Excess: 80, Bound: 200,
				Believes: true, MeanError: 40_250_000, WorstError: 99,
			}),
			`Of 1,000,000 requests it let 999,999 pass and denied 1 (less than 0.01 %).
7 were let pass although the last minute then held more than 100 (less than 0.01 %); none was denied while there was room.
At most 180 went in any minute, 80 more than its count; by proof it can't be more than 200: one window may pass its count at its end, and the next at its beginning.
Its count of the last minute was off by 40.3 events on average, and by 99 at worst.`,
		},
		{
			trial("10/15min burst 3", sim.Figures{Asked: 200, Passed: 20, Denied: 180, WronglyPassed: 1, WronglyDenied: 40, WorstPeriod: 11, Excess: 1, Bound: 12}),
			`Of 200 requests it let 20 pass and denied 180 (90 %).
1 was let pass although the last 15 minutes then held more than 10 (0.50 %), and 40 were denied although there was room (20 %).
That is its design: it keeps a pace with room for bursts, and no count of the last 15 minutes.
At most 11 went in any 15 minutes, 1 more than its count; by proof it can't be more than 12: the burst passes at once, and the pace goes on beside it.`,
		},
		{
			trial("10/s sliding-window 2 conservative", sim.Figures{Asked: 10, Passed: 8, Denied: 2, WronglyDenied: 2, WorstPeriod: 8, Bound: 10, Believes: true, MeanError: 1, WorstError: 1}),
			`Of 10 requests it let 8 pass and denied 2 (20 %).
None passed beyond 10 in the last second; 2 were denied although there was room (20 %).
At most 8 went in any second; by proof it can't be more than 10.
Its count of the last second was off by less than 0.1 events on average, and by 1 at worst.`,
		},
		{
			naive,
			`A naive form: it forgets too early.
Of 10 requests it let 10 pass and denied 0 (0 %).
An exact log of the last second would have decided each of them alike.
At most 10 went in any second; nothing is proved of it.`,
		},
	} {
		r := Report{Result: &sim.Result{Trials: []*sim.Trial{c.trial}}, Attacks: []*sim.Attack{{Limit: weir.MustParseLimit("100/min sliding-log"), Found: 100}}}
		if d := cmp.Diff(c.want, strings.Join(r.Verdict(c.trial), "\n")); d != "" {
			t.Errorf("%s: -want +got\n%s", c.trial.Name, d)
		}
	}
}

func TestNames(t *testing.T) {
	names := func(texts ...string) []string {
		r := simulated(t, "poisson", sim.Options{Duration: time.Second}, texts...)
		var out []string
		for i := range r.Result.Trials {
			out = append(out, r.name(r.Result.Trials[i]))
		}
		return out
	}
	for _, c := range []struct{ limits, want []string }{
		{[]string{"100/min"}, []string{"100/min"}},
		{
			[]string{"100/min", "100/min burst 10", "100/min token-bucket", "100/min sliding-window 4 relaxed", "expiring-bucket:100/min"},
			[]string{"gcra", "gcra burst 10", "token-bucket", "sliding-window 4 relaxed", "expiring-bucket 100/min"},
		},
		{[]string{"100/min", "10/s"}, []string{"100/min", "10/s"}},
	} {
		if got := names(c.limits...); !slices.Equal(got, c.want) {
			t.Errorf("%q are called %q, want %q", c.limits, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{number(0), "0"},
		{number(999), "999"},
		{number(-1234567), "-1,234,567"},
		{tenths(0), "0.0"},
		{tenths(49_999), "less than 0.1"},
		{tenths(1_450_000), "1.5"},
		{tenths(1234_000_000), "1,234.0"},
		{sim.Millionths(1_000_000).Fixed(3), "1.000"},
		{sim.Millionths(177_499).Fixed(3), "0.177"},
		{percent(0, 7), "0 %"},
		{percent(7, 7), "100 %"},
		{percent(1, 100_000), "less than 0.01 %"},
		{percent(1, 1000), "0.10 %"},
		{percent(999, 1000), "99.9 %"},
		{percent(1, 8), "13 %"},
		{stretch(time.Minute), "minute"},
		{stretch(90 * time.Second), "90 seconds"},
		{stretch(36 * time.Hour), "36 hours"},
		{stretch(1500 * time.Microsecond), "1500 microseconds"},
		{stretch(time.Microsecond), "microsecond"},
		{spell(time.Hour), "1 hour"},
		{spell(59*time.Minute + 58*time.Second + time.Microsecond), "about 3598 seconds"},
		{spell(1500 * time.Millisecond), "1500 milliseconds"},
		{short(10 * time.Second), "10 s"},
		{short(1500 * time.Microsecond), "1500 µs"},
		{wait(2_726_964 * time.Microsecond), "2.73s"},
		{wait(0), "0s"},
		{list([]string{"a", "b", "c"}), "a; b; and c"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
