package pacing

import "time"

const (
	// ask is how often a call goes to hear of a server again that let none pass
	// when it was last heard, or that was told of as many calls as it let pass.
	ask = time.Second
	// freeShare of a limit, and more, is spent without slowing down: 1/4.
	freeShare = 4
)

// Quota is what a server says of one of its limits.
type Quota struct {
	Remaining int64         // what it still lets pass
	Limit     int64         // of how many; 0: not told
	Reset     time.Duration // until it lets more pass; 0: not told
	Window    time.Duration // the time for which Limit is; 0: not told
	Other     bool          // it counts something else than requests
}

// pace is the time from one call to the next by which a limit that is almost used
// up is not used up: what remains is spread until more comes, or calls go as fast
// as the limit allows for ever. It is 0 while there is plenty.
func (q *Quota) pace() time.Duration {
	switch {
	case q.Other || q.Remaining <= 0 || q.Remaining > q.Limit/freeShare:
		return 0
	case q.Reset > 0:
		return q.Reset / time.Duration(q.Remaining+1)
	default:
		return q.Window / time.Duration(q.Limit)
	}
}

// known is what was learned of a server, as pure functions of the time. The zero
// known knows nothing, and lets all pass.
type known struct {
	hold  time.Time // what the server asked for: nothing goes earlier
	tried bool      // a call has passed since hold, so that it can be told from before
	fresh time.Time // until when left and pace hold
	left  int64     // calls that may go until the server is heard again
	pace  time.Duration
	sent  time.Time // when the last call went
	calls uint64    // that went
	as    uint64    // the last call that had gone when left was learned
}

// next is when a call may go: not before must, and better not before should.
// flying is the calls that went and were not answered.
func (k *known) next(now time.Time, flying int) (must, should time.Time) {
	if now.Before(k.hold) {
		return k.hold, k.hold
	}
	fresh := now.Before(k.fresh)
	// One call alone finds out whether a hold is really over, or there is more.
	if again := k.sent.Add(ask); flying > 0 && now.Before(again) && (k.probing() || fresh && k.left <= 0) {
		return again, again
	}
	if fresh && k.pace > 0 {
		return now, k.sent.Add(k.pace)
	}
	return now, now
}

// probing is whether there was a hold after which nothing was heard.
func (k *known) probing() bool { return !k.hold.IsZero() && !k.tried }

// send counts a call that goes, and is its number.
func (k *known) send(now time.Time) uint64 {
	k.left--
	k.sent = now
	k.calls++
	return k.calls
}

// learn takes what the answer to a call says. flying is how many others were not
// answered: the server may not have counted them yet. Nothing is believed for
// longer than most.
func (k *known) learn(now time.Time, call uint64, quotas []Quota, flying int, most time.Duration) {
	if !now.Before(k.hold) {
		k.tried = true
	}
	told, left, before := false, k.left, k.fresh
	for i := range quotas {
		q := &quotas[i]
		if q.Other {
			continue
		}
		if !told {
			told, k.left, k.pace, k.fresh = true, q.Remaining, 0, now
		}
		k.left = min(k.left, q.Remaining)
		k.pace = max(k.pace, q.pace())
		k.fresh = later(k.fresh, now.Add(min(max(q.Reset, k.pace, ask), most)))
	}
	switch {
	case told && now.Before(before) && call <= k.as:
		k.left = min(left, k.left-int64(flying)) // the server may have decided it before what was learned last
	case told:
		k.left, k.as = k.left-int64(flying), k.calls
	case k.left <= 0:
		k.fresh = time.Time{} // more passes than the server has told
	}
}

// holdUntil keeps all calls back until then.
func (k *known) holdUntil(t time.Time) {
	if t.After(k.hold) {
		k.hold, k.tried = t, false
	}
}

// doubt is for a server that asks for longer than is believed. One call goes each
// second and hears whether that was meant for all; the first that passes lifts it.
func (k *known) doubt(now time.Time, most time.Duration) {
	k.left, k.pace, k.fresh = min(k.left, 0), max(k.pace, ask), later(k.fresh, now.Add(most))
}

// exhausted is how long the server lets nothing pass, by its quotas; 0 is not told.
func exhausted(quotas []Quota) time.Duration {
	var longest time.Duration
	for i := range quotas {
		if quotas[i].Remaining <= 0 {
			longest = max(longest, quotas[i].Reset)
		}
	}
	return longest
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
