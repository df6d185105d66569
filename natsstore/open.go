package natsstore

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/storeurl"
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
	servers  []string // host:port
	options  []nats.Option
	password bool // the URL has one
	bucket   string
	replicas int
	memory   bool
}

const urlForm = "write nats://host:port, more of them with commas"

// parse reads a store's URL. It opens no connection. It reads the files that the URL names, so that a
// wrong path shows at the start. No error tells a password.
func parse(address string) (*target, error) {
	rest, ok := strings.CutPrefix(address, "nats://")
	if !ok {
		return nil, fmt.Errorf("the URL does not begin with nats://; %s", urlForm)
	}
	// An unescaped / or ? in a password ends the host's part too early, and the @ then stands
	// behind it. Without this look a part of the password would be taken for a host, and be told
	// in errors.
	if strings.LastIndexByte(rest, '@') > strings.IndexAny(rest+"/", "/?") {
		return nil, errors.New(
			"there is an @ behind the host; in a password write / as %2F, ? as %3F, # as %23, and elsewhere @ as %40")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	t := &target{}
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		u, err := url.Parse("x://" + hosts[:at] + "@x")
		if err != nil {
			return nil, fmt.Errorf("the user and password can't be read; %s", urlForm) // its error would tell the password
		}
		t.options = append(t.options, user(u.User))
		_, t.password = u.User.Password()
		hosts = hosts[at+1:]
	}
	hosts = strings.TrimSuffix(hosts, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host)
		if err != nil {
			return nil, err
		}
		t.servers = append(t.servers, addr)
	}
	values, err := storeurl.Options(query,
		"bucket", "replicas", "storage", "tls", "ca", "cert", "key", "creds", "nkey", "password-file")
	if err != nil {
		return nil, err
	}
	return t, errors.Join(t.keeps(values), t.secures(values), t.signs(values))
}

func user(u *url.Userinfo) nats.Option {
	if password, is := u.Password(); is {
		return nats.UserInfo(u.Username(), password)
	}
	return nats.Token(u.Username())
}

// hostPort is where a server is, whose port may be left out.
func hostPort(text string) (string, error) {
	if !strings.Contains(text, ":") || strings.HasSuffix(text, "]") {
		text += ":4222"
	}
	host, port, err := storeurl.HostPort(text)
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, urlForm)
	}
	return net.JoinHostPort(host, port), nil
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

// secures reads the options of TLS. A server that asks for TLS gets it without them too.
func (t *target) secures(values map[string]string) error {
	if given := values["tls"]; given != "" && given != "1" {
		return fmt.Errorf("tls=%s means nothing; write tls=1 for TLS, or leave it out", given)
	}
	ca, cert, key := values["ca"], values["cert"], values["key"]
	if values["tls"] == "" && ca+cert+key == "" {
		return nil
	}
	config, err := storeurl.TLS(ca, cert, key)
	if err != nil {
		return err
	}
	t.options = append(t.options, nats.Secure(config))
	return nil
}

// signs reads the options that name files by which a user is known. All but that of a key are read
// again for each connection, so that they may change.
func (t *target) signs(values map[string]string) error {
	if file := values["creds"]; file != "" {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("creds: %w", err)
		}
		t.options = append(t.options, nats.UserCredentials(file))
	}
	if file := values["nkey"]; file != "" {
		key, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return fmt.Errorf("nkey: %s has no seed of a user: %w", file, err)
		}
		t.options = append(t.options, key)
	}
	if file := values["password-file"]; file != "" {
		if t.password {
			return errors.New("there is a password in the URL and a password-file; leave one out")
		}
		if _, err := storeurl.Password(file); err != nil {
			return err
		}
		t.options = append(t.options, withPassword(file))
	}
	return nil
}

// withPassword has the client take the password of its user, or the token where it has none, from a
// file.
func withPassword(file string) nats.Option {
	read := func() string {
		password, _ := storeurl.Password(file) // the server refuses an empty one, and it is read again
		return password
	}
	return func(o *nats.Options) error {
		// The URL's user without a password was taken for a token.
		if name := o.Token; name != "" {
			o.Token = ""
			return nats.UserInfoHandler(func() (string, string) { return name, read() })(o)
		}
		return nats.TokenHandler(read)(o)
	}
}
