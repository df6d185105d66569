package weir

import "time"

// Verdict is what the limits of one request say together. A caller needs no more to answer
// the request; the decisions explain it.
type Verdict struct {
	// Allowed tells that the request may pass: every limit that is heeded allows.
	Allowed bool
	// Never tells that no later try passes, either: the cost is more than one of the
	// limits can ever pass.
	Never bool
	// Away tells that closed fallbacks alone deny: the store could not be asked, and
	// no limit has decided against the request.
	Away bool
	// Retry is how long until a denied request is worth another try: the longest
	// RetryAfter of the limits that deny it. 0 with Never, and when no time is known
	// because a permit must come back first.
	Retry time.Duration
	// Hold is how long the caller has to wait before it goes: the longest Hold.
	Hold time.Duration
	// Decisive is the index of the decision that explains the verdict: the first
	// impossible one; else the denied one with the largest RetryAfter; else the one
	// with the least Remaining; ties go to the first. It is −1 when none is heeded.
	Decisive int
	// QuotasPass tells that a quota limit allows, or that there is none.
	QuotasPass bool
}

// Judge says what becomes of a request after a store took its asks and out has the
// decisions. An ask of MaxCost it first makes impossible, whatever a fallback said.
func Judge(asks []Ask, out []Decision) (v Verdict) {
	for i := range asks {
		if d := &out[i]; asks[i].Cost == MaxCost && !asks[i].After {
			d.Outcome, d.RetryAfter, d.Hold = Impossible, 0, 0
		}
	}
	v.judge(asks, out)
	return v
}

// judge fills in a zero Verdict. Judge has no other, for copies of it cost some nanoseconds.
func (v *Verdict) judge(asks []Ask, out []Decision) {
	v.Allowed, v.Away, v.Decisive, v.QuotasPass = true, true, -1, QuotaPasses(asks, out)
	for i := range out {
		d := &out[i]
		if !v.Heeds(&asks[i], d) {
			continue
		}
		if v.Decisive < 0 || d.Outweighs(&out[v.Decisive]) {
			v.Decisive = i
		}
		v.weigh(d)
	}
	v.Away = v.Away && !v.Allowed
	if v.Never {
		v.Retry = 0
	}
}

func (v *Verdict) weigh(d *Decision) {
	switch d.Outcome {
	case Allowed:
		v.Hold = max(v.Hold, d.Hold)
		return
	case Impossible:
		v.Never = true
	case Denied:
		v.Retry = max(v.Retry, d.RetryAfter)
	}
	v.Allowed = false
	v.Away = v.Away && d.Degraded == FallbackClosed
}

// Heeds is whether d, which answers a, has a say in the verdict. Limits in shadow have
// none, nor has a quota limit that denies beside one that allows.
func (v *Verdict) Heeds(a *Ask, d *Decision) bool {
	return !a.Shadow && (!a.Quota || !v.QuotasPass || d.Outcome == Allowed)
}

// AskedCost is the Cost of an Ask for a request that is worth cost events: more than a
// request may cost, MaxCount, becomes MaxCost, which no limit ever passes.
func AskedCost(cost int64) int64 {
	if cost > MaxCount {
		return MaxCost
	}
	return cost
}
