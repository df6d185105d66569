package weir_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ limit, want string }{
		{"0/s", "nothing passes"},
		{"0 concurrent", "nothing passes"},
		{"5/s burst 10", "at most 10 at once after rest, then 5 a second"},
		{"100/min", "at most 100 at once after rest, then 100 a minute"},
		{"1/h token-bucket", "at most 1 at once after rest, then 1 an hour"},
		{"10/15min leaky-bucket", "at most 10 at once after rest, then 10 every 15 minutes"},
		{"3/250ms", "at most 3 at once after rest, then 3 every 250 milliseconds"},
		{"7/us", "at most 7 at once after rest, then 7 a microsecond"},
		{"10/day initial 2", "at most 10 at once after rest, then 10 a day; a key never seen starts with 2"},
		{"10/week debt 50", "at most 10 at once after rest, then 10 a week; while one is left a request may cost more, down to 50 below nothing"},
		{"10/s strict burst 3", "never more than 10 in any second; at most 3 at once after rest, then one every 125 milliseconds"},
		{"100/min strict burst 50", "never more than 100 in any minute; at most 50 at once after rest, then one every 1.176471 seconds"},
		{"10/s warm-up 166666us", "10 a second, evenly spaced; after rest up to 3 times slower, until it has warmed up for 166.666 milliseconds"},
		{"3/1500ms", "at most 3 at once after rest, then 3 every 1.5 seconds"},
		{"60/min leaky-queue queue 20", "60 a minute, in order and evenly spaced; at most 20 wait, more are denied"},
		{"60/min leaky-queue queue 0", "60 a minute, in order and evenly spaced; none may wait"},
		{"100/min fixed-window", "at most 100 in each minute by the clock"},
		{"100/24h fixed-window", "at most 100 in each day by the clock"},
		{"100/2min fixed-window anchored", "at most 100 in the 2 minutes that a key's first event begins"},
		{"100/day fixed-window anchored", "at most 100 in the day that a key's first event begins"},
		{"1000/day fixed-window zone Asia/Tokyo", "at most 1000 in each day of the calendar, in the zone Asia/Tokyo"},
		{"1000/month fixed-window", "at most 1000 in each month of the calendar, in the zone UTC"},
		{"5/min fixed-window count-denied", "at most 5 in each minute by the clock; what is denied counts too"},
		{"5/min sliding-log", "at most 5 in any minute"},
		{"5/10min sliding-log count-denied", "at most 5 in any 10 minutes; what is denied counts too"},
		{"100/min sliding-window", "at most 100 in the last minute by an estimate, from sub-windows of 1 minute"},
		{"100/min sliding-window 6", "at most 100 in the last minute by an estimate, from sub-windows of 10 seconds"},
		{"100/min sliding-window 6 relaxed", "at most 100 in the last minute by an estimate, from sub-windows of 10 seconds, tested before the event is added"},
		{"100/min sliding-window 6 conservative", "at most 100 in any minute, counted in whole sub-windows of 10 seconds"},
		{"100/s warm-up 10s", "100 a second, evenly spaced; after rest up to 3 times slower, until it has warmed up for 10 seconds"},
		{"100/s warm-up 2min cold 5", "100 a second, evenly spaced; after rest up to 5 times slower, until it has warmed up for 2 minutes"},
		{"20 concurrent", "at most 20 at a time; a permit that is not returned or renewed frees itself after 1 minute"},
		{"20 concurrent ttl 90s", "at most 20 at a time; a permit that is not returned or renewed frees itself after 90 seconds"},
	} {
		if got := weir.MustParseLimit(c.limit).Describe(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.limit, got, c.want)
		}
	}
}

func TestDescribeBound(t *testing.T) {
	const (
		pace    = "the burst passes at once, and the pace goes on beside it"
		edge    = "one window may pass its count at its end, and the next at its beginning"
		spread  = "events of the oldest sub-window count as if they were spread evenly, and may all have come at its end"
		forward = "where clocks go forward a day is shorter, and fits in whole between the end of one and the beginning of another"
	)
	for _, c := range []struct{ limit, most, why string }{
		{"0/s", "at most 0 in any second", ""},
		{"20 concurrent", "at most 20 at a time", ""},
		{"10/s burst 20", "at most 29 in any second", pace},
		{"10/s burst 1", "at most 10 in any second", ""},
		{"10/15min strict burst 3", "at most 10 in any 15 minutes", ""},
		{"10/week debt 50", "at most 69 in any week", "burst and debt pass at once, and the pace goes on beside them"},
		{"100/min fixed-window", "at most 200 in any minute", edge},
		{"100/24h fixed-window", "at most 200 in any day", edge},
		{"100/day fixed-window anchored", "at most 199 in any day", edge},
		{"100/day fixed-window", "at most 200 in any day", edge},
		{"100/day fixed-window zone Europe/Berlin", "at most 300 in any day", forward},
		{"100/day fixed-window zone Asia/Kolkata", "at most 200 in any day", edge},
		{"100/week fixed-window zone Europe/Berlin", "at most 300 in any week", strings.Replace(forward, "a day", "a week", 1)},
		{"100/month fixed-window", "at most 300 in any 30 days", "a February fits in whole between the end of a month and the beginning of another"},
		{"100/year fixed-window zone Europe/Berlin", "at most 200 in any 365 days", edge},
		{"100/min sliding-log", "at most 100 in any minute", ""},
		{"100/min sliding-window 4", "at most 199 in any minute", spread},
		{"100/min sliding-window relaxed", "at most 200 in any minute", spread},
		{"100/min sliding-window 4 conservative", "at most 100 in any minute", ""},
		{"60/min leaky-queue queue 20", "at most 60 in any minute", ""},
		{"100/s warm-up 10s", "at most 100 in any second", ""},
	} {
		if most, why := weir.MustParseLimit(c.limit).DescribeBound(); most != c.most || why != c.why {
			t.Errorf("%s\n got %s: %s\nwant %s: %s", c.limit, most, why, c.most, c.why)
		}
	}
}

// TestDescribeBoundSaysWhy: there are words for more than the count, and only then.
func TestDescribeBoundSaysWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		more := l.Algorithm() != weir.Concurrent && l.Bound(l.Spec().Period, 1) > l.Spec().Count
		if most, why := l.DescribeBound(); (why != "") != more {
			t.Fatalf("%s: %s, because %q", l, most, why)
		}
	})
}
