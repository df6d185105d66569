package size

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir"
)

// footprint is what a key costs: a part for the key, and so much for each unit
// that its state has beyond the first of its kind.
type footprint struct {
	bytes int64
	each  int64 // bytes, in tenths
}

// shape is the kinds of states that cost differently.
type shape uint8

const (
	bucket  shape = iota // two words: an instant and a fraction
	window               // an index and counts
	warm                 // warm-up
	parts                // a sliding window of 2 and more; units are words of counts beyond those of 6
	stamps               // a log; units are stamps beyond the first
	holders              // permits; units are holders beyond the first
)

// memory is bytes of a key in use. The unit of parts is from two of the lines of its
// command: 6 and 60 sub-windows, which are 27 words apart.
var memory = map[Store]map[shape]footprint{
	Memory: { // make bench-memory: the most of 10,000, 100,000 and 1,000,000 keys
		bucket: {39, 0}, window: {39, 0}, warm: {73, 0}, parts: {73, 124}, stamps: {68, 80}, holders: {68, 240},
	},
	Redis: { // make bench-store-memory
		bucket: {198, 0}, window: {214, 0}, parts: {230, 89}, stamps: {198, 80}, holders: {230, 240},
	},
	Memcached: { // go test ./memcachestore -run '^$' -bench Memory; pages of slabs included
		bucket: {200, 0}, window: {200, 0}, parts: {240, 100},
	},
	NATS: { // go test ./cmd/weir/internal/natsstoretest -run '^$' -bench Memory; in memory, or a file with its index
		bucket: {520, 0}, window: {530, 0}, parts: {560, 80}, holders: {540, 240},
	},
	Postgres: { // go test ./pgstore -run '^$' -bench Memory -benchtime 1x; on disk, with the index
		bucket: {371, 0}, window: {371, 0}, parts: {446, 158}, holders: {411, 480},
	},
}

// take is what one limit of a request costs with a store outside of the process.
// CPU is of takes that travel together, as they do when it matters; network is of
// one that travels alone, which is the most.
type take struct {
	store   int64 // ns of the server's processor
	own     int64 // ns of the node's
	network int64 // bytes both ways
}

// takes are of go test ./cmd/weir/internal/size -run '^$' -bench Take -benchtime 3x, on
// two processors of 2.1 GHz.
var takes = map[Store]struct{ plain, other take }{
	Redis:     {plain: take{4_400, 4_200, 253}, other: take{10_400, 6_300, 308}},
	Memcached: {plain: take{4_600, 16_000, 228}, other: take{4_600, 16_000, 329}},
	NATS:      {plain: take{21_000, 26_000, 450}, other: take{21_000, 26_000, 550}}, // make bench-stores
	Postgres:  {plain: take{16_000, 18_000, 1_103}, other: take{16_000, 18_000, 1_200}},
}

const (
	// callCPU is ns of the node's processor for a call with one limit in memory:
	// gRPC, 64 in flight, of make bench-daemon.
	callCPU = 2_200
	// moreCPU is that of each further limit: a call of three beside one, of the
	// same.
	moreCPU = 1_000
	// daemonMemory is the daemon itself, of docs/operating.md#memory.
	daemonMemory = 20_000_000
	// load is how much of a processor is planned for, in percent: the rest is for
	// peaks.
	load = 60
	// serverMemory is how much one server is taken to have. It is an assumption.
	serverMemory = 64_000_000_000
	// serverProcessors is how many processors a server of PostgreSQL is taken to have, which are all of
	// use. It is an assumption, too.
	serverProcessors = 8
)

// shapeOf is the shape of a limit's state, and how many units it has beyond the
// first, at most.
func shapeOf(l *weir.Limit) (s shape, units int64) {
	spec := l.Spec()
	switch spec.Algorithm {
	case weir.SlidingWindow:
		if spec.SubWindows <= 1 {
			return window, 0
		}
		return parts, (spec.SubWindows+2)/2 - 4
	case weir.SlidingLog:
		return stamps, max(spec.Count, 1) - 1
	case weir.Concurrent:
		return holders, max(spec.Count, 1) - 1
	case weir.FixedWindow:
		return window, 0
	case weir.WarmUp:
		return warm, 0
	default:
		return bucket, 0
	}
}

// keyBytes is what a key of a limit takes at most. It is false when the store can't keep
// the limit.
func keyBytes(s Store, l *weir.Limit) (int64, bool) {
	if s == Cluster {
		s = Redis
	}
	kind, units := shapeOf(l)
	f, ok := memory[s][kind]
	return f.bytes + (f.each*units+9)/10, ok
}

// takeOf is what a take of the limit costs.
func takeOf(s Store, l *weir.Limit) take {
	if s == Cluster {
		s = Redis
	}
	t := takes[s]
	if kind, _ := shapeOf(l); kind == bucket {
		return t.plain
	}
	return t.other
}

// connections are what a node opens to each server of a store at most, and how many a
// server takes unless it is told otherwise.
var connections = map[Store]struct {
	each, most int64
	setting    string
}{
	Redis:     {5, 10_000, "maxclients"}, // CLIENT LIST under load: two for each of two scripts, and one to hear of failures
	Cluster:   {5, 10_000, "maxclients"},
	Memcached: {2, 1_024, "-c"},
	NATS:      {1, 65_536, "max_connections"},
	Postgres:  {4, 100, "max_connections"},
}

// ParseStore is the store of that name, or of a URL with its scheme; the empty
// one for no name.
func ParseStore(name string) (Store, error) {
	scheme, _, _ := strings.Cut(name, ":")
	if store, ok := schemes[scheme]; ok || name == "" {
		return store, nil
	}
	return "", fmt.Errorf("there are no figures for %q: take memory, redis, redis+cluster, memcached, postgres, nats or cluster", name)
}

// schemes are the stores that URLs are of.
var schemes = map[string]Store{
	"memory": Memory,
	"redis":  Redis, "rediss": Redis, "redis+unix": Redis, "redis+sentinel": Redis,
	"redis+cluster": Cluster,
	"memcached":     Memcached, "memcached+unix": Memcached,
	"nats":     NATS,
	"postgres": Postgres, "postgresql": Postgres,
	"cluster": Nodes,
}
