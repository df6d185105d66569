package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/sim"
)

// number is n with commas for thousands.
func number(n int64) string { return plot.Grouped(n, ",") }

// tenths is m with one decimal, rounded; less only where that would hide it.
func tenths(m sim.Millionths) string {
	if m > 0 && m < 50_000 {
		return "less than 0.1"
	}
	t := (m + 50_000) / 100_000
	return number(int64(t/10)) + "." + strconv.FormatInt(int64(t%10), 10)
}

// percent is a/b in percent, with as many decimals as tell it from none.
func percent(a, b int64) string {
	switch {
	case a == 0 || b == 0:
		return "0 %"
	case a == b:
		return "100 %"
	}
	hundredths := (a*10_000 + b/2) / b
	switch {
	case hundredths == 0:
		return "less than 0.01 %"
	case hundredths > 9900:
		return fmt.Sprintf("%d.%d %%", hundredths/100, hundredths%100/10) // not 100 while some are missing
	case hundredths >= 1000:
		return fmt.Sprintf("%d %%", (hundredths+50)/100)
	}
	return fmt.Sprintf("%d.%02d %%", hundredths/100, hundredths%100)
}

// short is d in its largest whole unit.
func short(d time.Duration) string {
	n, unit := sim.Units(d)
	return fmt.Sprintf("%d %s", n, strings.Replace(unit, "us", "µs", 1))
}

// wait is d to three digits or so.
func wait(d time.Duration) string {
	unit := time.Microsecond
	for unit < time.Second && d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// list joins parts of a sentence, the first with a capital letter kept as it is.
func list(parts []string) string {
	switch n := len(parts); n {
	case 0:
		return ""
	case 1:
		return parts[0]
	default:
		return strings.Join(parts[:n-1], "; ") + "; and " + parts[n-1]
	}
}

// Verdict says in sentences how a trial went.
func (r Report) Verdict(t *sim.Trial) []string {
	f, count, period := t.Figures, t.Limit.Spec().Count, stretch(t.Limit.Spec().Period)
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if t.Naive != "" {
		say("A naive form: it %s.", t.Says)
	}
	say("Of %s requests it let %s pass and denied %s (%s).", number(f.Asked), number(f.Passed), number(f.Denied), percent(f.Denied, f.Asked))
	switch {
	case f.WronglyPassed == 0 && f.WronglyDenied == 0 && f.Held > 0:
		say("None passed beyond %s in the last %s, and none was denied while there was room.", number(count), period)
	case f.WronglyPassed == 0 && f.WronglyDenied == 0:
		say("An exact log of the last %s would have decided each of them alike.", period)
	case f.WronglyPassed == 0:
		say("None passed beyond %s in the last %s; %s denied although there was room (%s).", number(count), period, were(f.WronglyDenied), percent(f.WronglyDenied, f.Asked))
	case f.WronglyDenied == 0:
		say("%s let pass although the last %s then held more than %s (%s); none was denied while there was room.", were(f.WronglyPassed), period, number(count), percent(f.WronglyPassed, f.Asked))
	default:
		say("%s let pass although the last %s then held more than %s (%s), and %s denied although there was room (%s).",
			were(f.WronglyPassed), period, number(count), percent(f.WronglyPassed, f.Asked), were(f.WronglyDenied), percent(f.WronglyDenied, f.Asked))
	}
	if f.Held > 0 {
		say("%s passed only after a wait (%s); a log lets a request go when it comes, or denies it.", number(f.Held), percent(f.Held, f.Asked))
	}
	if pace(t.Limit) && f.WronglyPassed+f.WronglyDenied > 0 && t.Naive == "" {
		say("That is its design: it keeps a pace with room for bursts, and no count of the last %s.", period)
	}
	out = append(out, r.worst(t, period))
	if f.Believes && f.WorstError > 0 {
		say("Its count of the last %s was off by %s events on average, and by %s at worst.", period, tenths(f.MeanError), number(f.WorstError))
	} else if f.Believes {
		say("Its count of the last %s was never off.", period)
	}
	return out
}

// worst says how much went in one period, and how much could.
func (r Report) worst(t *sim.Trial, period string) string {
	f := t.Figures
	text := fmt.Sprintf("At most %s went in any %s", number(f.WorstPeriod), period)
	if f.Excess > 0 {
		text += fmt.Sprintf(", %s more than its count", number(f.Excess))
	}
	if a := r.attack(t); a != nil {
		text += fmt.Sprintf("; the worst traffic that a search found makes it %s", number(a.Found))
	}
	if f.Bound > 0 {
		text += fmt.Sprintf("; by proof it can't be more than %s", number(f.Bound))
		if _, why := t.Limit.DescribeBound(); why != "" {
			text += ": " + why
		}
	} else if t.Naive != "" {
		text += "; nothing is proved of it"
	}
	return text + "."
}

func were(n int64) string {
	if n == 1 {
		return "1 was"
	}
	return number(n) + " were"
}

// pace is whether a limit keeps a pace, and not a count of the last period.
func pace(l *weir.Limit) bool {
	switch l.Algorithm() {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.LeakyQueue, weir.WarmUp:
		return true
	case weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.Concurrent:
	}
	return false
}
