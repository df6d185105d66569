package natsstore

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/cas"
)

// DefaultBucket is the bucket of a URL that names none.
const DefaultBucket = "weir"

// maxReplicas is how many JetStream keeps at most.
const maxReplicas = 5

// Open is Dial, with the edge around the store: calls have a deadline, the fallback of each
// limit decides while NATS is away, and limits with sync are decided locally. The caller
// closes it. A program that wants to hear when NATS goes away calls Dial and edge.New.
func Open(address string, o Options) (*edge.Store, error) {
	s, err := Dial(address, o)
	if err != nil {
		return nil, err
	}
	return edge.New(s, edge.Options{}), nil
}

// Dial makes a store of a URL, without the edge of Open, and connects in the background: servers
// that are away make calls fail until one is back, and Dial fail never. Calls that come before the
// first try has ended wait for it. The URL is
//
//	nats://[user:password@]host:port,host:port…[?options]
//
// The port may be left out when it is 4222; a user without a password is a token. The options are
// bucket=weir, replicas=1 and storage=file (or memory), by which a bucket that is not there is made;
// tls=1, ca=, cert= and key=, which name PEM files; creds= and nkey=, which name the files of a user,
// and password-file=, whose first line is read for each connection that is made.
func Dial(address string, o Options) (*Store, error) {
	t, err := parse(address)
	if err != nil {
		return nil, fmt.Errorf("natsstore: %w", err)
	}
	t.options = append(t.options, o.Connect...)
	s := &Store{link: newLink(t)}
	traits := t.traits()
	traits.Bare = true
	s.decides = cas.New(cas.Config{
		Package: "natsstore", Cells: &cells{s.link}, MaxValue: maxValue, Traits: traits, Name: name, NoteMark: noteMark,
	})
	s.link.own.Go(s.link.keep)
	return s, nil
}

// target is what a URL says.
type target struct {
	Servers

	bucket   string
	replicas int
	memory   bool
}

// parse reads a store's URL. It opens no connection.
func parse(address string) (*target, error) {
	s, err := ParseServers(address, "bucket", "replicas", "storage")
	if err != nil {
		return nil, err
	}
	t := &target{Servers: *s}
	return t, t.keeps(s.Own)
}

// keeps reads the options of the bucket.
func (t *target) keeps(values map[string]string) error {
	t.bucket = cmp.Or(values["bucket"], DefaultBucket)
	if len(t.bucket) > maxRule || !isToken(t.bucket) || strings.Contains(t.bucket, "/") {
		return fmt.Errorf("bucket: %.70q is no name of a bucket; it has up to %d letters, digits, _ and -", t.bucket, maxRule)
	}
	n, err := strconv.Atoi(cmp.Or(values["replicas"], "1"))
	if err != nil || n < 1 || n > maxReplicas {
		return fmt.Errorf("replicas: %q is not 1…%d", values["replicas"], maxReplicas)
	}
	t.replicas = n
	switch values["storage"] {
	case "", "file":
	case "memory":
		t.memory = true
	default:
		return fmt.Errorf("storage: %q is neither file nor memory", values["storage"])
	}
	return nil
}
