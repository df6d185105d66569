package rules

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of Denials.
const (
	// MaxDenials is how many denials are kept at a time. Then later ones take
	// the places of earlier ones.
	MaxDenials = shards * shardSize
	// MaxDenial is how many bytes of one are kept: the words of its request, and
	// the states of its counts. A larger one is kept with its id alone.
	MaxDenial = 8 << 10
	// DenialLife is how long a denial is kept.
	DenialLife = 15 * time.Minute
	// MaxVersions is how many versions of the rules are kept for denials, those in
	// force and such as have denied something that is kept; MaxVersionRules is how many
	// rules the latter have together. With older ones, what they denied is forgotten.
	MaxVersions     = 4
	MaxVersionRules = 1 << 17
)

// The more shards, the fewer requests meet another one at theirs; the larger they are, the more
// denials it takes to overwrite those of a quiet rule. A shard is searched from end to end when a
// denial comes, so its 16 heads lie together in 512 bytes.
const (
	shards    = 256
	shardSize = 16
)

// Denials are the last denials of one Limiter, for Limiter.Recall. Make them
// with NewDenials; all methods may be called from many goroutines.
//
// They lie in 256 shards of 16. The key of the count that denied picks the shard, so that a
// client that is denied all the time overwrites its own denials, and few others. In a full shard
// the oldest denial of the rule that has the most there is overwritten, so that a flood of keys of one
// rule leaves those of other rules alone. Nobody waits for a shard: a denial that meets another
// one there at the same instant is not kept.
//
// A limiter keeps a denial in three places, each as large as it must be:
//
//	versions   the rules that decided, shared by all denials of their time
//	head       id, instant, version: what a place is chosen and found by
//	body       the request and the states of its counts, as one text
type Denials struct {
	// seed is secret, so that no client can choose its shard and overwrite what is kept there.
	seed   maphash.Seed
	shards [shards]shard
	// missed counts denials that were not kept at all.
	missed atomic.Int64
	// mu is held to change versions; a shard's lock may be taken under it, and never the other
	// way round.
	mu sync.Mutex
	// newest is the number of the active rules; 0 before there are any.
	newest uint32
	// versions are by their number modulo MaxVersions. They are read without mu: a place
	// may hold an older or a later version than the one looked for, so a reader compares
	// what it finds.
	versions [MaxVersions]atomic.Pointer[version]
}

// version is rules that are active, or were. It never changes.
type version struct {
	// number is from 1 on, one more for each Limiter.Replace with other rules. A denial has it, and
	// not a pointer to the rules, so that it keeps no rules alive.
	number uint32
	set    *Set
	// since is when they became active, so until when those before were: Sweep goes by it.
	since time.Time
}

// NewDenials makes an empty Denials. It takes memory as denials come: at most
// about MaxDenials × MaxDenial, 32 MiB.
func NewDenials() *Denials { return &Denials{seed: maphash.MakeSeed()} }

// use makes room for the denials of set, which becomes active. The same set again is no new version.
func (d *Denials) use(set *Set, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.versions[d.newest%MaxVersions].Load(); v != nil && v.set == set {
		return
	}
	d.newest++
	d.versions[d.newest%MaxVersions].Store(&version{d.newest, set, now})
	d.dropVersions()
}

// dropVersions forgets the rules of before by which no denial is explained, and the
// oldest where they are too many. Its caller holds d.mu.
func (d *Denials) dropVersions() {
	var needed [MaxVersions]bool
	for i := range d.shards {
		d.shards[i].need(&needed)
	}
	many := 0
	for back := uint32(1); back < MaxVersions; back++ {
		v := &d.versions[(d.newest-back)%MaxVersions]
		old := v.Load()
		if old == nil {
			continue
		}
		if many += len(old.set.rules); many > MaxVersionRules || !needed[old.number%MaxVersions] {
			v.Store(nil)
		}
	}
}

// of is the last version that set is, or nil when it is too old. The rules that decided may have
// been replaced since, while the store was asked.
func (d *Denials) of(set *Set) *version {
	var last *version
	for i := range d.versions {
		if v := d.versions[i].Load(); v != nil && v.set == set && (last == nil || v.number > last.number) {
			last = v
		}
	}
	return last
}

// keep keeps what r was denied for, if nobody else is at the shard. It comes after the answer
// is made and before the client has it, so it neither waits nor allocates in the usual case: a
// flood of denials is when it is called most.
//
// The count that decided picks the shard, by its rule and its key. So the denials of one key
// overwrite each other, and not those of other clients.
func (d *Denials) keep(set *Set, r *Request, t *take, a *Answer) {
	v := d.of(set)
	if v == nil {
		d.missed.Add(1)
		return
	}
	h := head{id: a.id, at: t.evidence[0].At, version: v.number, kept: whole}
	if !t.hasEvidence() { // who decided in the store's place tells nothing
		h.at, h.kept = weir.InstantOf(time.Now()), noEvidence
	}
	decisive := &a.Decisions[a.Decisive]
	rule := maphash.String(d.seed, decisive.Rule.Name)
	key := maphash.String(d.seed, t.meets[decisive.Descriptor].key)
	sh := &d.shards[(rule*3+key)%shards]
	if !sh.mu.TryLock() { // a denial less is kept, rather than a request held up
		d.missed.Add(1)
		return
	}
	defer sh.mu.Unlock()
	h.rule = uint32(rule >> 32)
	i := sh.place(h)
	switch {
	case h.kept == noEvidence:
		sh.bodies[i].erase()
		sh.noEvidence++
	case !sh.bodies[i].write(r, t.evidence, t.rules):
		sh.heads[i].kept = tooLarge
		sh.large++
	}
}

// Sweep forgets the denials and rules whose time is over. The answers of Recall do not depend on
// it, but the use of memory does: call it now and then.
func (d *Denials) Sweep(now time.Time) {
	for i := range d.shards {
		d.shards[i].sweep(weir.InstantOf(now))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.versions {
		v := d.versions[i].Load()
		if v == nil || v.number == d.newest {
			continue
		}
		next := d.versions[(v.number+1)%MaxVersions].Load()
		if next == nil || now.Sub(next.since) > DenialLife {
			d.versions[i].Store(nil)
		}
	}
	d.dropVersions()
}

// find is the head and a copy of the body of a denial. It looks through all shards, for an id
// does not tell which: operators ask it, and requests never do.
func (d *Denials) find(id uint64) (head, body, bool) {
	for i := range d.shards {
		if h, b, ok := d.shards[i].find(id); ok {
			return h, b, true
		}
	}
	return head{}, body{}, false
}

// DenialStats are counts of a Denials since it was made.
type DenialStats struct {
	// Kept is how many can be explained at the moment, with those that Sweep will soon forget.
	Kept int
	// Overwritten were kept whole, and gave their place to others before their time was over.
	Overwritten int64
	// Large were larger than MaxDenial: of them the id is known, and no more.
	Large int64
	// NoEvidence were decided by a fallback, or by several servers: of them the id is known, too.
	NoEvidence int64
	// Missed met another one at the shard, or were decided by rules long gone. Nothing is known of
	// them.
	Missed int64
}

// Stats adds up the counts of all shards.
func (d *Denials) Stats() DenialStats {
	s := DenialStats{Missed: d.missed.Load()}
	for i := range d.shards {
		d.shards[i].stats(&s)
	}
	return s
}
