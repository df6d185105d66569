package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// patience is how long a script call may take, however long its callers wait. Callers
// bring their own, shorter one.
//
// A call that ends by it was sent, and nobody knows whether the script has run: it may have
// charged. It is not sent again, for a charge that was made twice denies what would have passed.
// A charge for nothing comes back as the limit recovers.
const patience = 2 * time.Second

// patient is ctx for at most patience.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < patience {
		return ctx, func() {} // it is its caller's
	}
	return context.WithTimeout(ctx, patience)
}

// newCall writes asks down as take.lua reads them. It is done by the goroutine of the caller,
// beside others: the one that sends a script call has only to put texts together.
//
// A take begins with the first of its asks, whose flag says so. By these flags the script knows
// the takes in a call apart, and decides each by itself.
func (s *Store) newCall(asks []weir.Ask) *call {
	c := &call{
		keys: make([]string, len(asks)), asks: make([]askText, len(asks)),
		limits: make([]limitText, 0, 1),
	}
	for i := range asks {
		a := &asks[i]
		p := s.plans.of(a.Limit)
		c.keys[i] = s.key(a.State)
		// Several asks of a take may have one limit; its text goes once. A limit is told by its
		// pointer: the same text twice in one call costs bytes and nothing else.
		of := c.limit(a.Limit)
		if of == len(c.limits) {
			text := p.text
			if text == "" {
				// Here alone a call depends on what this process takes for the time. The script
				// looks at its own clock and answers W where the window is not the right one.
				text = window(a.Limit, s.serverNow())
			}
			c.limits = append(c.limits, limitText{a.Limit, text})
		}
		c.asks[i] = askText{of, p.appendAsk(make([]byte, 0, 64), a, i == 0, 0)}
	}
	return c
}

// plainCall writes down a take that pace.lua can decide; nil when it can't. All that can be known
// before is looked at here, such as a cost that never fits. The script finds what only the count
// tells: that receipts were given back, or that another limit kept it.
func (s *Store) plainCall(asks []weir.Ask) *call {
	a := &asks[0]
	if s.general || len(asks) > 1 || a.Peek || a.Shadow || a.After || a.Cost <= 0 {
		return nil
	}
	p := s.plans.of(a.Limit)
	// A cost that never fits is left to take.lua, which is told so by a flag. MaxHold, AtLeast and
	// Once do not come here: takeTogether has sent those to takeBySwap.
	if p.one == "" || a.Cost > p.most {
		return nil
	}
	key := s.key(a.State)
	if s.odd.has(key) {
		return nil
	}
	c := &call{keys: []string{key}, pair: p.one}
	if a.Cost > 1 {
		c.pair = p.pair(a.Limit, a.Cost)
	}
	return c
}

// runPaced sends calls of plainCall in one script call. Many calls have the same limit and cost:
// these go once, and each key has one byte that says which of them is its own. There are no more
// than maxAsks keys, so a byte is enough. All answers come in one text, 17 bytes for each key: for
// Redis and for Go that is much quicker than a list.
func (s *Store) runPaced(ctx context.Context, calls []*call) {
	s.counts.calls.Add(1)
	ctx, cancel := patient(ctx)
	defer cancel()
	keys, args := make([]string, len(calls)), make([]string, 2, 4)
	args[0] = s.now
	which := make([]byte, len(calls))
	for i, c := range calls {
		// Limits are compared by their text here, not by their pointer, as the text has the cost
		// in it, too. A call has up to maxAsks of them, and mostly one or two: to search a few is
		// quicker than a map.
		keys[i] = c.keys[0]
		n := slices.Index(args[2:], c.pair) + 1
		if n == 0 {
			args = append(args, c.pair)
			n = len(args) - 2
		}
		which[i] = byte(n)
	}
	args[1] = string(which)
	answer, err := s.exec(ctx, s.pacer, !s.cluster, keys, args)
	if err == nil && (len(answer) != 3 || len(answer[2]) != 17*len(keys)) {
		err = fmt.Errorf("redisstore: no answer to %d asks", len(keys))
	}
	var now weir.Instant
	if err == nil {
		now = s.tell(1_000_000*parseInstant(answer[0]) + parseInstant(answer[1]))
	}
	for i, c := range calls {
		if c.Err = err; err == nil {
			// The letter and the state are as take.lua answers them, so settle reads both alike.
			c.now, c.answers = now, []string{answer[2][17*i : 17*i+17]}
		}
	}
}

// tell remembers how far the server's time is from ours. The answer may have been on its way for
// long, so that the skew comes out too small; then what is remembered here ends a little late, by
// that time at most, and nothing that the server decides depends on it.
//
// Calls that end at a time write skew in any order. Each value was true when it was measured, so
// any of them may stay.
func (s *Store) tell(now weir.Instant) weir.Instant {
	s.skew.Store(int64(now - weir.InstantOf(time.Now())))
	return now
}

// limit is the index of a limit, len(c.limits) when it is new.
func (c *call) limit(l *weir.Limit) int {
	for i := range c.limits {
		if c.limits[i].limit == l {
			return i
		}
	}
	return len(c.limits)
}

// run sends calls in one script call, and hands out what comes back.
//
// An error is that of all calls: where the answer was lost, each of them may have been a charge. A
// fault of one key comes as the answer of its take, and is no error here.
func (s *Store) run(ctx context.Context, calls []*call) {
	s.counts.calls.Add(1)
	ctx, cancel := patient(ctx)
	defer cancel()
	keys, args := join(s.now, calls)
	answers, err := s.exec(ctx, s.taker(calls), !s.cluster, keys, args)
	if err == nil && len(answers) != len(keys)+1 {
		err = fmt.Errorf("redisstore: %d answers to %d asks", len(answers), len(keys))
	}
	var now weir.Instant
	if err == nil {
		now = s.tell(parseInstant(answers[0]))
		answers = answers[1:]
	}
	for _, c := range calls {
		if c.Err = err; err == nil {
			c.now, c.answers, answers = now, answers[:len(c.keys)], answers[len(c.keys):]
		}
	}
}

func parseInstant(text string) weir.Instant {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // the script writes nothing else
	}
	return weir.Instant(n)
}

// join makes one script call of several. Limits that they share go once.
//
// Callers have written all that does not depend on the others; only the number of an ask's limit
// does, and it is put into two bytes that were left free for it.
func join(now string, calls []*call) (keys, args []string) {
	n := 0
	for _, c := range calls {
		n += len(c.keys)
	}
	keys, args = make([]string, 0, n), make([]string, 2, 2*n+4)
	args[0] = now
	// The script counts limits from 1, so 0 is a limit that is not in the call yet.
	nth := map[*weir.Limit]int{}
	for _, c := range calls {
		for _, l := range c.limits {
			if nth[l.limit] == 0 {
				args = append(args, l.text)
				nth[l.limit] = len(args) - 2
			}
		}
	}
	args[1] = strconv.Itoa(len(args) - 2)
	for _, c := range calls {
		keys = append(keys, c.keys...)
		for _, a := range c.asks {
			of := nth[c.limits[a.of].limit]
			// The text is the call's own, and the call travels once: nobody else reads these
			// bytes.
			a.text[1], a.text[2] = byte(of), byte(of>>8)
			args = append(args, string(a.text))
		}
	}
	return keys, args
}

// taker is the script that knows the kinds of limits in the calls. Redis makes a
// script's functions anew at each call, so it has no others.
//
// There are 64 of these scripts, and a process needs few of them. Two goroutines that make the same
// one at a time make the same text: either may stay.
func (s *Store) taker(calls []*call) *script {
	// The first byte of a limit's text is its kind.
	kinds := 0
	for _, c := range calls {
		for _, l := range c.limits {
			kinds |= 1 << l.text[0]
		}
	}
	if script := s.takers[kinds].Load(); script != nil {
		return script
	}
	script := newScript(scriptOf(kinds))
	s.takers[kinds].Store(script)
	return script
}

// scriptOf is take.lua without the kinds that are not wanted.
func scriptOf(kinds int) string {
	// The parts of take.lua stand in the order of the marks. Text before the first mark belongs to
	// all, and so does the part "any".
	const mark = "-- kind "
	head, rest, _ := strings.Cut(takeScript, mark)
	var text strings.Builder
	text.WriteString(head)
	for rest != "" {
		part, after, _ := strings.Cut(rest, mark)
		if name, code, _ := strings.Cut(part, "\n"); name == "any" || kinds>>(name[0]-'0')&1 == 1 {
			text.WriteString(code)
		}
		rest = after
	}
	return text.String()
}

// settle makes decisions of a call's answers. again says that nothing was
// decided yet, for a reason that is gone now.
//
// The script has decided: it has charged all counts of the take, or none. It tells of each limit
// whether that allows, and the state before. From the state the same pure functions as in memory
// work out what a decision tells beside: what remains, and when to come back. They also say whether
// the limit allows. When that is not what the script said, the script's word holds, as it is what
// was written, and Disagreed counts it.
//
// Each caller does this on its own goroutine, so that the lane can carry the next calls meanwhile.
// A caller that has left does not: its charge stays, and nobody learns from the answer.
//
// One letter settles the whole take where it is E, C, W or X. The asks beside it have S, which
// says nothing by itself: the loop goes on to the one that has the reason.
func (s *Store) settle(ctx context.Context, c *call, asks []weir.Ask, out []weir.Decision) (again bool, err error) {
	for i, answer := range c.answers {
		switch answer[0] {
		case 'E':
			return false, explain(fmt.Errorf("a key of %q: %w", placeOf(c.keys[i]), errors.New(answer[1:])))
		case 'C':
			if strings.IndexByte(answer, 0) < 0 { // no limit's text ends there
				return false, &record.CountError{Err: inKey(c.keys[i], errors.New("it holds no count: is it another program's?"))}
			}
			// Another version of the limit kept the count, or it was reset in the future of the
			// server's clock. The script knows neither: Go works out what stays charged.
			//
			// A swap is safe beside scripts: it writes only over the values that it has seen.
			s.counts.adopted.Add(1)
			return false, s.takeBySwap(ctx, asks, out)
		case 'W': // s.skew is right by now
			return true, nil
		case 'X': // it is for take.lua
			s.odd.add(c.keys[i])
			return true, nil
		}
	}
	var few [2]weir.State // most takes have one or two limits: no memory is asked for
	states := few[:0]
	for i := range asks {
		state, err := stateOf(&asks[i], c.answers[i][1:])
		if err != nil {
			return false, &record.CountError{Err: inKey(c.keys[i], err)}
		}
		states = append(states, state)
		out[i] = asks[i].Limit.Decide(state, c.now, &asks[i])
		if allowed := c.answers[i][0] == '1'; allowed != (out[i].Outcome == weir.Allowed) {
			s.counts.disagreed.Add(1)
			out[i].Outcome = weir.Denied
			if allowed {
				out[i].Outcome = weir.Allowed
			}
		}
	}
	pass := weir.Resolve(asks, out)
	if weir.WantsEvidence(asks, pass) {
		for i := range states {
			asks[i].Evidence.Tell(c.now, states[i])
		}
	}
	// Commit fills in receipts and what is left. The states that it returns are not kept: the
	// script has written its own.
	for i := range asks {
		asks[i].Limit.Commit(states[i], c.now, &asks[i], &out[i])
	}
	s.given.Note(out)
	// The denial is dated by the script, and the state is the one from before the take: a denied
	// take leaves it as it was, or is not remembered.
	s.denials.Learn(c.now, asks, states, out)
	return false, nil
}
