package sim

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// Algorithms are the ways in which the product can keep the count and period of l,
// those that can't aside: a log of more than weir.MaxLogCount, or sub-windows that
// don't divide the period.
func Algorithms(l *weir.Limit) ([]*weir.Limit, error) {
	if err := unfit(l); err != nil {
		return nil, err
	}
	count, period := l.Spec().Count, l.Spec().Period
	if count == 0 {
		return nil, inputf("a count of 0 denies all, by every algorithm; take at least 1")
	}
	sub := func(n int64, mode weir.Mode) weir.Spec {
		return weir.Spec{Algorithm: weir.SlidingWindow, SubWindows: n, Mode: mode}
	}
	// One of each algorithm, and those settings of it that pass or deny differently at the same
	// count and period. A setting that means the same as one before it has the same text, and is
	// left out.
	all := []weir.Spec{
		{},
		{Burst: (count + 9) / 10},
		{Burst: (count + 1) / 2, Mode: weir.Strict},
		{Algorithm: weir.LeakyQueue},
		{Algorithm: weir.FixedWindow},
		{Algorithm: weir.FixedWindow, Anchored: true},
		{Algorithm: weir.SlidingLog},
		sub(1, weir.Strict), sub(4, weir.Strict), sub(10, weir.Strict),
		sub(1, weir.Relaxed), sub(10, weir.Conservative),
		{Algorithm: weir.WarmUp, WarmUp: max(period/6, time.Microsecond).Truncate(time.Microsecond)},
	}
	return keeping(count, period, all), nil
}

// Sizes are the ways to keep the count and period of l that take the more bytes the more exact
// they are: sliding windows of ever more sub-windows, and last the log.
func Sizes(l *weir.Limit) []*weir.Limit {
	var all []weir.Spec
	for _, n := range []int64{1, 2, 3, 4, 6, 10, 15, 20, 30, weir.MaxSubWindows} {
		all = append(all, weir.Spec{Algorithm: weir.SlidingWindow, SubWindows: n})
	}
	return keeping(l.Spec().Count, l.Spec().Period, append(all, weir.Spec{Algorithm: weir.SlidingLog}))
}

// keeping are limits of this count and period, each once.
func keeping(count int64, period time.Duration, all []weir.Spec) []*weir.Limit {
	var limits []*weir.Limit
	for _, s := range all {
		s.Count, s.Period = count, period
		l, err := s.Limit()
		// An error is a bound of that algorithm, and no fault of the input.
		if err == nil && !slices.ContainsFunc(limits, func(had *weir.Limit) bool { return had.String() == l.String() }) {
			limits = append(limits, l)
		}
	}
	return limits
}
