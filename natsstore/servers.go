package natsstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir/internal/storeurl"
)

// Servers are those that a URL names, and how to connect to them, for programs that do more there than
// count.
type Servers struct {
	Own map[string]string // the options that the caller of ParseServers knows itself

	places   []string // host:port
	options  []nats.Option
	password bool // the URL has one
}

const urlForm = "write nats://host:port, more of them with commas"

// ParseServers reads a URL as Dial does, whose options are own, and those by which Dial connects. It opens
// no connection. It reads the files that the URL names, so that a wrong path shows at the start. No
// error tells a password.
func ParseServers(address string, own ...string) (*Servers, error) {
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
	s := &Servers{}
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		u, err := url.Parse("x://" + hosts[:at] + "@x")
		if err != nil {
			return nil, fmt.Errorf("the user and password can't be read; %s", urlForm) // its error would tell the password
		}
		s.options = append(s.options, user(u.User))
		_, s.password = u.User.Password()
		hosts = hosts[at+1:]
	}
	hosts = strings.TrimSuffix(hosts, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host)
		if err != nil {
			return nil, err
		}
		s.places = append(s.places, addr)
	}
	values, err := storeurl.Options(query, append(slices.Clone(own), "tls", "ca", "cert", "key", "creds", "nkey", "password-file")...)
	if err != nil {
		return nil, err
	}
	s.Own = values
	return s, errors.Join(s.secures(values), s.signs(values))
}

// Connect connects, with the options of the URL, and then those of the caller. It fails when no server is
// there, or none takes the user. A connection that is lost is made again, however long that takes, also when
// a server refuses the user: who that is may be repaired meanwhile. What is sent until then fails at once.
func (s *Servers) Connect(o ...nats.Option) (*nats.Conn, error) {
	stays := []nats.Option{
		nats.RetryOnFailedConnect(false), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			pause := min(firstPause<<min(tries, 8), lastPause)
			return pause/2 + rand.N(pause)
		}),
	}
	all := slices.Concat([]nats.Option{nats.Name("weir"), nats.Timeout(dialTimeout)}, s.options, stays, o)
	return nats.Connect("nats://"+strings.Join(s.places, ",nats://"), all...)
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

// secures reads the options of TLS. A server that asks for TLS gets it without them too.
func (s *Servers) secures(values map[string]string) error {
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
	s.options = append(s.options, nats.Secure(config))
	return nil
}

// signs reads the options that name files by which a user is known. All but that of a key are read
// again for each connection, so that they may change.
func (s *Servers) signs(values map[string]string) error {
	if file := values["creds"]; file != "" {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("creds: %w", err)
		}
		s.options = append(s.options, nats.UserCredentials(file))
	}
	if file := values["nkey"]; file != "" {
		key, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return fmt.Errorf("nkey: %s has no seed of a user: %w", file, err)
		}
		s.options = append(s.options, key)
	}
	if file := values["password-file"]; file != "" {
		if s.password {
			return errors.New("there is a password in the URL and a password-file; leave one out")
		}
		if _, err := storeurl.Password(file); err != nil {
			return err
		}
		s.options = append(s.options, withPassword(file))
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
