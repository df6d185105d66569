package rules_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestLinesChangePlaces edits the unnamed limits of a descriptor: the count of a
// day is that of the day, in whichever line it stands.
func TestLinesChangePlaces(t *testing.T) {
	const day, minute = "1000/day fixed-window anchored", "100/min fixed-window anchored"
	of := func(limits string) string {
		return "domain: shop\ndescriptors:\n- key: user\n  limits: [" + limits + "]\n"
	}
	for name, c := range map[string]struct{ before, after, want string }{
		"swapped":           {day + ", " + minute, minute + ", " + day, "true 0 | 0 shop/user#1 allowed 0 40 | 0 shop/user#2 allowed 0 850"},
		"swapped back":      {minute + ", " + day, day + ", " + minute, "true 1 | 0 shop/user#1 allowed 0 850 | 0 shop/user#2 allowed 0 40"},
		"one more before":   {day, minute + ", " + day, "true 0 | 0 shop/user#1 allowed 0 100 | 0 shop/user#2 allowed 0 850"},
		"one more after":    {day, day + ", " + minute, "true 1 | 0 shop/user#1 allowed 0 850 | 0 shop/user#2 allowed 0 100"},
		"the first is gone": {minute + ", " + day, day, "true 0 | 0 shop/user allowed 0 850"},
		"other numbers":     {minute + ", " + day, "2000/day fixed-window anchored, 95/min fixed-window anchored", "true 1 | 0 shop/user#1 allowed 0 1850 | 0 shop/user#2 allowed 0 35"},
		"another period":    {day, "2000/week fixed-window anchored", "true 0 | 0 shop/user allowed 0 1850"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(t, of(c.before)))
				check(t, l, ask(costs(descriptor("user=ann"), 90)))
				time.Sleep(2 * time.Minute)
				check(t, l, ask(costs(descriptor("user=ann"), 60)))
				l.Replace(parse(t, of(c.after)))
				if got := brief(check(t, l, ask(costs(descriptor("user=ann"), 0)))); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// TestSamePeriod says that lines alone tell such limits apart, and advises names.
func TestSamePeriod(t *testing.T) {
	text := func(limits string) string { return "domain: a\ndescriptors:\n- key: k\n  limits: [" + limits + "]\n" }
	const advice = "rules.yaml:4:22: warning: another limit here has the same algorithm and period, so only their order tells their counts apart; " +
		"give them names, as in {name: NAME, limit: 20/s burst 30} (rule a/k#2)"
	for limits, want := range map[string]string{
		"10/s    , 20/s burst 30":                      advice,
		"{name: b, limit: 10/s}, 20/s burst 30":        "",
		"10/s, 600/min":                                "",
		"10/s, 20/s fixed-window":                      "",
		"10/day fixed-window, 10/24h fixed-window":     "",
		"{name: a, limit: 9/s}, {name: b, limit: 8/s}": "",
	} {
		var got strings.Builder
		for _, w := range parse(t, text(limits)).Warnings() {
			got.WriteString(w.String())
		}
		if got.String() != want {
			t.Errorf("%s\ngot  %s\nwant %s", limits, got.String(), want)
		}
	}
}
