package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// Explanation is the answer of /v1/explain. docs/explain.md tells its members. Members that it
// shares with /v1/check have the same names and mean the same.
type Explanation struct {
	ID       string `json:"id,omitempty"` // of a denial
	At       string `json:"at"`
	Domain   Text   `json:"domain"`
	Allowed  bool   `json:"allowed"`
	Decisive *int   `json:"decisive"`
	Summary  Text   `json:"summary"`
	ExplainedPassing
	Together    bool                  `json:"together"`
	Descriptors []ExplainedDescriptor `json:"descriptors"`
	Limits      []ExplainedLimit      `json:"limits"`
}

// ExplainedPassing is when something passes: After and At are empty but for "later".
type ExplainedPassing struct {
	Passes      string      `json:"passes"`
	PassesAfter json.Number `json:"passes_after_seconds,omitempty"`
	PassesAt    string      `json:"passes_at,omitempty"`
}

// ExplainedDescriptor is what a descriptor of the request has met.
type ExplainedDescriptor struct {
	Entries []ExplainedEntry `json:"entries"`
	Cost    int64            `json:"cost"`
	Summary Text             `json:"summary"`
	Rules   []ExplainedRule  `json:"rules"`
	Levels  []ExplainedLevel `json:"levels"`
}

// ExplainedEntry is a key and a value, of a request or a rule file.
type ExplainedEntry struct {
	Key   Text `json:"key"`
	Value Text `json:"value"`
}

// ExplainedFile is where something stands; it is empty for what stands in no file.
type ExplainedFile struct {
	File Text `json:"file,omitempty"`
	Line int  `json:"line,omitempty"`
}

// ExplainedRule is a rule that a descriptor has met.
type ExplainedRule struct {
	Rule Text `json:"rule"`
	ExplainedFile
	Unlimited bool `json:"unlimited"`
}

// ExplainedPlace is a descriptor of a rule file.
type ExplainedPlace struct {
	ExplainedEntry
	ExplainedFile
}

// ExplainedLevel is what an entry has met, and what else there was.
type ExplainedLevel struct {
	ExplainedEntry
	Met        *ExplainedPlace  `json:"met"`
	Why        Text             `json:"why"`
	PassedOver []ExplainedPlace `json:"passed_over"`
	There      []ExplainedPlace `json:"there"`
	Omitted    int              `json:"omitted"`
}

// ExplainedLimit is what a limit decided, and on which count.
type ExplainedLimit struct {
	Descriptor int  `json:"descriptor"`
	Rule       Text `json:"rule"`
	ExplainedFile
	Limit    string    `json:"limit"`
	Words    Text      `json:"words"`
	Most     *int64    `json:"most_in_a_period,omitempty"` // nil: nothing is promised
	WhyMore  Text      `json:"why_more,omitempty"`         // than the count
	Outcome  string    `json:"outcome"`
	Enforced bool      `json:"enforced"`
	Shadow   bool      `json:"shadow"`
	Override *Override `json:"override,omitempty"` // nil: it is as written
	// Exception is there where the limit is of this key alone.
	Exception *Exception        `json:"exception,omitempty"`
	Cost      int64             `json:"cost"`
	Charged   bool              `json:"charged"`
	Before    ExplainedStanding `json:"before"`
	After     ExplainedStanding `json:"after"`
	ExplainedPassing
	Hold   json.Number `json:"hold_seconds,omitempty"`
	Fits   int64       `json:"fits"`
	Enough string      `json:"enough,omitempty"`
	Notes  []Text      `json:"notes"`
}

// Override is how an operator opened or tightened a rule for a time.
type Override struct {
	Percent int64     `json:"percent"` // of each limit that passes; 0: it is open
	Until   time.Time `json:"until"`
	Author  Text      `json:"author"`
	Reason  Text      `json:"reason"`
	Written string    `json:"written"` // the limit that holds again from then on
}

// Exception is how a key came to a limit of its own, for a time. Members that this node does not know, as while the rule database is away, are left out.
type Exception struct {
	Until  *time.Time `json:"until,omitempty"`
	Author Text       `json:"author,omitempty"`
	Reason Text       `json:"reason,omitempty"`
	Usual  string     `json:"usual"` // the limit of other keys, and of this one from then on
}

// exceptionOf is nil for a limit that other keys have, too.
func exceptionOf(r *rules.Rule, g *rules.Grant) *Exception {
	if g == nil {
		return nil
	}
	e := &Exception{Author: Text(g.Author), Reason: Text(g.Reason), Usual: r.Usual.Limit.String()}
	if !g.Until.IsZero() {
		e.Until = new(g.Until.UTC())
	}
	return e
}

// overrideOf is nil for a rule that is as written.
func overrideOf(t *rules.Temporary) *Override {
	if t == nil {
		return nil
	}
	o := &Override{Percent: t.Percent, Until: t.Until.UTC(), Author: Text(t.Author), Reason: Text(t.Reason)}
	if t.Written.Limit != nil {
		o.Written = t.Written.Limit.String()
	}
	return o
}

// ExplainedStanding is how a count stands.
type ExplainedStanding struct {
	Used      int64       `json:"used"`
	Remaining int64       `json:"remaining"`
	Reset     json.Number `json:"reset_after_seconds"`
}

// Text is a string that the listener writes as in all its answers.
type Text string

// MarshalJSON is appendString.
func (t Text) MarshalJSON() ([]byte, error) { return appendString(nil, string(t)), nil }

// AppendExplanation appends an explanation to b as /v1/explain gives it, on one line.
func AppendExplanation(b []byte, e *rules.Explanation) []byte {
	a := e.Answer
	out := Explanation{
		ID: e.ID, At: timeText(e.At), Domain: Text(e.Domain), Allowed: a.Allowed, Summary: Text(e.Summary),
		ExplainedPassing: passingOf(e.At, e.Passing), Together: e.Together,
		Descriptors: each(e.Descriptors, descriptorOf), Limits: make([]ExplainedLimit, len(a.Decisions)),
	}
	if a.Decisive >= 0 {
		out.Decisive = &a.Decisive
	}
	for i := range a.Decisions {
		out.Limits[i] = limitOf(e.At, &a.Decisions[i], &e.Limits[i])
	}
	return appendJSON(b, &out)
}

// appendJSON appends v, which is of texts and numbers, in JSON.
func appendJSON(b []byte, v any) []byte {
	to := bytes.NewBuffer(b)
	encode := json.NewEncoder(to)
	encode.SetEscapeHTML(false) // an answer is no page
	_ = encode.Encode(v)        // what v is of, always can be
	return bytes.TrimSuffix(to.Bytes(), []byte("\n"))
}

// each is a list of what one makes of each thing of a list.
func each[From, To any](list []From, one func(From) To) []To {
	all := make([]To, 0, len(list)) // not nil, which would be null
	for _, from := range list {
		all = append(all, one(from))
	}
	return all
}

func passingOf(at weir.Instant, p rules.Passing) ExplainedPassing {
	out := ExplainedPassing{Passes: string(p.When)}
	if p.When == rules.PassesLater {
		out.PassesAfter, out.PassesAt = secondsOf(p.After), timeText(at+weir.Instant(p.After/time.Microsecond))
	}
	return out
}

func secondsOf(d time.Duration) json.Number { return json.Number(appendSeconds(nil, d)) }

func timeText(i weir.Instant) string { return i.Time().Format(time.RFC3339Nano) }

func descriptorOf(d rules.DescriptorTrace) ExplainedDescriptor {
	return ExplainedDescriptor{
		Entries: each(d.Entries, entryOf),
		Cost:    d.Cost, Summary: Text(d.Summary),
		Rules: each(d.Rules, func(r *rules.Rule) ExplainedRule {
			return ExplainedRule{Text(r.Name), ExplainedFile{Text(r.File), r.Line}, r.Unlimited}
		}),
		Levels: each(d.Levels, levelOf),
	}
}

func entryOf(e rules.Entry) ExplainedEntry { return ExplainedEntry{Text(e.Key), Text(e.Value)} }

func levelOf(l rules.LevelTrace) ExplainedLevel {
	out := ExplainedLevel{
		ExplainedEntry: entryOf(l.Entry), Why: Text(l.Why),
		PassedOver: each(l.Passed, placeOf), There: each(l.There, placeOf), Omitted: l.Omitted,
	}
	if l.Met != nil {
		out.Met = new(placeOf(*l.Met))
	}
	return out
}

func placeOf(p rules.Place) ExplainedPlace {
	return ExplainedPlace{entryOf(p.Entry), ExplainedFile{Text(p.File), p.Line}}
}

func limitOf(at weir.Instant, d *rules.Decision, x *rules.LimitExplanation) ExplainedLimit {
	out := ExplainedLimit{
		Descriptor: d.Descriptor, Rule: Text(d.Rule.Name), ExplainedFile: ExplainedFile{Text(d.Rule.File), d.Rule.Line},
		Limit: d.Rule.Limit.String(), Words: Text(x.Words), WhyMore: Text(x.WhyMore),
		Outcome: d.Outcome.String(), Enforced: x.Enforced, Shadow: d.Rule.Shadow, Override: overrideOf(d.Rule.Temporary), Exception: exceptionOf(d.Rule, x.Grant), Cost: x.Cost, Charged: d.Charged,
		Before: standingOf(x.Before), After: standingOf(x.After), ExplainedPassing: passingOf(at, x.Passing),
		Fits: x.Fits, Notes: each(x.Notes, func(n string) Text { return Text(n) }),
	}
	if x.Most != math.MaxInt64 {
		out.Most = &x.Most
	}
	if queues(d) {
		out.Hold = secondsOf(d.Hold)
	}
	if x.Enough != nil {
		out.Enough = x.Enough.String()
	}
	return out
}

func standingOf(s rules.Standing) ExplainedStanding {
	return ExplainedStanding{s.Used, s.Remaining, secondsOf(s.ResetAfter)}
}
