package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/internal/fields"
)

// Names of fields as http.Header keeps them, so that its Get and Del find them.
// They mean the same in any case.
const (
	policyField    = "Ratelimit-Policy"
	standingField  = "Ratelimit"
	limitField     = "Ratelimit-Limit"
	remainingField = "Ratelimit-Remaining"
	resetField     = "Ratelimit-Reset"

	xLimitField     = "X-Ratelimit-Limit"
	xRemainingField = "X-Ratelimit-Remaining"
	xResetField     = "X-Ratelimit-Reset"
)

// setFields tells the client how the rules stand, in the forms that Options.Fields names. A client that
// knows needs no denial to slow down.
//
// The newest draft can tell of all rules. The other forms have room for one, so they tell of the rule
// that is closest to its end, in the sense of weir.Decision.Outweighs. Of 2/12s
// with one event left:
//
//	Draft10      RateLimit-Policy: "api";q=2;w=12      RateLimit: "api";r=1
//	Draft7       RateLimit-Policy: 2;w=12              RateLimit: limit=2, remaining=1, reset=6
//	Draft6       RateLimit-Limit: 2                    RateLimit-Remaining: 1, RateLimit-Reset: 6
//	Envoy03      X-RateLimit-Limit: 2, 2;w=12;name="api", and two more as in draft 6
//	XRateLimit   X-RateLimit-Limit: 2                  X-RateLimit-Reset: 1771286406, since 1970
func (m *middleware) setFields(c *call, h http.Header) {
	kinds := m.options.Fields
	// The cost is more than any limit can have. The fields would tell that something remains, and a client
	// would try again.
	if c.TooLarge {
		return
	}
	if len(c.Standings) > 0 && (kinds == 0 || kinds&Draft10 != 0) { // a List must not be empty
		m.setDraft10(c, h)
	}
	if kinds&^(Draft10|NoFields) == 0 {
		return
	}
	// A permit has no window, which the other forms can't do without.
	c.Standings = slices.DeleteFunc(c.Standings, func(s admission.Standing) bool { return s.Limit.Algorithm() == weir.Concurrent })
	if len(c.Standings) == 0 {
		return
	}
	s := c.closest()
	quota, _ := fields.Quota(s.Limit)
	reset := resetOf(s.Decision)
	if kinds&Draft7 != 0 {
		add(h, policyField, c.policies(nil, appendQuota))
		c.set(h, standingField, fmt.Sprintf("limit=%d, remaining=%d, reset=%d", quota, max(s.Decision.Remaining, 0), reset))
	}
	if kinds&Draft6 != 0 {
		add(h, policyField, c.policies(nil, appendQuota))
		c.setThree(h, [3]string{limitField, remainingField, resetField}, strconv.FormatInt(quota, 10), s, reset)
	}
	if kinds&Envoy03 != 0 {
		limit := c.policies(strconv.AppendInt(nil, quota, 10), appendNamedQuota)
		c.setThree(h, [3]string{xLimitField, xRemainingField, xResetField}, limit, s, reset)
	}
	if kinds&XRateLimit != 0 {
		at := time.Now().Add(time.Duration(reset)*time.Second + time.Second - 1).Unix()
		c.setThree(h, [3]string{xLimitField, xRemainingField, xResetField}, strconv.FormatInt(quota, 10), s, at)
	}
}

// resetOf is in how many seconds it is worth to come back: clients of these
// fields wait for as long when nothing remains.
func resetOf(d *weir.Decision) int64 {
	if d.Outcome == weir.Allowed && d.NextAfter > 0 {
		return fields.RetryAfter(d.NextAfter)
	}
	return fields.Reset(d)
}

// setDraft10 sets RateLimit-Policy and RateLimit, or adds to those of middleware
// around this one: both are Lists.
func (m *middleware) setDraft10(c *call, h http.Header) {
	policy, list := m.usual, c.lists.Standing[:0]
	if policy != nil && m.stand(c) {
		for i := range c.Standings {
			list = fields.AppendStanding(list, c.Standings[i].Rule, c.Standings[i].Decision)
		}
		c.lists.Standing = list
	} else {
		c.lists.Policy, c.lists.Standing = c.lists.Policy[:0], list
		c.listAll()
		policy, list = c.line(string(c.lists.Policy)), c.lists.Standing
	}
	standing := string(list)
	if h[policyField] == nil {
		h[policyField], h[standingField] = policy, c.line(standing)
		return
	}
	add(h, policyField, policy[0])
	add(h, standingField, standing)
}

// stand is whether all rules stand, with their own limits and not with those of a Plan: then the policy
// is the same for each request, and was written when the middleware was made.
func (m *middleware) stand(c *call) bool {
	for i := range c.Standings {
		if s := &c.Standings[i]; s.Limit != s.Of.Limit {
			return false
		}
	}
	return len(c.Standings) == m.enforced
}

// listAll makes the items of the rules that stand, as far as there is room in both fields.
func (c *call) listAll() {
	for i := range c.Standings {
		s := &c.Standings[i]
		unit := ""
		if s.Of != nil {
			unit = s.Of.Unit
		}
		if !c.lists.Add(s.Rule, s.Limit, unit, s.Decision) {
			return
		}
	}
}

// policies is a list of all that stand, after what is there already: of Envoy's form, the limit that is
// closest. Items that would make it too long are left out.
func (c *call) policies(b []byte, one func([]byte, *admission.Standing) []byte) string {
	for i := range c.Standings {
		before := len(b)
		if before > 0 {
			b = append(b, ", "...)
		}
		if b = one(b, &c.Standings[i]); len(b) > fields.MaxField {
			return string(b[:before])
		}
	}
	return string(b)
}

// appendQuota is a quota as drafts 3 to 7 have it.
func appendQuota(b []byte, s *admission.Standing) []byte {
	quota, window := fields.Quota(s.Limit)
	b = append(fields.AppendInteger(b, quota), ";w="...)
	return fields.AppendInteger(b, window)
}

// appendNamedQuota is a quota as Envoy has it: 10;w=1;name="api".
func appendNamedQuota(b []byte, s *admission.Standing) []byte {
	return fields.AppendString(append(appendQuota(b, s), ";name="...), s.Rule)
}

// closest is the standing that decides, for fields that tell of one only. It is called where there is one
// at least.
func (c *call) closest() *admission.Standing {
	best := &c.Standings[0]
	for i := range c.Standings {
		if s := &c.Standings[i]; s.Decision.Outweighs(best.Decision) {
			best = s
		}
	}
	return best
}

// setThree sets fields that tell of one limit, unless middleware around this one
// has told of one that is closer to its end.
func (c *call) setThree(h http.Header, names [3]string, limit string, s *admission.Standing, reset int64) {
	told, err := strconv.ParseInt(h.Get(names[1]), 10, 64)
	if err == nil && s.Decision.Outcome == weir.Allowed && s.Decision.Remaining >= told {
		return
	}
	c.set(h, names[0], limit)
	c.set(h, names[1], strconv.FormatInt(max(s.Decision.Remaining, 0), 10))
	c.set(h, names[2], strconv.FormatInt(reset, 10))
}

// set sets a field, in place of one that was there.
func (c *call) set(h http.Header, name, value string) { h[name] = c.line(value) }

// line is a value of a field. Many share a piece of memory.
func (c *call) line(value string) []string {
	if len(c.lines) == 0 {
		c.lines = make([]string, 64)
	}
	l := c.lines[:1:1]
	c.lines = c.lines[1:]
	l[0] = value
	return l
}

// add adds to a List.
func add(h http.Header, name, value string) {
	if old := h[name]; len(old) > 0 {
		value = strings.Join(old, ", ") + ", " + value
	}
	h[name] = []string{value}
}

// lookTwice finds that this middleware, or one with a rule of the same name, is
// already around the handler: the request counts twice.
func (m *middleware) lookTwice(c *call, w http.ResponseWriter, r *http.Request) {
	old := w.Header()[policyField]
	if m.options.Log == nil || old == nil && !m.marks() {
		return
	}
	twice := ""
	for around := ChargeOf(r.Context()); around != nil; around = around.around {
		if around.m == m {
			twice = "all"
		}
	}
	for i := range c.Standings {
		for _, line := range old {
			if strings.Contains(line, string(fields.AppendString(nil, c.Standings[i].Rule))+";") {
				twice = c.Standings[i].Rule
			}
		}
	}
	if twice != "" && m.first(warnedTwice) {
		m.options.Log.Warn("httplimit: a rule is applied twice to a request, which counts twice; this is said once", "rule", twice, "path", r.URL.Path)
	}
}

// The warnings that are logged once.
const (
	warnedTwice = iota
	warnedSettle
)

// first is whether there is a log, which was not told of this.
func (m *middleware) first(what int) bool {
	return m.options.Log != nil && m.warned[what].CompareAndSwap(false, true)
}
