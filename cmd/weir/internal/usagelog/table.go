package usagelog

import (
	"crypto/sha256"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

const (
	// MaxKeys is how many keys of all rules are told apart in an interval. What is counted for
	// others is added up for each rule.
	MaxKeys = 65_536
	// maxKey is how many bytes a key has at most that no rule made; a digest stands for a longer
	// one.
	maxKey = 64
	// shards is how many parts the table has, each with its lock.
	shards = 64
)

// Counts is what is counted of a rule and key.
type Counts struct {
	// Allowed, Denied and Impossible are decisions, Degraded those of them that a fallback made.
	Allowed, Denied, Impossible, Degraded int64
	// AllowedEvents and DeniedEvents are the costs of the first two, added up.
	AllowedEvents, DeniedEvents int64
	// Charged is the events that the limit counts as used: those of decisions that allowed, where
	// no other limit of the request denied it, and of work that was reported.
	Charged int64
	// Settled is how many charges were settled, GivenBack and ChargedMore the events by which
	// these became less and more.
	Settled, GivenBack, ChargedMore int64
}

// Add adds what o has.
func (c *Counts) Add(o *Counts) {
	c.Allowed += o.Allowed
	c.Denied += o.Denied
	c.Impossible += o.Impossible
	c.Degraded += o.Degraded
	c.AllowedEvents += o.AllowedEvents
	c.DeniedEvents += o.DeniedEvents
	c.Charged += o.Charged
	c.Settled += o.Settled
	c.GivenBack += o.GivenBack
	c.ChargedMore += o.ChargedMore
}

// decided counts a decision about cost events.
func (c *Counts) decided(d *weir.Decision) {
	switch d.Outcome {
	case weir.Allowed:
		c.Allowed++
		c.AllowedEvents += d.Cost
	case weir.Denied:
		c.Denied++
		c.DeniedEvents += d.Cost
	case weir.Impossible:
		c.Impossible++ // its cost may be anything that a client writes
	}
	if d.Degraded != "" {
		c.Degraded++
	}
	if d.Charged {
		c.Charged += d.Cost
	}
}

// settled counts a charge that was settled.
func (c *Counts) settled(s *weir.Settlement) {
	c.Settled++
	c.GivenBack += max(s.Receipt.Cost-s.Charged, 0)
	c.ChargedMore += max(s.Charged-s.Receipt.Cost, 0)
}

// ID tells rules apart. Rules of one name in a domain are counted together.
type ID struct {
	Domain, Rule string
	Shadow       bool
}

// Rule counts what one rule decides. Log.Open makes it. Its methods may be called from many
// goroutines, and may be called on nil, which counts nothing.
type Rule struct {
	id   ID
	log  *Log
	salt uint64 // of the hashes of its rows
}

// Decided counts a decision of the rule about a descriptor with these entries.
func (r *Rule) Decided(d *rules.Decision, entries []rules.Entry) {
	if r == nil {
		return
	}
	s, to := r.log.table.find(r, d.Key)
	if to == nil {
		to = r.log.table.begin(s, r, d.Key, func() (text, name string) {
			text = d.Rule.KeyText(d.Key)
			if hashed(text) {
				name = nameOf(d.Rule.AppendKeyName(nil, entries))
			}
			return text, name
		})
	}
	to.decided(&d.Decision)
	s.mu.Unlock()
}

// Throttled counts a decision about a key that no rule has made.
func (r *Rule) Throttled(key string, d *weir.Decision) {
	if r == nil {
		return
	}
	whole := key
	if len(key) > maxKey || key != "" && key[0] == otherKey[0] {
		digest := sha256.Sum256([]byte(key))
		key = otherKey + string(digest[:])
	}
	s, to := r.log.table.find(r, key)
	if to == nil {
		to = r.log.table.begin(s, r, key, func() (text, name string) {
			if key != whole {
				return digestText([]byte(key[1:])), nameOf([]byte(whole))
			}
			return key, ""
		})
	}
	to.decided(d)
	s.mu.Unlock()
}

// Settled counts a settlement of a charge of the rule. made is the rule as the files have it; nil:
// the rule is gone, and the charge is counted without its key.
func (r *Rule) Settled(s *weir.Settlement, made *rules.Rule) {
	if r == nil || s.Renew {
		return
	}
	key := s.Receipt.State.Key
	if made == nil {
		key = otherKey
	}
	part, to := r.log.table.find(r, key)
	if to == nil {
		to = r.log.table.begin(part, r, key, func() (text, name string) { return made.KeyText(key), "" })
	}
	to.settled(s)
	part.mu.Unlock()
}

// nameOf is a name as it is kept beside a digest.
func nameOf(name []byte) string { return string(offenders.Shorten(name)) }

// table has a row for each rule and key that is counted. A row stays as long as it is counted in
// each interval, so that a known key costs no memory.
type table struct {
	seed   maphash.Seed
	shards [shards]shard

	keys  atomic.Int64 // that this interval has, without those counted together
	bytes atomic.Int64 // that their records will take, about
	other atomic.Int64 // keys' turns that found no room, since the start
}

// shard is a part of a table.
type shard struct {
	mu sync.Mutex
	// rows are by a hash of rule and key, which is worked out once for shard and row. Rows with one
	// hash follow each other.
	rows map[uint64]*row
}

// otherKey stands for all keys of a rule that are not told apart. No key of a count is so: one that
// begins with this byte has 32 more.
const otherKey = "\xff"

// row is what was counted in the interval that goes on.
type row struct {
	Counts

	now  bool // it has been counted in this interval
	rule *Rule
	key  string // of a count, or otherKey
	next *row   // another one with its hash

	text, name string // of the key
}

// room is how many bytes its record takes, about.
func (r *row) room() int64 {
	return int64(recordRoom + 2*(len(r.rule.id.Domain)+len(r.rule.id.Rule)+len(r.text)+len(r.name)))
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].rows = map[uint64]*row{}
	}
	return t
}

func (t *table) hash(r *Rule, key string) uint64 { return maphash.String(t.seed, key) ^ r.salt }

// find is the row of a key, if it is counted already, and its shard, which is then locked: the
// caller unlocks it.
func (t *table) find(r *Rule, key string) (*shard, *row) {
	hash := t.hash(r, key)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	if to := s.rows[hash].of(r, key); to != nil && to.now {
		return s, to
	}
	return s, nil
}

// of is the row of a key among r and those that follow it; nil: there is none.
func (r *row) of(rule *Rule, key string) *row {
	for ; r != nil; r = r.next {
		if r.rule == rule && r.key == key {
			return r
		}
	}
	return nil
}

// begin is the row of a key that this interval has not counted yet, or that of the rule's other
// keys when there is no room. s is the shard of key, and locked.
func (t *table) begin(s *shard, r *Rule, key string, words func() (text, name string)) *row {
	if key != otherKey && t.keys.Add(1) > MaxKeys {
		t.keys.Add(-1)
		t.other.Add(1)
		key = otherKey // in this shard: there is one such row of a rule in each
	}
	hash := t.hash(r, key)
	to := s.rows[hash].of(r, key)
	if to == nil {
		to = &row{rule: r, key: otherKey, next: s.rows[hash]}
		if key != otherKey {
			to.key = strings.Clone(key) // which may be a part of a whole request
			to.text, to.name = words()
			if to.text == key {
				to.text = to.key
			}
			to.text, to.name = r.log.shown(to.text, to.name)
		}
		s.rows[hash] = to
	}
	if !to.now {
		to.now = true
		t.bytes.Add(to.room())
	}
	return to
}

// ended is a row of an interval that has ended.
type ended struct {
	rule *Rule
	Counts

	text, name string
	other      bool
}

// take ends the interval and is what it has counted. Rows that it did not count go, and all go when
// they take more than half of the room, so that the next interval has room for keys of its own.
func (t *table) take() []ended {
	all := make([]ended, 0, t.keys.Load()+1)
	others := map[*Rule]*Counts{}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for hash, first := range s.rows {
			var kept *row
			for r := first; r != nil; {
				next := r.next
				if r.now {
					all = t.end(r, all, others)
					r.next, kept = kept, r
				}
				r = next
			}
			if kept == nil {
				delete(s.rows, hash)
			} else {
				s.rows[hash] = kept
			}
		}
		if len(s.rows) > MaxKeys/shards/2 {
			clear(s.rows)
		}
		s.mu.Unlock()
	}
	for rule, c := range others {
		all = append(all, ended{rule: rule, Counts: *c, other: true})
	}
	return all
}

// end appends what a row has counted to all, or adds it to that of the rule's other keys, and makes the
// row ready for the next interval.
func (t *table) end(r *row, all []ended, others map[*Rule]*Counts) []ended {
	if r.key == otherKey {
		if others[r.rule] == nil {
			others[r.rule] = new(Counts)
		}
		others[r.rule].Add(&r.Counts)
	} else {
		all = append(all, ended{rule: r.rule, Counts: r.Counts, text: r.text, name: r.name})
		t.keys.Add(-1)
	}
	t.bytes.Add(-r.room())
	r.Counts, r.now = Counts{}, false
	return all
}
