package jointstest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/rules"
)

// drawer draws stories.
type drawer struct {
	*rand.Rand

	story    *story
	receipts []drawnReceipt
	given    int
	keys     []string
	excepted []step // that have yet to end
}

type drawnReceipt struct {
	name  string
	costs []int64
}

// draw is the story of a seed in a house.
func draw(seed uint64, house string) *story {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 17)), story: &story{house: house}}
	for {
		d.story.rules = []version{{"v1", d.rules()}}
		for _, name := range []string{"v2", "v3"} {
			d.story.rules = append(d.story.rules, version{name, d.change(d.story.rules[0].rules)})
		}
		if d.fits() {
			break
		}
	}
	for range 10 + d.IntN(60) {
		d.step()
	}
	return d.story
}

// fits is whether the product takes all versions: what it refuses is not played.
func (d *drawer) fits() bool {
	for _, v := range d.story.rules {
		set, err := rules.Parse("rules.yaml", []byte(fileOf(v.rules, sharingOf(d.story.house))))
		if err != nil {
			return false
		}
		kind, store := storeOf(d.story.house)
		if kind == "cluster" {
			store = kind
		}
		urls := map[string]string{
			"redis": "redis://localhost:1", "memcached": "memcached://localhost:1", "postgres": "postgres://localhost:1/x",
			"nats": "nats://localhost:1", "cluster": "cluster:",
		}
		for scheme, url := range urls {
			if traits, err := daemon.StoreTraits(url); store == scheme && (err != nil || set.Fits(traits) != nil) {
				return false
			}
		}
	}
	return true
}

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// chance is true in so many of a hundred.
func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

func (d *drawer) rules() (all []oracle.Rule) {
	d.keys = []string{"user", "team", "path", "job"}[:1+d.IntN(4)]
	for _, key := range d.keys {
		r := oracle.Rule{Key: key, Unlimited: d.chance(5)}
		if r.Unlimited {
			all = append(all, r)
			continue
		}
		if d.chance(45) {
			r.Mode = pick(d, oracle.Quota, oracle.Quota, oracle.Shadow, oracle.After)
		}
		for i := range 1 + d.IntN(1+d.IntN(3)) {
			l := d.limit(r.Mode == oracle.After)
			if i > 0 || d.chance(40) {
				l.Name = fmt.Sprint("n", i)
			}
			r.Limits = append(r.Limits, l)
		}
		if d.edged() && d.chance(40) {
			r.Lease = pick(d, "5ms", "100ms")
			leasable(&r)
		}
		all = append(all, r)
	}
	return all
}

// storeOf is the kind of a house, and the store in it, whether there is an edge around that or not.
func storeOf(house string) (kind, store string) {
	kind, words, _ := strings.Cut(house, " ")
	return kind, strings.TrimPrefix(words, "edge ")
}

// edged is whether the counts of the house are in another process, with an edge before it.
func (d *drawer) edged() bool {
	stores := []string{"daemon redis", "daemon memcached", "daemon postgres", "daemon nats", "program client"}
	return slices.Contains(stores, d.story.house) || strings.HasPrefix(d.story.house, "program edge ")
}

// leasable leaves lease out of a rule that can't have it.
func leasable(r *oracle.Rule) {
	for _, l := range r.Limits {
		if limit, err := weir.ParseLimit(l.Text); err != nil || limit.Unleasable() != "" {
			r.Lease = ""
		}
	}
}

func (d *drawer) limit(after bool) oracle.Limit {
	count := pick[int64](d, 1, 2, 3, 5, 10, 10, 20, 100, 1000, 1_000_000_000)
	unit := pick(d, "s", "min", "h", "h", "day", "10s")
	text := ""
	switch n := d.IntN(20); {
	case n < 7 || after && n > 16:
		more := 1 + d.Int64N(count)
		text = fmt.Sprintf("%d/%s", count, unit)
		text += pick(d, "", "", fmt.Sprint(" burst ", more), fmt.Sprintf(" burst %d strict", more), fmt.Sprint(" debt ", more))
	case n < 12:
		if d.chance(15) {
			count = 4_000_000_000
		}
		unit = pick(d, "s", "min", "h", "day", "week", "month", "year")
		text = fmt.Sprintf("%d/%s fixed-window", count, unit) + pick(d, "", "", " count-denied")
		if unit != "month" && unit != "year" && d.chance(20) {
			text += " anchored"
		}
	case n < 15:
		text = fmt.Sprintf("%d/%s sliding-log", min(count, 1000), unit) + pick(d, "", "", " count-denied")
	case n < 17:
		text = fmt.Sprintf("%d/%s sliding-window", count, unit) + pick(d, "", " 6", " 10")
		text += pick(d, "", "", " relaxed", " conservative", " count-denied")
	case n < 18:
		text = fmt.Sprintf("%d/%s leaky-queue queue %d", count, unit, count)
	default:
		text = fmt.Sprintf("%d concurrent ttl %s", min(count, 100), pick(d, "10s", "1min", "1h"))
	}
	l, err := oracle.Parse(text)
	if err != nil {
		panic(err)
	}
	return l
}

// change is another version of rules: counts are others, and of a limit with a name perhaps
// all else.
func (d *drawer) change(of []oracle.Rule) (all []oracle.Rule) {
	for _, r := range of {
		r.Limits = slices.Clone(r.Limits)
		for i := range r.Limits {
			l := &r.Limits[i]
			switch {
			case d.chance(30):
			case l.Name != "" && l.Algorithm != "concurrent" && d.chance(25):
				for {
					next := d.limit(r.Mode == oracle.After)
					if next.Algorithm != "concurrent" {
						next.Name = l.Name
						*l = next
						break
					}
				}
			default:
				count := max(pick(d, l.Count/10, l.Count/2, l.Count*2, l.Count+1, 1), 1)
				l.Text = strings.Replace(l.Text, fmt.Sprint(l.Count), fmt.Sprint(count), 1)
				next, err := oracle.Parse(l.Text)
				if err != nil {
					panic(err)
				}
				next.Name = l.Name
				*l = next
			}
		}
		leasable(&r)
		if !d.chance(4) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return of
	}
	return all
}

func (d *drawer) step() {
	if kind, _ := storeOf(d.story.house); (kind == "parts" || kind == "program" && d.story.house != "program client") && d.chance(6) {
		d.story.steps = append(d.story.steps, d.exception())
		return
	}
	if d.ruled() && d.chance(25) {
		s := d.exception()
		switch {
		case len(d.excepted) > 0 && d.chance(40): // it ends, of somebody
			at := d.IntN(len(d.excepted))
			s = step{op: pick(d, "lapse", "except"), asks: []oracle.Descriptor{{Key: d.excepted[at].asks[0].Key, Value: d.excepted[at].asks[0].Value, Cost: 1}}, node: d.excepted[at].node}
			d.excepted = slices.Delete(d.excepted, at, at+1)
		case s.asks[0].Override != "":
			d.excepted = append(d.excepted, s)
		}
		d.story.steps = append(d.story.steps, s)
		return
	}
	var s step
	switch n := d.IntN(100); {
	case n < 62:
		s = d.check()
	case n < 76:
		if len(d.receipts) == 0 {
			return
		}
		s = d.settle()
	case n < 84:
		s = step{op: "reload", version: pick(d, "v1", "v1", "v2", "v3")}
	case n < 86:
		s = step{op: "reset", asks: []oracle.Descriptor{{Key: d.key(), Value: d.value()}}}
	case n < 95:
		s = step{op: pick(d, "clock", "wait"), by: d.time()}
		if s.op == "wait" || !strings.HasPrefix(d.story.house, "parts") {
			s.op, s.by = "wait", s.by.Abs()
		}
	case n < 97:
		s = d.event()
	case n < 99:
		from := d.IntN(300)
		s = step{op: "flood", listener: pick(d, "http", "program", "grpc", "http"), from: from, to: from + d.IntN(100)}
		s.asks = []oracle.Descriptor{d.descriptor(oracle.MaxCost)}
	default:
		s = step{op: "wait", by: time.Millisecond}
	}
	if s.op == "wait" && !strings.HasPrefix(d.story.house, "parts") {
		s.by = min(s.by, 3*time.Millisecond)
	}
	d.story.steps = append(d.story.steps, s)
}

// ruled is whether the rules come from a rule database.
func (d *drawer) ruled() bool {
	kind, _ := storeOf(d.story.house)
	return kind == "ruled"
}

// exception gives a key a limit of its own, or ends that. It is one that any rule of events can have.
func (d *drawer) exception() step {
	s := step{op: "except", asks: []oracle.Descriptor{{Key: d.key(), Value: d.value(), Cost: 1}}, node: d.IntN(2)}
	if d.chance(70) {
		count := pick[int64](d, 0, 1, 4, 15, 50, 200, 1000)
		text := fmt.Sprintf("%d/%s", count, pick(d, "s", "min", "h", "day"))
		s.asks[0].Override = text + pick(d, "", fmt.Sprint(" burst ", max(count, 1)), " fixed-window", " sliding-log", " sliding-window 5")
	}
	return s
}

// event is something that a house may know: else it is passed over.
func (d *drawer) event() step {
	house, store := storeOf(d.story.house)
	switch {
	case house == "cluster":
		return pick(d, step{op: "join"}, step{op: "leave", node: d.IntN(4)}, step{op: "kill", node: d.IntN(4)}, step{op: "restart"})
	case (house == "daemon" || house == "program") && slices.Contains([]string{"redis", "memcached", "postgres", "nats"}, store):
		return step{op: "store", what: pick(d, "freeze", "thaw", "thaw", "kill", "back", "back")}
	}
	return step{op: "restart"}
}

func (d *drawer) key() string { return pick(d, d.keys...) }

func (d *drawer) value() string { return pick(d, "a", "a", "a", "a", "b", "c", "f1", "f2") }

// time is how far a clock steps.
func (d *drawer) time() time.Duration {
	r := pick(d, d.story.rules[0].rules...)
	near := time.Second
	if len(r.Limits) > 0 {
		near = time.Duration(max(r.Limits[0].Period, r.Limits[0].TTL)) * time.Microsecond
	}
	by := pick(d, time.Microsecond, time.Millisecond, time.Second, 10*time.Second, time.Minute, 14*time.Minute, 15*time.Minute,
		near/3, near, near, near/10, 2*near+time.Second)
	if d.chance(15) {
		return -by
	}
	return by
}

func (d *drawer) check() step {
	s := step{op: "check", listener: pick(d, listeners...)}
	if d.ruled() {
		s.node = d.IntN(2)
	}
	if d.chance(45) {
		s.listener = pick(d, "http", "program") // which tell the most
	}
	most := int64(oracle.MaxCost)
	if s.listener != "http" && s.listener != "resp" {
		most = 1 << 33
	}
	asks := 1 + d.IntN(1+d.IntN(4))
	if s.listener == "resp" {
		asks = 1
	}
	for range asks {
		s.asks = append(s.asks, d.descriptor(most))
		if d.chance(12) && s.listener != "resp" {
			s.asks = append(s.asks, s.asks[len(s.asks)-1])
		}
	}
	if (s.listener == "grpc" || s.listener == "json") && d.chance(15) {
		s.asks[0].Override = pick(d, "5/h fixed-window", "3/min fixed-window", "100/s fixed-window")
	}
	if s.listener != "http" && s.listener != "program" {
		return s
	}
	s.peek = d.chance(8)
	if d.chance(50) {
		d.given++
		s.receipt = fmt.Sprint("r", d.given)
		var costs []int64
		for _, a := range s.asks {
			costs = append(costs, a.Cost)
		}
		d.receipts = append(d.receipts, drawnReceipt{s.receipt, costs})
	}
	return s
}

func (d *drawer) descriptor(most int64) oracle.Descriptor {
	a := oracle.Descriptor{Key: d.key(), Value: d.value(), Cost: 1}
	count := int64(10)
	for _, r := range d.story.rules[0].rules {
		if r.Key == a.Key && len(r.Limits) > 0 {
			count = pick(d, r.Limits...).Count
		}
	}
	switch n := d.IntN(100); {
	case n < 35:
	case n < 55:
		a.Cost = 1 + d.Int64N(5)
	case n < 85:
		a.Cost = pick(d, count, count/2, count*9/10, count+1, max(count-1, 0), count/3)
	case n < 88:
		a.Cost = 0
	case n < 94:
		a.Cost = pick[int64](d, oracle.MaxCost, oracle.MaxCost+1, 1<<31+5, 1<<32)
	default:
		a.Cost = pick[int64](d, 1_000_000_000, 100, 1000)
	}
	a.Cost = min(a.Cost, most)
	return a
}

func (d *drawer) settle() step {
	at := d.IntN(len(d.receipts))
	if d.chance(50) {
		at = len(d.receipts) - 1
	}
	r := d.receipts[at]
	if d.chance(60) {
		d.receipts = slices.Delete(d.receipts, at, at+1)
	}
	s := step{op: "settle", receipt: r.name}
	each := func(cost int64) int64 {
		return min(max(pick(d, 0, 0, cost, cost/2, cost-1, cost+1, cost*10, cost+100, 1), 0), oracle.MaxCost)
	}
	if d.chance(50) {
		s.used = []int64{each(r.costs[0])}
		return s
	}
	for _, cost := range r.costs {
		s.used = append(s.used, each(cost))
	}
	return s
}
