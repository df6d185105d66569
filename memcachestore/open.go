package memcachestore

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/storeurl"
)

// maxServers is how many servers a URL may name.
//
// pick asks all of them for each new lane, so their number is a time that each unknown item costs.
const maxServers = 256

// Open is Dial, with the edge around the store: calls have a deadline, the fallback of each
// limit decides while a server is away, and limits with sync are decided locally. The
// caller closes it. A program that wants to hear when a server goes away calls Dial and
// edge.New.
func Open(url string, o Options) (*edge.Store, error) {
	s, err := Dial(url, o)
	if err != nil {
		return nil, err
	}
	return edge.New(s, edge.Options{}), nil
}

// Dial makes a store of the servers that a URL names, without the edge of Open:
// memcached://host:port,host:port or memcached+unix:///path. The port may be left
// out when it is 11211. Every process must name the same servers in the same
// words, for the words decide which of them keeps what. Nothing is connected
// yet: while a server is away, what needs it fails at once.
func Dial(url string, o Options) (*Store, error) {
	servers, err := parseURL(url)
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	if len(o.Prefix) > 64 || strings.ContainsFunc(o.Prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '|' }) {
		err = errors.Join(err, fmt.Errorf("the prefix is %.70q; it may be up to 64 visible ASCII characters, without |", o.Prefix))
	}
	if err != nil {
		return nil, fmt.Errorf("memcachestore: %w", err)
	}
	s := &Store{prefix: o.Prefix, cells: newCells(servers)}
	traits := TraitsOf()
	traits.Bare = true
	s.decides = cas.New(cas.Config{
		Package: "memcachestore", Cells: s.cells, MaxValue: maxValue, Traits: traits, Name: s.name, NoteMark: noteMark,
	})
	return s, nil
}

const urlForm = "write memcached://host:port, more of them with commas, or memcached+unix:///path"

func parseURL(url string) ([]*server, error) {
	if path, ok := strings.CutPrefix(url, "memcached+unix://"); ok {
		if err := storeurl.Socket(path); err != nil {
			return nil, err
		}
		return []*server{newServer(0, "unix", path)}, nil
	}
	list, ok := strings.CutPrefix(url, "memcached://")
	if !ok {
		return nil, fmt.Errorf("the URL does not begin with memcached://; %s", urlForm)
	}
	list = strings.TrimSuffix(list, "/")
	switch {
	case strings.Contains(list, "@"):
		return nil, fmt.Errorf("users and passwords are not supported; %s", urlForm)
	case strings.ContainsAny(list, "/?# "):
		return nil, fmt.Errorf("%q has more than hosts and ports; %s", list, urlForm)
	}
	parts := strings.Split(list, ",")
	if len(parts) > maxServers {
		return nil, fmt.Errorf("%d servers; there may be %d", len(parts), maxServers)
	}
	var servers []*server
	seen := map[string]bool{}
	for _, part := range parts {
		addr, err := hostPort(part)
		if err != nil {
			return nil, err
		}
		// Two addresses of one server are not noticed, and do no harm: each item is always asked
		// for under the same one.
		if seen[addr] {
			return nil, fmt.Errorf("%s is named twice", addr)
		}
		seen[addr] = true
		servers = append(servers, newServer(len(servers), "tcp", addr))
	}
	return servers, nil
}

// hostPort is where a server is, whose port may be left out.
func hostPort(text string) (string, error) {
	if !strings.Contains(text, ":") || strings.HasSuffix(text, "]") {
		text += ":11211"
	}
	host, port, err := storeurl.HostPort(text)
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, urlForm)
	}
	return net.JoinHostPort(host, port), nil
}
