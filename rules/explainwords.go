package rules

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir"
)

// summary says why the request passes or not. It names the decisive rule, because that is the one to
// change, or to wait for.
//
//	passes: shop/user allows it
//	passes: no limit is for it
//	denied: shop/user decides, because it denies; the request would pass in 1.2s, if no other request comes
//	can never pass: a cost of 50 is more than shop/user ever lets pass at once
func (e *Explanation) summary() string {
	a := e.Answer
	switch {
	case len(a.Decisions) == 0 && len(a.Unlimited) > 0:
		return "passes: its rules are unlimited"
	case len(a.Decisions) == 0:
		return "passes: no limit is for it"
	case a.Decisive < 0:
		return "passes: none of its limits is enforced"
	}
	d, x := &a.Decisions[a.Decisive], &e.Limits[a.Decisive]
	switch d.Outcome {
	case weir.Allowed:
		if e.count(weir.Allowed) == 1 {
			return fmt.Sprintf("passes: %s allows it", d.Rule.Name)
		}
		return fmt.Sprintf("passes: all enforced limits allow it; %s decides, because the fewest remain there, %d", d.Rule.Name, d.Remaining)
	case weir.Impossible:
		return fmt.Sprintf("can never pass: a cost of %d is more than %s ever lets pass at once", x.Cost, d.Rule.Name)
	case weir.Denied:
	}
	why := "it denies"
	if others := e.count(weir.Denied) - 1; others > 0 {
		why = fmt.Sprintf("of %d limits that deny, it does so the longest", others+1)
	}
	return fmt.Sprintf("denied: %s decides, because %s; %s", d.Rule.Name, why, e.Passing.words("the request"))
}

// count is how many enforced limits have an outcome.
func (e *Explanation) count(o weir.Outcome) int {
	n := 0
	for i := range e.Answer.Decisions {
		if d := &e.Answer.Decisions[i]; !d.idle && d.Outcome == o {
			n++
		}
	}
	return n
}

// words is a sentence about what, such as "the request".
func (p Passing) words(what string) string {
	switch p.When {
	case PassesNow:
		return what + " would pass now"
	case PassesLater:
		return fmt.Sprintf("%s would pass in %v, if no other request comes", what, p.After)
	case PassesNever:
		return what + " can never pass"
	case PassesUnknown:
	}
	return "it is not known when " + what + " would pass"
}

// notes is what to know of the decision d of the k-th ask, and what would have
// to change. Each is a sentence without a full stop, and is told only where it is true of this
// decision: those that could change it come first, then what is special about the rule, then what
// is about the store and the other descriptors.
//
//	a cost of at most 3 would pass now
//	a burst of at least 12 would let this pass now: 10/s burst 12
//	it is in shadow: decided, not enforced
func (x *explainer) notes(e *LimitExplanation, t *take, k int, d *Decision, pass bool) []string {
	var notes []string
	note := func(yes bool, format string, args ...any) {
		if yes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	rule := d.Rule
	denies := d.Outcome != weir.Allowed
	note(denies && e.Fits > 0, "a cost of at most %d would pass now", e.Fits)
	if e.Enough != nil {
		note(true, "%s would let this pass now: %s", enlarged(e.Enough), e.Enough)
	}
	if e.Grant != nil {
		note(true, "%s", e.Grant.note(rule, x.before.states[t.asks[k].State], x.before.now, &t.asks[k]))
	}
	if held := rule.Temporary; held != nil {
		note(true, "%s", held.note(rule, x.before.states[t.asks[k].State], x.before.now, &t.asks[k]))
	}
	note(rule.Limit.Spec().Count == 0, "a count of 0 denies all")
	if spec := rule.Limit.Spec(); spec.Initial != nil {
		note(denies && *spec.Initial < spec.Burst && e.Before.ResetAfter == 0, "this key has had no request yet: its time begins with the first")
	}
	note(e.Passing.When == PassesUnknown, "a permit must come back first; at the latest in %v all are free, unless they are renewed", e.Before.ResetAfter)
	note(rule.Shadow && (rule.Temporary == nil || rule.Temporary.Written.Shadow), "it is in shadow: decided, not enforced")
	note(!denies && !pass && d.Cost > 0 && !rule.After && !x.request.Peek, "it allows, and would not be charged, because another limit denies")
	note(d.Cost == 0, "a cost of 0 charges nothing")
	note(x.request.Peek, "a peek charges nothing")
	note(denies && rule.Limit.Spec().CountDenied && d.Outcome == weir.Denied && !rule.After && !x.request.Peek,
		"a request now is counted although it is denied, and then has to wait %v", d.RetryAfter)
	note(rule.After, "it reports work that is done: that is always charged, and the outcome is whether a next event would pass")
	note(rule.QuotaMode && t.quotas() > 1, "it is one of %d quota limits, which deny only when all of them do", t.quotas())
	note(rule.Lease > 0, "with a store that is shared, each node takes events beforehand, and what others hold is missing here: lease %v", rule.Lease)
	note(rule.Sync > 0, "with a store that is shared, each node decides by what it last knew of it, and is ahead of it by %d at most: sync %v", rule.Limit.Unsynced(rule.Sync), rule.Sync)
	apart := rule.apart()
	if x.store.Late {
		apart = rule.unread()
	}
	note(apart != "", "%s", apart)
	note(rule.ShareThreshold, "all values that fit share this count")
	note(rule.Override, "the request brought this limit, in place of the rules")
	note(d.Hold > 0, "the caller has to wait %v before it goes", d.Hold)
	note(x.store.Shared && !x.store.OwnClock, "each process brings its own clock to this count: as far as they are apart, more may pass")
	var same []string
	for i := range t.meets {
		if m := &t.meets[i]; m.asks() > 0 && m.first <= k && k < m.first+m.asks() {
			same = append(same, fmt.Sprint(i))
		}
	}
	note(len(same) > 1, "descriptors %s have the same count: their costs are added up", strings.Join(same, ", "))
	return notes
}

// enlarged names what is larger in a limit of enough, by the word that its text has for it.
func enlarged(l *weir.Limit) string {
	s := l.Spec()
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		return fmt.Sprintf("a burst of at least %d", s.Burst)
	case weir.LeakyQueue:
		return fmt.Sprintf("a queue of at least %d", *s.Queue)
	case weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.Concurrent, weir.WarmUp:
	}
	return fmt.Sprintf("a count of at least %d", s.Count)
}
