package offenders

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// cells is how many numbers of a Sketch tell of the names that it does not keep.
const cells = 512

// Sketch counts the names that come most often, with room for few of them. It
// is Filtered Space-Saving (Homem and Carvalho: Finding top-k elements in data
// streams, 2010), which is Space-Saving (Metwally, Agrawal and El Abbadi, ICDT
// 2005) behind a filter: a flood of new names costs less, and blurs less. With n
// events recorded in room for k names, of each name that is kept
//
//	Count − Error ≤ events of this name ≤ Count, and Error ≤ n/k
//
// and no name that is not kept had more than Least events, which is at most
// n/k, too. Make it with NewSketch.
type Sketch struct {
	room   int
	total  int64
	names  [][]byte // whose memory is used again
	hashes []uint64 // of them
	counts []int64  // alone, for they are searched
	errors []int64
	// index finds names: behind the place of a hash, up to the first 0, are those
	// that have it, as 1 and where they are in the slices. Half of it is empty.
	index []int32
	// smallest is the smallest count when it was last looked for, and none before
	// at has it any more.
	smallest int64
	at       int

	seed maphash.Seed
	// others is by the hash of a name the most events that any name of this hash
	// can have had that is not kept. None is more than the smallest count.
	others [cells]int64
}

// Count is a name and how often it came: at most N, at least N − Error.
type Count struct {
	Name     string
	N, Error int64
}

// NewSketch makes an empty sketch with room for so many names, 1 or more.
func NewSketch(room int) *Sketch {
	return &Sketch{room: room, index: make([]int32, 1<<bits.Len(uint(2*room))), seed: maphash.MakeSeed()}
}

// Add records events of a name. It keeps nothing of it.
func (s *Sketch) Add(name []byte, events int64) { s.add(name, events) }

// add is Add. at is where the name is in the slices, and fresh whether it was not there before; at is -1 where it is not kept.
func (s *Sketch) add(name []byte, events int64) (at int, fresh bool) {
	s.total += events
	hash := s.hash(name)
	if i, ok := s.find(hash, name); ok {
		s.counts[i] += events
		return i, false
	}
	if len(s.names) < s.room {
		s.keep(name, events, 0)
		return len(s.names) - 1, true
	}
	before := &s.others[cellOf(hash)]
	if *before+events <= s.least() {
		*before += events
		return -1, false
	}
	i, uncertain := s.at, *before
	s.others[cellOf(s.hashes[i])] = s.counts[i]
	s.unlink(i)
	s.names[i], s.hashes[i] = append(s.names[i][:0], name...), hash
	s.counts[i], s.errors[i] = uncertain+events, uncertain
	s.link(i)
	return i, true
}

func (s *Sketch) hash(name []byte) uint64 { return maphash.Bytes(s.seed, name) }

// cellOf is by other bits of a hash than the index.
func cellOf(hash uint64) uint64 { return hash >> 32 % cells }

func (s *Sketch) keep(name []byte, n, uncertain int64) {
	s.names, s.hashes = append(s.names, bytes.Clone(name)), append(s.hashes, s.hash(name))
	s.counts, s.errors = append(s.counts, n), append(s.errors, uncertain)
	s.link(len(s.names) - 1)
}

// place is a place of the index, whose length is a power of two.
func (s *Sketch) place(n uint64) uint64 { return n & uint64(len(s.index)-1) }

// find is where a name is in the slices.
func (s *Sketch) find(hash uint64, name []byte) (i int, ok bool) {
	for at := s.place(hash); s.index[at] != 0; at = s.place(at + 1) {
		if i = int(s.index[at]) - 1; s.hashes[i] == hash && bytes.Equal(s.names[i], name) {
			return i, true
		}
	}
	return 0, false
}

// link puts the i-th name into the index.
func (s *Sketch) link(i int) {
	at := s.place(s.hashes[i])
	for s.index[at] != 0 {
		at = s.place(at + 1)
	}
	s.index[at] = int32(i + 1)
}

// unlink takes the i-th name out of the index, and moves those behind it up that
// would not be found behind an empty place.
func (s *Sketch) unlink(i int) {
	gap := s.place(s.hashes[i])
	for s.index[gap] != int32(i+1) {
		gap = s.place(gap + 1)
	}
	for at := s.place(gap + 1); s.index[at] != 0; at = s.place(at + 1) {
		home := s.hashes[s.index[at]-1]
		if s.place(at-home) >= s.place(at-gap) {
			s.index[gap], gap = s.index[at], at
		}
	}
	s.index[gap] = 0
}

// least is the smallest count, and sets at to where it is. Counts only grow, so
// as long as there are others like the last one, the search goes on from there:
// a flood of names takes a step each.
func (s *Sketch) least() int64 {
	if s.counts[s.at] == s.smallest {
		return s.smallest
	}
	for i := s.at + 1; i < len(s.counts); i++ {
		if s.counts[i] == s.smallest {
			s.at = i
			return s.smallest
		}
	}
	s.smallest = slices.Min(s.counts)
	s.at = slices.Index(s.counts, s.smallest)
	return s.smallest
}

// Total is the events of all names.
func (s *Sketch) Total() int64 { return s.total }

// Least is the most events that a name can have had that is not kept. 0: all
// names are kept, and their counts are exact.
func (s *Sketch) Least() int64 {
	if len(s.names) < s.room {
		return 0
	}
	return slices.Min(s.counts)
}

// Top is the first n names by their counts, of equal ones those that are
// surer, and then by name.
func (s *Sketch) Top(n int) []Count {
	all := make([]Count, len(s.names))
	for i, name := range s.names {
		all[i] = Count{string(name), s.counts[i], s.errors[i]}
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

// Merge is a sketch of the events of both, with the room of s, and the same
// promise for the sum of them, if both have the same room (Agarwal and others:
// Mergeable Summaries, PODS 2012; Cafaro and others, 2016): a name that one of
// them does not keep had there at most its Least.
func (s *Sketch) Merge(o *Sketch) *Sketch {
	both := s.union(o)
	merged := NewSketch(s.room)
	for _, c := range both.Top(s.room) {
		merged.keep([]byte(c.Name), c.N, c.Error)
	}
	merged.total = s.total + o.total
	least := merged.Least()
	for i := range merged.others {
		merged.others[i] = least
	}
	return merged
}

// union has all names that one of both has. A name that it does not have had at most the sum of their Leasts.
func (s *Sketch) union(o *Sketch) *Sketch {
	both := NewSketch(len(s.names) + len(o.names) + 1)
	least, leastOfOther := s.Least(), o.Least()
	for i, name := range s.names {
		n, uncertain := leastOfOther, leastOfOther
		if j, ok := o.find(o.hash(name), name); ok {
			n, uncertain = o.counts[j], o.errors[j]
		}
		both.keep(name, s.counts[i]+n, s.errors[i]+uncertain)
	}
	for j, name := range o.names {
		if _, ok := s.find(s.hash(name), name); !ok {
			both.keep(name, o.counts[j]+least, o.errors[j]+least)
		}
	}
	return both
}
