package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/storeurl"
)

// How the connections of Dial are kept.
const (
	dialTimeout = time.Second
	// lostAfter is how long a connection may owe an answer before it is given up.
	//
	// It is longer than patience: a call gives up first, by itself, and only a connection that is
	// silent for this long takes all of its calls with it.
	lostAfter = 5 * time.Second
	// connBuffer is what a connection reads and writes at a time.
	connBuffer = 64 << 10
	// firstPause and lastPause bound the time between tries to connect to a server
	// that is away when the store is opened.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// URLError says why a store's URL can't be meant, without the password in it.
type URLError struct{ Text string }

func (e *URLError) Error() string { return "redisstore: " + e.Text }

// Open is Dial, with the edge around the store: calls have a deadline, the fallback of each
// limit decides while Redis is away, and limits with sync are decided locally. The caller
// closes it. A program that wants to hear when Redis goes away calls Dial and edge.New.
func Open(address string) (*edge.Store, error) {
	s, err := Dial(address)
	if err != nil {
		return nil, err
	}
	return edge.New(s, edge.Options{}), nil
}

// Dial makes a store of a URL, without the edge of Open, and connects in the background: a
// server that is away makes calls fail until it is back, and Dial fail never. Calls that
// come before the first try has ended wait for it, as long as their contexts let them. The
// URL is
//
//	redis://[user:password@]host:port[/db]    rediss:// with TLS
//	redis+unix:///path/of/socket
//	redis+cluster://[user:password@]host:port,…
//	redis+sentinel://[user:password@]host:port,…/master
//
// and may end in ?prefix=…, in rediss also ca=, cert= and key=, which name PEM
// files, and server-name=NAME or any, for which the server's certificate must be, in all but the first two tls=1, and in all password-file=, in place of a
// password: its first line is read for each connection that is made. Sentinels are shown the same user and password, unless
// sentinel-auth=[USER:]PASSWORD or none says otherwise.
func Dial(address string) (*Store, error) { return DialWith(address, nil) }

// DialWith is Dial with a password that the URL does not have; nil is Dial.
func DialWith(address string, password Password) (*Store, error) {
	option, o, err := parse(address)
	if err == nil {
		err = password.into(&option)
	}
	if err != nil {
		return nil, err
	}
	s := New(nil, o)
	s.link = &link{option: option, tried: make(chan struct{}), done: make(chan struct{})}
	s.link.connecting.Go(s.link.connect)
	return s, nil
}

// CheckURL fails as Dial does, and opens nothing.
func CheckURL(address string) error {
	_, _, err := parse(address)
	return err
}

// parse reads a store's URL.
//
// It opens no connection. It reads the files that the URL names, so that a wrong path shows at the
// start.
func parse(address string) (option rueidis.ClientOption, o Options, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return option, o, &URLError{"this is no URL; write redis://host:port"}
	}
	// An unescaped / or ? in a password ends the host's part too early, and the @ then stands
	// behind it. Without this look a part of the password would be taken for a host, and be told
	// in errors.
	hosts, rest := cutHosts(rest)
	if scheme != "redis+unix" && strings.LastIndexByte(rest, '@') > strings.IndexAny(rest+"/", "/?") {
		return option, o, &URLError{"there is an @ behind the host; in a password write / as %2F, ? as %3F, # as %23, and elsewhere @ as %40"}
	}
	u, err := url.Parse("x://" + rest)
	if err != nil || u.Fragment != "" {
		return option, o, &URLError{"the address can't be read; write redis://host:port"} // its error would tell the password
	}
	// rueidis must not send a command again by itself, as an answer that was lost may have been a
	// charge. It must not cache either: scripts write what they read.
	option = rueidis.ClientOption{
		InitAddress: hosts, ClientName: "weir",
		DisableRetry: true, DisableCache: true,
		Dialer: net.Dialer{Timeout: dialTimeout}, ConnWriteTimeout: lostAfter,
		ReadBufferEachConn: connBuffer, WriteBufferEachConn: connBuffer,
	}
	option.Username = u.User.Username()
	option.Password, _ = u.User.Password()
	if err := arrange(scheme, u, &option, &o); err != nil {
		return option, o, err
	}
	if err := options(u.RawQuery, scheme, &option, &o); err != nil {
		return option, o, err
	}
	return option, o, nil
}

// arrange has the client find its servers as the scheme says: one, those of a cluster, or those that
// sentinels name.
func arrange(scheme string, u *url.URL, option *rueidis.ClientOption, o *Options) error {
	path := strings.TrimPrefix(u.Path, "/")
	// A client for a single server must not ask whether it is a cluster, and follow to other nodes:
	// then takes of several descriptors would be sent to a node that has not all of their keys.
	switch scheme {
	case "redis", "rediss":
		option.ForceSingleClient = true
		if path != "" {
			n, err := strconv.Atoi(path)
			if err != nil || n < 0 {
				return &URLError{fmt.Sprintf("%q is no number of a database; write redis://host:port/0", path)}
			}
			option.SelectDB = n
		}
	case "redis+unix":
		if err := storeurl.Socket(option.InitAddress[0] + u.Path); err != nil {
			return &URLError{err.Error()}
		}
		option.ForceSingleClient = true
		option.InitAddress = []string{u.Path}
		option.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
		return nil
	case "redis+cluster":
		o.Cluster = true
		if path != "" {
			return &URLError{fmt.Sprintf("a Redis Cluster has no databases; leave out %q", u.Path)}
		}
	case "redis+sentinel":
		// The user and password of the URL open the sentinels, too. rueidis asks the sentinels
		// again for the primary when connections fail, so a failover needs no new client.
		option.Sentinel = rueidis.SentinelOption{MasterSet: path, Dialer: option.Dialer, Username: option.Username, Password: option.Password, ClientName: "weir"}
		if path == "" {
			return &URLError{"name the master: redis+sentinel://host:port/master"}
		}
	default:
		return &URLError{fmt.Sprintf("%q is no scheme of Redis; write redis, rediss, redis+unix, redis+cluster or redis+sentinel", scheme)}
	}
	for _, host := range option.InitAddress {
		if _, _, err := storeurl.HostPort(host); err != nil {
			return &URLError{err.Error()}
		}
	}
	return nil
}

// cutHosts takes the hosts, which may be several, out of a URL without scheme. Package net/url
// knows one host only, so an x stands in their place while it reads the rest.
func cutHosts(rest string) (hosts []string, without string) {
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	return strings.Split(rest[at:end], ","), rest[:at] + "x" + rest[end:]
}

// options reads what stands behind the question mark.
func options(query, scheme string, option *rueidis.ClientOption, o *Options) error {
	values, err := storeurl.Options(query, "prefix", "tls", "ca", "cert", "key", "server-name", "password-file", "sentinel-auth")
	if err != nil {
		return &URLError{err.Error()}
	}
	if file := values["password-file"]; file != "" {
		if err := fromFile(file, option); err != nil {
			return &URLError{err.Error()}
		}
	}
	if auth := values["sentinel-auth"]; auth != "" {
		if scheme != "redis+sentinel" {
			return &URLError{"sentinel-auth is for sentinels; write redis+sentinel://"}
		}
		option.Sentinel.Username, option.Sentinel.Password = sentinelAuth(auth)
	}
	if given := values["tls"]; given != "" && given != "1" {
		return &URLError{fmt.Sprintf("tls=%s means nothing; write tls=1 for TLS, or leave it out", given)}
	}
	o.Prefix = values["prefix"]
	secure := scheme == "rediss" || values["tls"] == "1"
	files := [3]string{values["ca"], values["cert"], values["key"]}
	if strings.ContainsAny(o.Prefix, "{}") {
		return &URLError{"prefix: braces choose the slot of a key; write it without"}
	}
	if !secure {
		if files != [3]string{} || values["server-name"] != "" {
			return &URLError{"ca, cert, key and server-name are for TLS; write rediss://, or tls=1"}
		}
		return nil
	}
	config, err := storeurl.TLS(files[0], files[1], files[2])
	if err != nil {
		return &URLError{err.Error()}
	}
	// The certificate of a single server must have the name in the URL. Nodes of clusters and
	// primaries that sentinels name are checked by the names that these give.
	if scheme == "rediss" || scheme == "redis" {
		host, _, _ := net.SplitHostPort(option.InitAddress[0]) // it was looked at
		config.ServerName = host
	}
	switch name := values["server-name"]; name {
	case "":
	case "any":
		anyName(config)
	default:
		config.ServerName = name
	}
	option.TLSConfig = config
	if option.Sentinel.MasterSet != "" {
		option.Sentinel.TLSConfig = config
	}
	return nil
}

// sentinelAuth is what sentinels are shown.
func sentinelAuth(text string) (user, password string) {
	if text == "none" {
		return "", ""
	}
	user, password, both := strings.Cut(text, ":")
	if !both {
		return "", text
	}
	return user, password
}

// anyName has a client believe every certificate of the CA, for whichever name it is.
func anyName(config *tls.Config) {
	config.InsecureSkipVerify = true // the chain is verified here
	config.VerifyConnection = func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(o)
		return err
	}
}

// link is the client of a store that Dial made. It connects in the background, so that a daemon
// starts while Redis is away. It makes one client that works; rueidis then connects anew by itself,
// and at each new connection reads a password file again.
type link struct {
	option     rueidis.ClientOption
	tried      chan struct{} // closed when the first try to connect has ended
	done       chan struct{} // closed when the store is
	connecting sync.WaitGroup

	mu     sync.Mutex
	client rueidis.Client // once set it stays, also when its connections fail
	failed error          // why there is no client yet
	closed bool
}

var errConnecting = errors.New("not connected yet")

func (l *link) connect() {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		client, err := rueidis.NewClient(l.option)
		if err != nil && client != nil { // it would dial again at each command
			client.Close()
			client = nil
		}
		l.mu.Lock()
		first := l.client == nil && l.failed == nil
		l.client, l.failed = client, l.said(err)
		closed := l.closed
		l.mu.Unlock()
		if first {
			close(l.tried)
		}
		if closed && client != nil {
			client.Close()
		}
		// The goroutine ends with the first client that works, and with Close. It never gives up
		// by itself: a daemon that starts before its Redis has to find it later.
		if err == nil || closed {
			return
		}
		select {
		case <-time.After(pause):
		case <-l.done:
			return
		}
	}
}

// said is an error of connecting with what it was about. A server without TLS leaves a TLS client
// waiting, so the end of that wait names the likely cause.
func (l *link) said(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && l.option.TLSConfig != nil:
		err = fmt.Errorf("%w in a TLS handshake; does the server speak TLS there? Else write redis://", err)
	}
	return fmt.Errorf("connect to %s: %w", strings.Join(l.option.InitAddress, ", "), err)
}

// get is the client, or why there is none.
func (l *link) get(ctx context.Context) (rueidis.Client, error) {
	select {
	case <-l.tried:
	default:
		select {
		case <-l.tried:
		case <-l.done:
			return nil, errConnecting
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errConnecting, ctx.Err())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client, l.failed
}

// stop ends waiting for a connection, and trying.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
}

func (l *link) close() {
	l.stop()
	l.mu.Lock()
	client := l.client
	l.mu.Unlock()
	if client != nil {
		client.Close()
	}
	l.connecting.Wait()
}

// Close waits for calls on their way, and closes the connections that Dial made. First it ends
// waiting for a first connection: calls that wait for that would else keep the lanes from closing.
func (s *Store) Close() error {
	if s.link != nil {
		s.link.stop()
	}
	s.lane.Close()
	s.paced.Close()
	if s.link != nil {
		s.link.close()
	}
	return nil
}
