package record

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// How many settled receipts are remembered, of one rule and in all; each takes some
// 16 bytes until it expires. A rule that has so many gives out no new ones. Where
// those that were out already are settled, too, up to twice as many are remembered;
// then those that end first are forgotten, and all that end with them have expired.
// Where there are too many in all, this is so for rules that have more than an even
// part of them.
const (
	MaxRuleReceipts = 1 << 22
	MaxReceipts     = 1 << 23
)

// Receipts remember which receipts were settled until they have expired, so that
// each works once. Permits are not among them: a permit tells by itself whether it
// was freed. The zero Receipts are empty. Methods may be called from many goroutines.
//
// A receipt that was settled and is forgotten too early would give back twice. So before
// a page may be forgotten, either its receipts have expired, or its minute is noted in a
// book as cut: receipts that end by then count as expired, settled or not.
type Receipts struct {
	mu   sync.Mutex
	seed maphash.Seed
	// pages are by the minute in which receipts may be forgotten, and by rule: so that
	// what has expired goes by the page, and one rule can't push out another's.
	pages   map[weir.Instant]map[string]page
	rules   map[string]*book // of rules with something remembered
	refused int64            // takes that Room refused, since the process began
	swept   weir.Instant     // pages up to this minute are forgotten

	// These two are written with mu, and read without it by plenty.
	settled atomic.Int64 // in all pages
	seen    atomic.Int64 // the minute of the last look

	// PerRule and InAll are the bounds. 0: MaxRuleReceipts and MaxReceipts.
	PerRule, InAll int
}

// page is the settled receipts of one rule that end in one minute, by a hash.
type page map[uint64]struct{}

// book is what is remembered of one rule.
type book struct {
	settled int          // in all pages of the rule
	cut     weir.Instant // pages up to this minute were forgotten before their time; 0: none
}

const minute weir.Instant = 60_000_000

// Room fails where asks want a receipt of a rule that gives out none for now, with an
// AskError that is weir.ErrFull.
func (r *Receipts) Room(now weir.Instant, asks []weir.Ask) error {
	for i := range asks {
		if a := &asks[i]; a.Receipt == 0 || a.Peek || a.After || a.Cost == 0 || a.Limit.Algorithm() == weir.Concurrent {
			continue
		}
		if err := r.room(now, asks[i].State.Rule); err != nil {
			return err
		}
	}
	return nil
}

func (r *Receipts) room(now weir.Instant, rule string) error {
	if r.plenty(now) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	if r.full(rule, 1) {
		r.refused++
		return badAsk("rule %q: %w", rule, weir.ErrFull)
	}
	return nil
}

// plenty is whether no rule can be full, and nothing is to be swept. It takes no lock, since every
// take with a receipt asks.
func (r *Receipts) plenty(now weir.Instant) bool {
	ofRule, all := r.bounds()
	return weir.Instant(r.seen.Load()) == now/minute && int(r.settled.Load()) < min(ofRule, all)
}

func (r *Receipts) bounds() (ofRule, all int) {
	if r.InAll == 0 {
		return MaxRuleReceipts, MaxReceipts
	}
	return r.PerRule, r.InAll
}

// full is whether a rule has so many times what is allowed.
func (r *Receipts) full(rule string, times int) bool {
	b := r.rules[rule]
	if b == nil {
		return false
	}
	ofRule, all := r.bounds()
	return b.settled >= times*ofRule || int(r.settled.Load()) >= times*all && b.settled*len(r.rules) >= times*all
}

// Check fails with weir.ErrSettled where a receipt was settled before, and with
// weir.ErrExpired where that is not known any more.
func (r *Receipts) Check(now weir.Instant, settlements []weir.Settlement) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check(now, settlements)
}

func (r *Receipts) check(now weir.Instant, settlements []weir.Settlement) error {
	r.sweep(now)
	for i := range settlements {
		receipt := settlements[i].Receipt
		if receipt.Limit.Algorithm() == weir.Concurrent {
			continue
		}
		end, rule := endOf(receipt), receipt.State.Rule
		if _, ok := r.pages[end][rule][r.hash(receipt)]; ok || twice(settlements[:i], receipt) {
			return weir.ErrSettled
		}
		if b := r.rules[rule]; now < receipt.Expires && (end <= r.swept || b != nil && end <= b.cut) {
			return weir.ErrExpired
		}
	}
	return nil
}

// twice is whether a receipt is among those before it of the same call.
func twice(before []weir.Settlement, receipt *weir.Receipt) bool {
	return slices.ContainsFunc(before, func(st weir.Settlement) bool {
		return st.Receipt.ID == receipt.ID && st.Receipt.State == receipt.State
	})
}

// Settle is Check, and remembers receipts that pass it as settled. It does not remember receipts
// that are renewed, or have expired.
func (r *Receipts) Settle(now weir.Instant, settlements []weir.Settlement) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(now, settlements); err != nil {
		return err
	}
	for i := range settlements {
		st := &settlements[i]
		if st.Renew || now >= st.Receipt.Expires || st.Receipt.Limit.Algorithm() == weir.Concurrent {
			continue
		}
		r.add(st.Receipt)
	}
	return nil
}

func (r *Receipts) add(receipt *weir.Receipt) {
	if r.pages == nil {
		r.pages, r.rules = map[weir.Instant]map[string]page{}, map[string]*book{}
	}
	end, rule := endOf(receipt), receipt.State.Rule
	b := r.rules[rule]
	if b == nil {
		b = &book{}
		r.rules[rule] = b
	}
	if r.full(rule, 2) {
		r.cut(rule, b)
	}
	if r.pages[end] == nil {
		r.pages[end] = map[string]page{}
	}
	p := r.pages[end][rule]
	if p == nil {
		p = page{}
		r.pages[end][rule] = p
	}
	p[r.hash(receipt)] = struct{}{}
	b.settled++
	r.settled.Add(1)
}

// cut forgets those of a rule that end first.
func (r *Receipts) cut(rule string, b *book) {
	first := weir.Instant(0)
	for end, rules := range r.pages {
		if rules[rule] != nil && (first == 0 || end < first) {
			first = end
		}
	}
	r.forget(first, rule)
	b.cut = max(b.cut, first)
}

// forget forgets a page.
func (r *Receipts) forget(end weir.Instant, rule string) {
	n := len(r.pages[end][rule])
	r.settled.Add(-int64(n))
	r.rules[rule].settled -= n
	delete(r.pages[end], rule)
}

// sweep forgets pages whose minute is over. A minute is over when two looks in
// different minutes say so, since a clock may be ahead for a moment.
func (r *Receipts) sweep(now weir.Instant) {
	this := now / minute
	seen := weir.Instant(r.seen.Load())
	if this == seen {
		return
	}
	over := min(this, seen)
	r.seen.Store(int64(this))
	if over <= r.swept {
		return
	}
	r.swept = over
	for end, rules := range r.pages { // one entry a minute of a receipt's life
		if end > over {
			continue
		}
		for rule := range rules {
			r.forget(end, rule)
		}
		delete(r.pages, end)
	}
	for rule, b := range r.rules {
		if b.settled == 0 && b.cut <= over {
			delete(r.rules, rule)
		}
	}
}

// endOf is the minute in which a receipt may be forgotten.
func endOf(receipt *weir.Receipt) weir.Instant { return receipt.Expires/minute + 1 }

// hash tells the receipts of one page apart: those of one take have one id.
func (r *Receipts) hash(receipt *weir.Receipt) uint64 {
	if r.seed == (maphash.Seed{}) {
		r.seed = maphash.MakeSeed()
	}
	return receipt.ID ^ maphash.String(r.seed, receipt.State.Key)
}

// Count is how many settled receipts are remembered, and how many were refused.
func (r *Receipts) Count() (settled int, refused int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.settled.Load()), r.refused
}

// Own makes a receipt one of what its caller asked. A store may have decided under another key, and by a limit of
// the same text.
func Own(d *weir.Decision, a *weir.Ask) {
	if d.Receipt == nil {
		return
	}
	r := *d.Receipt
	r.State = a.State
	if r.Limit.String() == a.Limit.String() {
		r.Limit = a.Limit
	}
	d.Receipt = &r
}

// NoRefunds fails with weir.ErrNoRefund where a settlement gives back what has no receipt.
func NoRefunds(settlements []weir.Settlement) error {
	if slices.ContainsFunc(settlements, func(s weir.Settlement) bool { return s.Receipt.IsRefund() }) {
		return weir.ErrNoRefund
	}
	return nil
}
