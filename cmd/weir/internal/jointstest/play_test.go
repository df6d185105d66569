package jointstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/rules"
)

// play is a story on its way.
type play struct {
	story    *story
	house    house
	receipts map[string]*given
	version  int

	mu     sync.Mutex // held to ask the model
	model  *oracle.Model
	met    *met
	checks int
	faults []string
}

// given is a receipt that somebody holds.
type given struct {
	receipt *oracle.Receipt
	text    string
	front   *front
}

// verdict is what came of a story.
type verdict struct {
	step   int // that went wrong; -1: none
	faults []string
	checks int
	met    *met
	err    error // the story could not be played
}

// wrong is whether the product is at fault.
func (v *verdict) wrong() bool { return len(v.faults) > 0 }

// perform plays a story in a house of its own.
func perform(test testing.TB, s *story) verdict {
	t := &scope{TB: test}
	defer t.end()
	h, err := openHouse(t, s.house, fileOf(s.rules[0].rules, sharingOf(s.house)))
	if err != nil {
		return verdict{step: -1, err: err}
	}
	defer h.close()
	p := &play{story: s, house: h, receipts: map[string]*given{}, model: oracle.New(h.promises()), met: newMet(s.house)}
	p.model.Load(s.rules[0].rules)
	for i := range s.steps {
		h.tick()
		stuck := time.AfterFunc(5*patience, func() { panic(fmt.Sprintf("stuck at %q of\n%s", s.steps[i].String(), s)) })
		err := p.do(t.Context(), &s.steps[i])
		stuck.Stop()
		if err == nil {
			p.met.done(&s.steps[i])
		}
		if err != nil && !errors.Is(err, errNoStep) {
			return verdict{step: i, err: fmt.Errorf("%s: %w", s.steps[i].String(), err), checks: p.checks, met: p.met}
		}
		if len(p.faults) > 0 {
			return verdict{step: i, faults: p.faults, checks: p.checks, met: p.met}
		}
	}
	return verdict{step: -1, checks: p.checks, met: p.met}
}

// moment is the time of something that began then and is over now.
func (p *play) moment(began int64) oracle.Span {
	return oracle.Span{Lo: min(began, p.house.now()) - p.house.slack(), Hi: p.house.now() + p.house.slack()}
}

func (p *play) do(ctx context.Context, s *step) error {
	switch s.op {
	case "check":
		return p.check(ctx, s)
	case "settle":
		p.settle(ctx, s)
		return nil
	case "flood":
		return p.flood(ctx, s)
	case "reload":
		return p.reload(s)
	case "reset":
		return p.reset(s)
	case "except":
		return p.except(s)
	case "lapse":
		return p.lapse(s)
	}
	kept, receipts, err := p.house.act(s)
	if err != nil {
		return err
	}
	if s.op == "kill" {
		p.model.Excuse()
	}
	if s.op == "store" && s.what == "kill" && !strings.HasSuffix(p.story.house, " postgres") { // which has all on disk
		p.model.Lose()
	}
	if !kept {
		p.model.Forget()
		p.model.Load(p.story.rules[p.version].rules)
	}
	if !receipts {
		for _, g := range p.receipts {
			g.receipt.Void = true
		}
	}
	return nil
}

// front is the node that is asked, or the next that is there.
func (p *play) front(s *step) *front {
	all := p.house.fronts()
	for i := range all {
		if f := all[(s.node+i)%len(all)]; f != nil && f.serves(s) {
			return f
		}
	}
	return nil
}

func (p *play) check(ctx context.Context, s *step) error {
	f := p.front(s)
	if f == nil {
		return errNoStep
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := p.house.now()
	a := f.ask(ctx, s)
	// In a cluster, a count that changes its owner passes nothing for a while, and of several daemons at a store each remembers what that denied.
	for end := time.Now().Add(waits); (p.clustered() || p.several()) && time.Now().Before(end) && a.Failed == "" && !a.Allowed && p.must(s, began); {
		time.Sleep(50 * time.Millisecond)
		began = p.house.now()
		a = f.ask(ctx, s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks++
	p.met.asked(s)
	if c, is := p.house.(*nodes); is && c.starved() && !p.met.starved {
		p.model.Excuse()
		p.met.starved = true
	}
	h, ok := p.house.(*served)
	if ok && h.remote() && s.listener == "program" && !strings.HasPrefix(a.Failed, "panic") {
		a.Lost, a.Failed = a.Lost || a.Failed != "", ""
	}
	a.Vague = ok && h.remote() && s.listener != "http" && s.listener != "program"
	receipt, faults := p.model.Check(&oracle.Request{Descriptors: s.asks, Peek: s.peek}, p.moment(began), &a.Answer)
	p.faults = append(p.faults, faults...)
	if s.receipt != "" && a.receipt != "" {
		p.receipts[s.receipt] = &given{receipt, a.receipt, f}
	}
	return nil
}

// waits is for how long a cluster may deny what must pass.
const waits = 5 * time.Second

// ruled is the house, where the rules come from a rule database; nil: it is another one.
func (p *play) ruled() *served {
	if h, ok := p.house.(*served); ok && h.ruled != nil {
		return h
	}
	return nil
}

// several is whether several daemons decide by one store.
func (p *play) several() bool {
	h := p.ruled()
	return h != nil && len(h.ruled.more) > 0
}

func (p *play) clustered() bool {
	_, is := p.house.(*nodes)
	return is
}

// killed is whether a node of the cluster was.
func (p *play) killed() bool {
	c, is := p.house.(*nodes)
	return is && c.killed
}

func (p *play) must(s *step, began int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.model.Must(&oracle.Request{Descriptors: s.asks, Peek: s.peek}, p.moment(began))
}

func (p *play) settle(ctx context.Context, s *step) {
	g := p.receipts[s.receipt]
	if g == nil || !g.receipt.Fits(s.used) {
		return // nothing was charged
	}
	f := g.front
	if !slices.Contains(p.house.fronts(), f) { // its node is gone
		if f = p.front(&step{listener: "http"}); f == nil {
			return
		}
	}
	began := p.house.now()
	status := f.settle(ctx, g.text, s.used)
	p.faults = append(p.faults, p.model.Settled(g.receipt, s.used, p.moment(began), status)...)
}

// flood asks for many keys, several at a time.
func (p *play) flood(ctx context.Context, s *step) error {
	var all sync.WaitGroup
	next := make(chan int)
	workers := 1
	if p.house.slack() > 0 {
		workers = 8
	}
	for range workers {
		all.Go(func() {
			for i := range next {
				d := oracle.Descriptor{Key: s.asks[0].Key, Value: fmt.Sprint("f", i), Cost: s.asks[0].Cost}
				one := step{op: "check", listener: s.listener, asks: []oracle.Descriptor{d}, node: i}
				_ = p.check(ctx, &one) // who can't be asked is not asked
			}
		})
	}
	for i := s.from; i <= s.to; i++ {
		next <- i
	}
	close(next)
	all.Wait()
	return nil
}

func (p *play) reload(s *step) error {
	for i, v := range p.story.rules {
		if v.name != s.version {
			continue
		}
		if i == p.version {
			return nil
		}
		if h := p.ruled(); h != nil {
			for _, at := range h.gone(v.rules) {
				p.model.Except(at.key, at.value, at.limit, nil, p.moment(p.house.now()))
			}
		}
		if err := p.house.reload(fileOf(v.rules, sharingOf(p.story.house))); err != nil {
			return err
		}
		p.version = i
		p.model.Load(v.rules)
		return nil
	}
	return errNoStep
}

// except gives a key a limit of its own, or ends that, as the rule database of a daemon does.
func (p *play) except(s *step) error {
	f := p.front(&step{listener: "program"})
	d, h := s.asks[0], p.ruled()
	if h != nil {
		f = &h.ruled.mirror
	}
	if f == nil || f.limiter.Exceptions() == nil {
		return errNoStep
	}
	met, key := f.limiter.Set().Match("d", &rules.Descriptor{Entries: []rules.Entry{{Key: d.Key, Value: d.Value}}})
	if s.node >= len(met) || met[s.node].Unlimited {
		return errNoStep
	}
	e := rules.Exception{State: met[s.node].State(key), Until: weir.Instant(1) << 60}
	var held *oracle.Limit
	if d.Override != "" {
		l, err := oracle.Parse(d.Override)
		if err != nil {
			return err
		}
		if e.Limit, err = weir.ParseLimit(d.Override); err != nil {
			return err
		}
		if met[s.node].Bears(e.Limit) != nil || e.Limit.Unleasable() != "" || !f.keeps(e.Limit) {
			return errNoStep // another version of the rule could not have it
		}
		held = &l
	}
	began := p.house.now()
	if h == nil {
		f.limiter.Exceptions().Change([]rules.Exception{e}, false, weir.Instant(1))
	} else if err := h.except(heldBy{d.Key, d.Value, s.node}, met, e, d.Override); err != nil {
		return err
	}
	p.model.Except(d.Key, d.Value, s.node, held, p.moment(began))
	return nil
}

// lapse has an exception of a rule database end by itself.
func (p *play) lapse(s *step) error {
	h, d := p.ruled(), s.asks[0]
	if h == nil {
		return errNoStep
	}
	began := p.house.now()
	if err := h.lapse(heldBy{d.Key, d.Value, s.node}); err != nil {
		return err
	}
	p.model.Except(d.Key, d.Value, s.node, nil, p.moment(began))
	return nil
}

func (p *play) reset(s *step) error {
	f := p.front(&step{listener: "http"})
	if f == nil {
		return errNoStep
	}
	one := step{asks: []oracle.Descriptor{{Key: s.asks[0].Key, Value: s.asks[0].Value}}}
	began := p.house.now()
	if h := p.ruled(); h != nil {
		err := h.unblock(s.asks[0])
		if err == nil {
			p.model.Reset(s.asks[0].Key, s.asks[0].Value, p.moment(began))
		}
		return err
	}
	w := call(f.admin, http.MethodPost, "/v1/reset", checkBody(&one))
	if _, ok := p.house.(*served); ok && w.Code == 503 {
		p.model.Perhaps(s.asks[0].Key, s.asks[0].Value, p.moment(began))
		return nil
	}
	// Until the others have a killed node's keys, those can't be reset.
	for end := time.Now().Add(waits); w.Code == 503 && p.killed() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		w = call(f.admin, http.MethodPost, "/v1/reset", checkBody(&one))
	}
	if c, is := p.house.(*nodes); is && w.Code == 503 && c.killed && c.minority() {
		p.model.Perhaps(s.asks[0].Key, s.asks[0].Value, p.moment(began))
		return nil
	}
	if w.Code != 200 {
		p.faults = append(p.faults, fmt.Sprintf("reset: status %d %s", w.Code, w.Body))
		return nil
	}
	if p.clustered() {
		time.Sleep(time.Second) // until then what passes may be of before
	}
	p.model.Reset(s.asks[0].Key, s.asks[0].Value, p.moment(began))
	return nil
}

// tell is a story that went wrong, as testdata keeps it.
func tell(s *story, v *verdict) string {
	text := s.String()
	if v.wrong() {
		text += fmt.Sprintf("# wrong at the last step: %s\n", strings.Join(v.faults, "\n# "))
	}
	return text
}

// shrink makes a story that goes wrong as short as it finds in a time.
func shrink(t testing.TB, s *story, v verdict, within time.Duration) (*story, verdict) {
	end := time.Now().Add(within)
	s = &story{house: s.house, rules: s.rules, steps: s.steps[:v.step+1]}
	try := func(c *story) bool {
		if time.Now().After(end) {
			return false
		}
		if got := perform(t, c); got.wrong() {
			s, v = &story{house: c.house, rules: c.rules, steps: c.steps[:got.step+1]}, got
			return true
		}
		return false
	}
	for again := true; again; {
		again = false
		for n := len(s.steps) / 2; n >= 1; n /= 2 {
			for i := 0; i+n <= len(s.steps); {
				c := &story{house: s.house, rules: s.rules}
				c.steps = append(append(c.steps, s.steps[:i]...), s.steps[i+n:]...)
				if try(c) {
					again = true
				} else {
					i += n
				}
			}
		}
		if slices.ContainsFunc(s.smaller(), try) {
			again = true
		}
	}
	return s, v
}

// smaller are stories with something less in their rules or steps.
func (s *story) smaller() (all []*story) {
	with := func(change func(*story)) {
		c := s.clone()
		change(c)
		all = append(all, c)
	}
	keys := map[string]bool{}
	for _, r := range s.rules[0].rules {
		keys[r.Key] = true
	}
	for key := range keys {
		with(func(c *story) { c.dropKey(key) })
	}
	for i := range s.rules {
		if i > 0 {
			with(func(c *story) { c.dropVersion(i) })
		}
	}
	for j := range s.rules[0].rules {
		for k := range s.rules[0].rules[j].Limits {
			with(func(c *story) { c.dropLimit(j, k) })
		}
	}
	for i := range s.steps {
		st := &s.steps[i]
		for j := range st.asks {
			if len(st.asks) > 1 {
				with(func(c *story) {
					c.steps[i].asks = append(append([]oracle.Descriptor{}, st.asks[:j]...), st.asks[j+1:]...)
					if len(c.steps[i].used) > 1 {
						c.steps[i].used = c.steps[i].used[1:]
					}
				})
			}
			for _, n := range []int64{1, st.asks[j].Cost / 2, st.asks[j].Cost - 1} {
				if n > 0 && n < st.asks[j].Cost {
					with(func(c *story) { c.steps[i].asks[j].Cost = n })
				}
			}
		}
		if st.receipt != "" && st.op == "check" {
			with(func(c *story) { c.steps[i].receipt = "" })
		}
		if st.op == "flood" && st.to > st.from {
			with(func(c *story) { c.steps[i].to = (st.from + st.to) / 2 })
		}
		if st.by > time.Microsecond {
			with(func(c *story) { c.steps[i].by = st.by / 2 })
		}
	}
	return all
}

func (s *story) clone() *story {
	c, err := parseStory(s.String())
	if err != nil {
		panic(err) // a story that was played can be written
	}
	return c
}

func (s *story) dropKey(key string) {
	for i := range s.rules {
		var left []oracle.Rule
		for _, r := range s.rules[i].rules {
			if r.Key != key {
				left = append(left, r)
			}
		}
		s.rules[i].rules = left
	}
	var steps []step
	for _, st := range s.steps {
		var left []oracle.Descriptor
		for _, d := range st.asks {
			if d.Key != key {
				left = append(left, d)
			}
		}
		if len(st.asks) == 0 || len(left) > 0 {
			st.asks = left
			steps = append(steps, st)
		}
	}
	s.steps = steps
}

func (s *story) dropVersion(i int) {
	name := s.rules[i].name
	s.rules = append(s.rules[:i:i], s.rules[i+1:]...)
	var steps []step
	for _, st := range s.steps {
		if st.version != name {
			steps = append(steps, st)
		}
	}
	s.steps = steps
}

func (s *story) dropLimit(rule, limit int) {
	for i := range s.rules {
		if rule < len(s.rules[i].rules) && len(s.rules[i].rules[rule].Limits) > limit && len(s.rules[i].rules[rule].Limits) > 1 {
			r := &s.rules[i].rules[rule]
			r.Limits = append(r.Limits[:limit:limit], r.Limits[limit+1:]...)
		}
	}
}
