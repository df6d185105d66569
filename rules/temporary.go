package rules

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
)

// Temporary is how an operator opened or tightened a rule for a time, as in an incident. While it holds, Rule.Limit and
// Rule.Shadow are what decides, and Written is what will again.
type Temporary struct {
	Percent int64 // of each limit that passes, 1…99; 0: the rule is open, decided and not enforced
	Until   time.Time
	Author  string
	Reason  string
	Written *Rule
}

// String says what was done, without the reason: open until 2026-11-28 21:00 UTC, by ann.
func (t *Temporary) String() string {
	what := "open"
	if t.Percent > 0 {
		what = fmt.Sprintf("tightened to %d %%", t.Percent)
		if t.Written != nil && t.Written.Limit != nil {
			what += " of " + t.Written.Limit.String()
		}
	}
	return fmt.Sprintf("%s until %s, by %s", what, t.Until.UTC().Format("2006-01-02 15:04 MST"), t.Author)
}

// Tell tells the rules of s how they differ from those that are written, for a time: of gives what was done to an item, and nil
// where nothing was. Both sets are of one file, but for that. Call it before others use s. It fails when the sets have
// other rules than each other.
func (s *Set) Tell(written *Set, of func(item string) *Temporary) error {
	if len(s.rules) != len(written.rules) {
		return fmt.Errorf("%d rules are active in place of %d", len(s.rules), len(written.rules))
	}
	for i, r := range s.rules {
		was := written.rules[i]
		if r.place != was.place {
			return fmt.Errorf("rule %s is active in place of %s", r.Name, was.Name)
		}
		held := of(r.Path[0].ID())
		if held == nil {
			continue
		}
		told := *held
		told.Written = was
		r.Temporary, r.Line, r.Column = &told, was.Line, was.Column
	}
	return nil
}

// Temporary is the rules that are open or tightened for a time, in the order of the files. No set has none.
func (s *Set) Temporary() (held []*Rule) {
	if s == nil {
		return nil
	}
	for _, r := range s.rules {
		if r.Temporary != nil {
			held = append(held, r)
		}
	}
	return held
}

// note says how a rule was opened or tightened, and what it would say of cost events if it were not.
func (t *Temporary) note(r *Rule, state weir.State, now weir.Instant, ask *weir.Ask) string {
	text := t.String()
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	if t.Percent == 0 || ask.After || ask.Cost == weir.MaxCost {
		return text
	}
	if r.wouldAllow(t.Written.Limit, state, now, ask) {
		return text + "; as written, it would allow this now"
	}
	return text + "; as written, it would not allow this now either"
}

// wouldAllow is whether another limit in place of r's would allow an ask, given the state by r's.
func (r *Rule) wouldAllow(l *weir.Limit, state weir.State, now weir.Instant, ask *weir.Ask) bool {
	peek := *ask
	peek.Limit, peek.Peek = l, true
	return l.Decide(l.Adopt(append(weir.State(nil), state...), r.Limit, now), now, &peek).Outcome == weir.Allowed
}
