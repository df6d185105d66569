package redisstore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
)

// The bounds of an examination.
const (
	examineCalls = 200 // PINGs, and takes
	examineTries = 5   // of TIME; the quickest tells the skew
	// examinePatience is how long one command may take.
	examinePatience = 2 * time.Second
	// scans and sampled bound the search for keys of Weir in a node.
	scans   = 100
	sampled = 1000
)

// Latency is how long calls took, one after the other.
type Latency struct{ Median, P99 time.Duration }

// Node is what a server tells of itself; what it does not tell, or not to this
// user, is empty.
//
// The names of its fields are those of Redis, but for the roles: master is primary here, and slave
// is replica.
type Node struct {
	Address string
	Version string
	Role    string // primary or replica
	Mode    string // standalone, cluster or sentinel
	// Used and Max are bytes; Max 0 is no bound. Policy is what makes place.
	Used, Max int64
	Policy    string
	AOF, RDB  string // yes or no
	Replicas  int    // of a primary
	// Keys is how many keys of Weir were looked at, and Immortal how many of them do
	// not expire.
	Keys, Immortal int
}

// Examination is what Examine has found.
type Examination struct {
	Kind       string // as Mode of a Node, or sentinel when that told the address
	TLS        bool
	Ping, Take Latency       // Take is 0 when takes fail
	Skew       time.Duration // the server's clock less this machine's
	Nodes      []Node        // by their addresses
	Findings   []Finding     // faults first
}

// Finding is something unwise, or a fault: that keeps the store from its work.
type Finding struct {
	Fault  bool
	Node   string // its address; empty: all
	Text   string
	Remedy string // what to do
}

// examiner is an examination on its way. It asks servers only what a monitoring user may ask, and
// goes on where a server does not tell: what is not known is not judged.
type examiner struct {
	Examination

	client rueidis.Client
	store  *Store
	secret bool // there is a password
	mute   bool // a node does not tell of itself

	faults, warnings []Finding // so far
}

// Examine connects to the servers of a URL, as Open takes it, and says how they are
// doing and what is unwise. It takes 400 round trips and 20 keys, which expire. It
// fails when the URL is none, or nobody answers.
func Examine(ctx context.Context, address string) (*Examination, error) {
	return ExamineWith(ctx, address, nil)
}

// ExamineWith is Examine with a password as of DialWith.
func ExamineWith(ctx context.Context, address string, password Password) (*Examination, error) {
	option, o, err := parse(address)
	if err == nil {
		err = password.into(&option)
	}
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return nil, explain((&link{option: option}).said(err))
	}
	// The store shares the examiner's client, so what is measured goes over connections set up as
	// those of weir serve are.
	e := &examiner{client: client, store: New(client, o), secret: option.Password != "" || option.AuthCredentialsFn != nil}
	e.TLS = option.TLSConfig != nil
	if e.Ping, err = e.measure(ctx, func(ctx context.Context, _ int) error {
		return client.Do(ctx, client.B().Ping().Build()).Error()
	}); err != nil {
		return nil, explain(err)
	}
	nodes := client.Nodes()
	for _, at := range slices.Sorted(maps.Keys(nodes)) {
		e.Nodes = append(e.Nodes, e.node(ctx, at, nodes[at]))
	}
	e.kind(option, o)
	e.clock(ctx)
	e.takes(ctx)
	e.judge()
	return &e.Examination, nil
}

func (e *examiner) kind(option rueidis.ClientOption, o Options) {
	switch {
	case option.Sentinel.MasterSet != "":
		e.Kind = "sentinel"
	case o.Cluster:
		e.Kind = "cluster"
	default:
		e.Kind = "standalone"
	}
}

// measure makes calls, one after the other: how long one takes alone is what a deadline has to
// allow for.
func (e *examiner) measure(ctx context.Context, call func(ctx context.Context, i int) error) (Latency, error) {
	took := make([]time.Duration, examineCalls)
	for i := range took {
		within, cancel := context.WithTimeout(ctx, examinePatience)
		start := time.Now()
		err := call(within, i)
		took[i] = time.Since(start)
		cancel()
		if err != nil {
			return Latency{}, err
		}
	}
	slices.Sort(took)
	return Latency{took[len(took)/2], took[len(took)*99/100]}, nil
}

// takes measures takes of keys that nobody else has. It leaves out the lanes and the memory of
// denials: the limit allows all. Both scripts are run, as a user may be allowed one command and not
// the other; weir serve needs them all.
//
// The 20 keys have a random name, so two examinations at a time do not meet. They expire within
// seconds, as the limit recovers within one.
func (e *examiner) takes(ctx context.Context) {
	limit, err := weir.ParseLimit("1000000/s")
	if err != nil {
		e.fault("", err.Error(), "report it")
		return
	}
	of := strconv.FormatUint(rand.Uint64(), 36)
	e.Take, err = e.measure(ctx, func(ctx context.Context, i int) error {
		key := weir.StateKey{Rule: "weir-doctor#1", Key: of + strconv.Itoa(i%20)}
		return e.store.Take(ctx, []weir.Ask{{State: key, Limit: limit, Cost: 1}}, make([]weir.Decision, 1))
	})
	if err == nil {
		_, _, err = e.store.Look(ctx, nil) // the other script
	}
	if err != nil {
		text, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), "redisstore: "), "; ")
		e.fault("", "takes fail: "+text, remedy)
	}
}

// clock finds how far the server's clock is from this machine's. The server has read it at some
// time between question and answer: half of the quickest trip is the most that the result can be
// wrong by.
func (e *examiner) clock(ctx context.Context) {
	// Look asks for no key, so the script does nothing but read the time, and the trip is as short
	// as it can be. Skew stays 0 where no try is answered.
	quickest := examinePatience
	for range examineTries {
		start := time.Now()
		now, _, err := e.store.Look(ctx, nil)
		if took := time.Since(start); err == nil && took < quickest {
			quickest = took
			e.Skew = now.Time().Sub(start.Add(took / 2)).Round(time.Microsecond)
		}
	}
}

// ask is what a node answers, or "".
func (e *examiner) ask(ctx context.Context, c rueidis.Client, words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	return c.Do(ctx, c.B().Arbitrary(words...).Build())
}

func (e *examiner) node(ctx context.Context, at string, c rueidis.Client) Node {
	n := Node{Address: at}
	// A managed Redis may hide INFO or CONFIG from its users. Then fields stay empty, and judge
	// leaves out what depends on them.
	text, err := e.ask(ctx, c, "INFO").ToString()
	if err != nil {
		e.mute = true
	}
	info := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			info[name] = value
		}
	}
	number := func(name string) int64 {
		v, _ := strconv.ParseInt(info[name], 10, 64) // 0 when it is not told
		return v
	}
	n.Version, n.Mode, n.Policy = info["redis_version"], info["redis_mode"], info["maxmemory_policy"]
	if valkey := info["valkey_version"]; valkey != "" { // redis_version is then that of what it is compatible with
		n.Version = "Valkey " + valkey
	}
	n.Used, n.Max, n.Replicas = number("used_memory"), number("maxmemory"), int(number("connected_slaves"))
	n.Role = map[string]string{"master": "primary", "slave": "replica"}[info["role"]]
	n.AOF = map[string]string{"0": "no", "1": "yes"}[info["aof_enabled"]]
	if save, err := e.ask(ctx, c, "CONFIG", "GET", "save").AsStrMap(); err == nil {
		n.RDB = "yes"
		if save["save"] == "" {
			n.RDB = "no"
		}
	}
	if n.Role != "replica" {
		n.Keys, n.Immortal = e.sample(ctx, c)
	}
	return n
}

// sample looks at some keys of Weir, whether they expire.
func (e *examiner) sample(ctx context.Context, c rueidis.Client) (keys, immortal int) {
	// SCAN answers in steps of about 1000 keys and may find few of them under the prefix. scans
	// bounds the steps, so that a server full of other programs' keys is not searched to its end;
	// the sample is then small, and a finding still true.
	cursor := uint64(0)
	for range scans {
		found, err := e.ask(ctx, c, "SCAN", strconv.FormatUint(cursor, 10), "MATCH", glob(e.store.prefix)+"*", "COUNT", "1000").AsScanEntry()
		if err != nil {
			return keys, immortal
		}
		for _, key := range found.Elements {
			if keys == sampled {
				return keys, immortal
			}
			left, err := e.ask(ctx, c, "PTTL", key).AsInt64()
			if err != nil {
				return keys, immortal
			}
			keys++
			if left == -1 {
				immortal++
			}
		}
		if cursor = found.Cursor; cursor == 0 {
			break
		}
	}
	return keys, immortal
}

// glob is a text as SCAN matches it and nothing else.
//
// The prefix is the operator's: one with a star in it must not match the keys of others.
func glob(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

// nearby is whether what goes to an address stays on this machine.
func nearby(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback() // else it is a socket's path
}

func (e *examiner) fault(node, text, remedy string) {
	e.faults = append(e.faults, Finding{Fault: true, Node: node, Text: text, Remedy: remedy})
}

func (e *examiner) warn(node, remedy, format string, args ...any) {
	e.warnings = append(e.warnings, Finding{Node: node, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}
