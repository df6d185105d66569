package pacing

import "time"

const (
	// ask is how often a call goes to hear of a server again that let none pass
	// when it was last heard, or that was told of as many calls as it let pass.
	ask = time.Second
	// maxRoom is how many calls on their way at once show, after a hold, that it is
	// over: then any number goes.
	maxRoom = 64
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
	room  int       // calls that may be on their way after hold, while no quota is told; 0: any number
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
	alone := k.probing() || fresh && k.left <= 0
	if again := k.sent.Add(ask); now.Before(again) && (flying > 0 && alone || k.crowded(flying)) {
		return again, again
	}
	if fresh && k.pace > 0 {
		return now, k.sent.Add(k.pace)
	}
	return now, now
}

// probing is whether there was a hold after which nothing was heard.
func (k *known) probing() bool { return !k.hold.IsZero() && !k.tried }

// crowded is whether, after a hold, as many calls are on their way as may be.
func (k *known) crowded(flying int) bool { return k.room > 0 && flying >= k.room }

// send counts a call that goes, and is its number. flying is how many others were
// not answered.
func (k *known) send(now time.Time, flying int) uint64 {
	if k.crowded(flying) { // answers take long, which says nothing
		k.widen(2 * k.room)
	}
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
		k.left, k.as, k.room = k.left-int64(flying), k.calls, 0
	case k.left <= 0:
		k.fresh = time.Time{} // more passes than the server has told
	}
}

// holdUntil keeps all calls back until then.
func (k *known) holdUntil(t time.Time) {
	if t.After(k.hold) {
		k.hold, k.tried, k.room = t, false, 1
	}
}

// passed is for a call that the server let pass. After a hold each makes room for
// one more on its way, so that twice as many go each time until the server denies
// again: those that waited would else go all at once.
func (k *known) passed(now time.Time) {
	if k.room > 0 && !now.Before(k.hold) {
		k.widen(k.room + 1)
	}
}

func (k *known) widen(room int) {
	if k.room = room; room > maxRoom {
		k.room = 0
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
