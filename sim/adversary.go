package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of a search.
//
// maxGrabs and maxTimes keep a plan small: what breaks a limit worst is a few grabs at the right
// moments, and a plan of many can hardly be improved by changing one of them.
const (
	// MaxPlans is how many plans a search may try.
	MaxPlans = 10_000_000
	// MaxOneByOne is the largest count of a leaky-queue or warm-up that is
	// searched: there events go one by one.
	MaxOneByOne = 1000
	// maxGrabs is how many grabs a plan may have, and maxTimes how many moments each.
	maxGrabs, maxTimes = 6, 128
)

// Attack is the worst traffic that a search has found for a limit.
//
// It is no proof: another traffic may be worse. Found is a floor of the true worst, and Bound its
// ceiling.
type Attack struct {
	Limit *weir.Limit
	// Found is the most events of one key that went in one period, which begins at
	// From; Bound is what Limit.Bound proves that it can't pass.
	//
	// Found can never pass Bound, or the proof is wrong: the tests look for that. Where both are
	// the same, Bound is tight, and the search ends early.
	Found, Bound int64
	From         weir.Instant
	// Requests are the traffic, without what was denied: Cost events pass at once.
	Requests []Request
	// Tried is how many plans the search has tried.
	Tried int
}

// Search looks for the traffic of one key that makes l let most events go in one
// period, and so breaks its promise worst. It tries so many plans: at random, and
// then by small changes of the best, as long as they help. The same seed finds the
// same. It fails for limits that can't be searched, and when ctx ends.
//
// The limit is asked by its pure functions, with the state of one key in a variable. No store
// could make it worse: a store decides one take after the other, as here.
func Search(ctx context.Context, l *weir.Limit, seed uint64, plans int) (*Attack, error) {
	switch spec := l.Spec(); {
	case unfit(l) != nil:
		return nil, unfit(l)
	case spec.Count == 0:
		return nil, inputf("%s denies all: there is nothing to find", l)
	case oneByOne(l) && spec.Count > MaxOneByOne:
		return nil, inputf("%s: a %s of more than %d takes too long to search; its worst is the same for a smaller one", l, l.Algorithm(), MaxOneByOne)
	case plans < 1 || plans > MaxPlans:
		return nil, inputf("%d plans; there must be 1…%d", plans, MaxPlans)
	}
	s := newSearch(l, seed)
	for s.attack.Tried < plans && s.attack.Found < s.attack.Bound {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("search %s: %w", l, err)
		}
		s.climb(min(plans-s.attack.Tried, climbs))
	}
	return s.attack, nil
}

// climbs is how many plans are tried from one random beginning.
//
// Small steps end on a hill that need not be the highest: then a new beginning finds more. The
// best of all beginnings is in search.attack.
const climbs = 2000

// oneByOne is whether events of l go one by one, whatever is asked at once.
func oneByOne(l *weir.Limit) bool {
	return l.Algorithm() == weir.LeakyQueue || l.Algorithm() == weir.WarmUp
}

// search is a search at work.
type search struct {
	limit  *weir.Limit
	draw   *draw
	count  int64
	debt   int64
	period int64 // microseconds
	sub    int64 // of a sub-window, or the period
	attack *Attack

	// The best plan so far is kept as what it let pass, not as its grabs: attack.Requests is
	// traffic that Recorded replays. came and gone are used again by each plan.
	came, gone []Request // what passed of the plan that is tried, when it came and when it went
}

// grab takes all that passes, at most events, at so many moments: the first at
// microseconds after Start, the last span later, the others evenly in between.
//
// A plan of grabs is what an attacker can do: take all there is now, or a few, once or evenly over
// a while. at is from 0 to three periods, so that a plan can first fill what a limit remembers,
// and take its worst period after it.
type grab struct{ at, span, times, events int64 }

func newSearch(l *weir.Limit, seed uint64) *search {
	spec := l.Spec()
	period := spec.Period.Microseconds()
	return &search{
		limit: l, draw: newDraw(seed, 's'), count: spec.Count, debt: spec.Debt, period: period, sub: period / max(spec.SubWindows, 1),
		attack: &Attack{Limit: l, Bound: l.Bound(spec.Period, 1)},
	}
}

// climb begins with a plan at random and changes it so many times, keeping what is
// no worse: what lets as much go by fewer requests is better.
//
// A change that is as good is kept, too: by such steps a plan crosses flat stretches, on which
// many plans let pass the same.
func (s *search) climb(times int) {
	var plan []grab
	for range 1 + s.draw.below(3) {
		plan = append(plan, s.randomGrab())
	}
	most, by := s.try(plan)
	for range times - 1 {
		next := s.changed(plan)
		if found, requests := s.try(next); found > most || found == most && requests <= by {
			plan, most, by = next, found, requests
		}
	}
}

func (s *search) randomGrab() grab {
	a := grab{at: s.upTo(3 * s.period), times: 1, events: s.count}
	if s.oneIn(3) {
		a.times, a.span = 2+s.upTo(maxTimes-1), s.upTo(2*s.period)
	}
	return a
}

// upTo is one of 0…n−1, and oneIn is true once in n times.
func (s *search) upTo(n int64) int64 { return int64(s.draw.below(uint64(n))) }
func (s *search) oneIn(n int64) bool { return s.upTo(n) == 0 }

// changed is plan with one small change.
//
// Random distances alone would hardly ever meet the microsecond at which a window begins or an
// event leaves it. So three of the eight changes jump to such places: near the edges of windows
// and sub-windows, near a period after another grab, and to a span of a period less one
// microsecond.
func (s *search) changed(plan []grab) []grab {
	plan = slices.Clone(plan)
	i := s.upTo(int64(len(plan)))
	a := &plan[i]
	switch s.upTo(8) {
	case 0: // a little earlier or later
		a.at = s.within(a.at + s.step())
	case 1: // to an edge
		a.at = s.within(s.upTo(3*s.period/s.sub+1)*s.sub + s.upTo(5) - 2)
	case 2: // just within, or just beyond, a period of another
		a.at = s.within(plan[s.upTo(int64(len(plan)))].at + s.period - s.upTo(4))
	case 3:
		a.events = []int64{1, s.count, max(a.events/2, 1), min(a.events+1, s.count), max(a.events-1, 1)}[s.upTo(5)]
	case 4:
		if len(plan) < maxGrabs {
			plan = append(plan, s.randomGrab())
		}
	case 5:
		if len(plan) > 1 {
			plan = slices.Delete(plan, int(i), int(i)+1)
		}
	case 6:
		a.times = []int64{1, min(2*a.times, maxTimes), min(a.times+1, maxTimes), max(a.times/2, 1)}[s.upTo(4)]
	case 7:
		a.span = []int64{s.period - 1, min(max(a.span+s.step(), 0), 3*s.period)}[s.upTo(2)]
	}
	return plan
}

// step is a distance of any size up to a period, forwards or backwards.
//
// Its size is drawn by powers of two first, so that small steps are as likely as large ones: a
// plan far from the best needs large ones, and one near it small.
func (s *search) step() int64 {
	d := int64(1) << s.upTo(45)
	d = s.upTo(min(d, s.period)) + 1
	if s.oneIn(2) {
		return -d
	}
	return d
}

func (s *search) within(at int64) int64 { return min(max(at, 0), 3*s.period) }

// try carries a plan out on a fresh key, and says how many events went in the
// worst period, and how many requests passed in all.
//
// The key is fresh for each plan, and time begins at Start, where windows of every length begin.
// The order of grabs at one moment is what the sort makes of it: it may be any, but a plan always
// gives the same.
func (s *search) try(plan []grab) (found int64, requests int) {
	s.attack.Tried++
	var moments []Request
	for _, a := range plan {
		for i := range a.times {
			at := a.at + a.span*i/max(a.times-1, 1)
			moments = append(moments, Request{At: Start + weir.Instant(at), Cost: a.events})
		}
	}
	slices.SortFunc(moments, func(a, b Request) int { return int(a.At - b.At) })
	var state weir.State
	s.came, s.gone = s.came[:0], s.gone[:0]
	for _, m := range moments {
		state = s.take(state, m.At, m.Cost)
	}
	found, from := worstPeriod(s.gone, weir.Instant(s.period))
	// Where as many pass, fewer requests win: such an attack is easier to read, and shows what it
	// rests on.
	if a := s.attack; found > a.Found || found == a.Found && len(s.came) < len(a.Requests) {
		s.attack.Found, s.attack.From = found, from
		s.attack.Requests = slices.Clone(s.came)
	}
	return found, len(s.came)
}

// take takes all that passes now, at most events.
//
// It ends: each turn charges at least one event, or breaks the loop.
func (s *search) take(state weir.State, now weir.Instant, events int64) weir.State {
	for events > 0 {
		a := s.ask(state, now, events)
		asks, out := [...]weir.Ask{a}, [...]weir.Decision{s.limit.Decide(state, now, &a)}
		weir.Resolve(asks[:], out[:])
		state = s.limit.Commit(state, now, &a, &out[0])
		d := &out[0]
		if !d.Charged {
			break
		}
		s.came = append(s.came, Request{At: now, Cost: d.Cost})
		s.gone = append(s.gone, Request{At: now + weir.Instant(d.Hold/time.Microsecond), Cost: d.Cost})
		events -= d.Cost
	}
	return state
}

// ask is for as many events as pass, at most so many. Asked for together or one by
// one, the same pass; but in a queue those go together that ask together.
//
// A bucket with debt passes more than remains where one token is left, so it is asked for what it
// grants, at least one.
func (s *search) ask(state weir.State, now weir.Instant, events int64) weir.Ask {
	a := weir.Ask{Limit: s.limit}
	remaining, _ := s.limit.Standing(state, now)
	switch {
	case oneByOne(s.limit):
		a.Cost = min(remaining, 1)
	case s.debt > 0:
		a.Cost, a.AtLeast = min(events+s.debt, weir.MaxCount), 1
	default:
		a.Cost = min(remaining, events, weir.MaxCount)
	}
	return a
}

// worstPeriod is the most events in any period, and when that begins.
//
// A period with the most events can be moved until its last microsecond is that of an event, and
// loses none. So only periods that end at an event are looked at: first is the earliest that is
// still within the one that ends at r. gone is in the order of times, since a queue lets go in the
// order in which it was asked.
func worstPeriod(gone []Request, period weir.Instant) (most int64, from weir.Instant) {
	sum, first := int64(0), 0
	for _, r := range gone {
		sum += r.Cost
		for gone[first].At <= r.At-period {
			sum -= gone[first].Cost
			first++
		}
		if sum > most {
			most, from = sum, gone[first].At
		}
	}
	return most, from
}
