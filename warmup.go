package weir

import (
	"math"
	"math/bits"
	"time"
)

// warmUp paces events evenly, but slower after rest: Guava's SmoothWarmingUp,
// in integers. Like there, a caller waits only for what went before it, and
// pays for itself by making the next one wait.
//
//	word 0, 1   when the next event may go: microseconds since 1970, fraction
//	word 2, 3   idle time that has built up by then, microseconds, fraction
//
// Guava's stored permits are idle time divided by the idle time that one event
// uses up. n events then cost n intervals and a surcharge, which is a function
// of the idle time only: the difference between before and after. So rounding
// it to whole microseconds can't add up: of a run of takes, all terms but the first
// and the last cancel out.
type warmUp struct {
	pace interval // from event to event when warm
	// idle is the idle time that one event uses up: pace × 2 (cold + 1) / (cold + 5). Its
	// fractions are in another denominator than pace's, so the two are never mixed.
	idle interval
	warm int64 // idle time of a cold limit: the warm-up, 1…MaxWarmUp in microseconds
	cold int64 // how many times slower a cold start is, 2…MaxCold
	// max is the largest cost: what the even pace lets pass in MaxDrain less the warm-up,
	// so that no charge moves a state by more than MaxDrain. 0 for a count of 0.
	max int64
}

func newWarmUp(s *Spec) algorithm {
	w := &warmUp{pace: s.pace(), warm: micros(s.WarmUp), cold: s.Cold}
	if s.Count == 0 {
		return w
	}
	num, den := w.pace.num*uint64(2*(w.cold+1)), w.pace.den*uint64(w.cold+5)
	g := gcd(num, den)
	w.idle = interval{num / g, den / g}
	w.max = min(w.pace.eventsIn(int64(MaxDrain/time.Microsecond)-w.warm), MaxCount)
	return w
}

func (w *warmUp) words() int  { return 4 }
func (w *warmUp) most() int64 { return w.max }

// at is when the next event may go, not before now, and the idle time by then.
func (w *warmUp) at(s State, now Instant) (next, idle moment) {
	if len(s) < 4 || s[0]|s[1] == 0 {
		return moment{us: int64(now)}, moment{us: w.warm}
	}
	next, idle = moment{int64(s[0]), s[1]}, moment{int64(s[2]), s[3]}
	if rest := int64(now) - next.ceil(); rest >= 0 {
		next = moment{us: int64(now)}
		if idle.us += rest; idle.us >= w.warm {
			idle = moment{us: w.warm}
		}
	}
	return next, idle
}

// surcharge is what using up the idle time costs beyond the even pace, rounded
// up to the microsecond:
//
//	(cold − 1) × (idle × (cold + 5) − warm × (cold + 1))² / (16 × warm × (cold + 1))
//
// above the threshold, where the square's base is positive, and nothing below. It is the
// area between Guava's sloping line and the even pace, from the threshold to idle. idle is
// at most warm, below 2^37, and cold at most 100: both products in base stay below 2^44,
// and the square has 128 bits.
func (w *warmUp) surcharge(idle moment) int64 {
	base := idle.ceil()*(w.cold+5) - w.warm*(w.cold+1)
	if base <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(base), uint64(base*(w.cold-1)))
	q, r := bits.Div64(hi, lo, uint64(16*w.warm*(w.cold+1)))
	if r > 0 {
		q++
	}
	return int64(q)
}

// spend is the idle time left after cost events; none when they use up more than there is.
func (w *warmUp) spend(idle moment, cost int64) moment {
	spent := w.idle.span(cost)
	if !spent.less(idle) {
		return moment{}
	}
	return w.idle.sub(idle, spent)
}

func (w *warmUp) room(s State, now Instant, patience int64) int64 {
	if w.hold(s, now, 1) > patience {
		return 0
	}
	return w.max
}

func (w *warmUp) wait(s State, now Instant, _, patience int64) int64 {
	return max(w.hold(s, now, 1)-patience, 0)
}

func (w *warmUp) hold(s State, now Instant, cost int64) int64 {
	if cost == 0 {
		return 0
	}
	next, _ := w.at(s, now)
	return next.ceil() - int64(now)
}

func (w *warmUp) charge(s State, now Instant, cost int64, _ bool, _ uint64) (State, mark) {
	if w.max == 0 {
		return s, mark{}
	}
	next, idle := w.at(s, now)
	cost = min(cost, w.max)
	left, before := w.spend(idle, cost), next.us
	next = w.pace.add(next, w.pace.span(cost))
	next.us += w.surcharge(idle) - w.surcharge(left)
	// Forced charges must not pile up beyond what a state can hold. A microsecond
	// tells the state from the one that a receipt remembers.
	next.us = min(next.us, max(int64(now)+int64(MaxDrain/time.Microsecond), before+1))
	s = s.words(4)
	s[0], s[1], s[2], s[3] = uint64(next.us), next.f, uint64(left.us), left.f
	return s, mark{s[0], s[1]}
}

func (w *warmUp) owe(s State, now Instant, cost int64) (State, int64) {
	s, _ = w.charge(s, now, cost, true, 0)
	return s, min(cost, w.max)
}

func (w *warmUp) refuse(s State, _ Instant, _ int64) State { return s }

func (w *warmUp) standing(s State, now Instant) (remaining, reset int64) {
	if w.max == 0 {
		return 0, 0
	}
	next, idle := w.at(s, now)
	wait := next.ceil() - int64(now)
	if wait == 0 {
		remaining = 1
	}
	return remaining, wait + w.warm - idle.us
}

func (w *warmUp) newest(s State, _ Instant) mark {
	if len(s) < 2 {
		return mark{}
	}
	return mark{s[0], s[1]}
}

// giveBack lets the next event go earlier if nothing was taken since. It gives back the
// even pace of the events, not the surcharge nor the idle time: what was warm stays warm.
func (w *warmUp) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	if len(s) < 4 || s[0] != r.Mark[0] || s[1] != r.Mark[1] || events <= 0 {
		return s, 0
	}
	at := moment{int64(s[0]), s[1]}
	next := w.pace.sub(at, w.pace.span(min(events, w.max)))
	if next.us < int64(now) {
		next = moment{us: min(int64(now), int64(s[0]))}
	}
	s[0], s[1] = uint64(next.us), next.f
	return s, w.pace.events(w.pace.sub(at, next))
}

func (w *warmUp) used(s State, now Instant) int64 {
	if w.max == 0 {
		return 0
	}
	next, _ := w.at(s, now)
	return w.pace.eventsUp(moment{next.us - int64(now), next.f})
}

func (w *warmUp) alike(algorithm) bool { return false }

// hear never waits for longer than one event takes, or the other limit to recover.
func (w *warmUp) hear(s State, now Instant, p passed) State {
	if w.max == 0 {
		return s
	}
	next, _ := w.at(s, now)
	latest := max(next.ceil(), int64(now)+max(w.pace.span(1).ceil(), p.reset))
	s, _ = w.charge(s, now, min(p.events, w.max), true, 0)
	if latest < int64(s[0]) {
		s[0], s[1] = uint64(latest), 0
	}
	return s
}

// adopt keeps the time of the next event, and how warm another warm-up was.
// Any other limit is followed by a cold start, which passes one event at once:
// so at most one is kept as used.
func (w *warmUp) adopt(s State, from algorithm, now Instant) State {
	if w.max == 0 {
		return nil
	}
	old, ok := from.(*warmUp)
	if !ok || old.max == 0 {
		next, _ := w.charge(nil, now, min(from.used(s, now), 1), true, 0)
		return next
	}
	next, idle := old.at(s, now)
	hi, lo := bits.Mul64(uint64(idle.us), uint64(w.warm))
	scaled, _ := bits.Div64(hi, lo, uint64(old.warm))
	return State{uint64(next.ceil()), 0, scaled, 0}
}

// bound: one event an interval, but a request's own events together.
func (w *warmUp) bound(width, largest int64) int64 {
	return paced(w.pace, width, largest)
}

// paced is the most that goes in width when each request of at most largest
// events keeps the next one off for an interval an event. Instants are whole
// microseconds, so two may look nearer to each other than they are.
func paced(pace interval, width, largest int64) int64 {
	whole := pace.eventsIn(width)
	if whole < math.MaxInt64 && pace.span(whole).less(moment{us: width}) {
		return plus(whole, largest)
	}
	return plus(whole-1, largest)
}
