package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-limit/weir/internal/address"
)

// Source is where the address of a client is found. The zero value is the other
// end of the connection, which is right where no proxy is in between. Behind
// proxies say either which addresses are Trusted or how many Hops there are: what
// a header says is believed only as far as a proxy of yours wrote it.
type Source struct {
	// Trusted are the addresses of your proxies. From the connection on, and then
	// from the right of the header to the left, the first address that is not among
	// them is the client.
	Trusted []netip.Prefix
	// Hops is how many proxies each request comes through, where their addresses
	// are not known. Nobody else must be able to reach the server: a client that comes by
	// fewer proxies than Hops could say what it likes.
	Hops int
	// Forwarded reads the header Forwarded (RFC 7239) instead of X-Forwarded-For.
	// Only one of them may be read: a proxy passes on the one that it does not know.
	Forwarded bool
	// IPv6 is how many bits of an IPv6 address tell clients apart, 1…128. 0 is 64:
	// the least that one customer has. The customer may change the rest at will. IPv4 addresses
	// that a translator writes as 64:ff9b::/96 are IPv4; behind one with a prefix of its own all
	// IPv4 clients would be one /64, so take 128 there.
	IPv6 int
}

// maxHops is how far a header is followed; behind it is whom the last hop names.
const maxHops = 64

// check finds what is wrong with s.
func (s *Source) check() error {
	var faults []error
	for i, p := range s.Trusted {
		if !p.IsValid() {
			faults = append(faults, fmt.Errorf("httplimit: Source.Trusted[%d] is no prefix; write netip.MustParsePrefix(\"10.0.0.0/8\")", i))
		}
	}
	if s.Hops < 0 || s.Hops > maxHops {
		faults = append(faults, fmt.Errorf("httplimit: Source.Hops is %d; it must be 0…%d", s.Hops, maxHops))
	}
	if s.Hops > 0 && len(s.Trusted) > 0 {
		faults = append(faults, errors.New("httplimit: Source has Trusted and Hops; say one of them"))
	}
	if s.Forwarded && s.Hops == 0 && len(s.Trusted) == 0 {
		faults = append(faults, errors.New("httplimit: Source.Forwarded trusts no proxy; say which by Trusted or Hops"))
	}
	if s.IPv6 < 0 || s.IPv6 > 128 {
		faults = append(faults, fmt.Errorf("httplimit: Source.IPv6 is %d; it must be 1…128 bits, or 0 for %d", s.IPv6, address.IPv6Bits))
	}
	return errors.Join(faults...)
}

// Peer is the address of the other end of the connection, of IPv6 its /64: the key
// of a server that no proxy is in front of.
func Peer(r *http.Request) (string, error) {
	a, text := peer(r)
	if a.Is4() && text != "" {
		return text, nil
	}
	return network(a, address.IPv6Bits)
}

// Address is the address of a client as s finds it: an IPv4 address, however it
// is written, or the network of an IPv6 address. A request that comes by a unix
// socket has one only by Source.Hops, from a header that tells it.
func Address(s Source) (Key, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	bits := s.IPv6
	if bits == 0 {
		bits = address.IPv6Bits
	}
	s.compile()
	return func(r *http.Request) (string, error) { return network(s.client(r), bits) }, nil
}

// From tells whether the client, as s finds it, is in one of the networks: for
// Options.Skip and Options.Deny. Its cost does not grow with their number.
func From(s Source, networks ...netip.Prefix) (func(*http.Request) bool, error) {
	faults := []error{s.check()}
	in := map[netip.Prefix]bool{}
	var lengths []int
	for i, p := range networks {
		if !p.IsValid() {
			faults = append(faults, fmt.Errorf("httplimit: network %d of From is no prefix; write netip.MustParsePrefix(\"10.0.0.0/8\")", i))
			continue
		}
		p = unmapped(p)
		in[p] = true
		if !slices.Contains(lengths, p.Bits()) {
			lengths = append(lengths, p.Bits())
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s.compile()
	return func(r *http.Request) bool {
		a := s.client(r)
		is := func(bits int) bool {
			p, err := a.Prefix(bits)
			return err == nil && in[p]
		}
		if slices.ContainsFunc(lengths, is) {
			return true
		}
		a = address.IPv4(a)
		return slices.ContainsFunc(lengths, is)
	}, nil
}

// compile makes s the owner of its prefixes, in the form of the addresses that
// they are compared with: a caller that changes its slice later changes nothing here.
func (s *Source) compile() {
	s.Trusted = slices.Clone(s.Trusted)
	for i, p := range s.Trusted {
		s.Trusted[i] = unmapped(p)
	}
}

// unmapped is p as a network of IPv4 if it is one, as plain does with addresses.
func unmapped(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// client is the address that s finds; not valid where there is none. A header is read only if the
// connection comes from a proxy that is believed: else anybody could write it.
func (s *Source) client(r *http.Request) netip.Addr {
	a, _ := peer(r)
	if s.Hops == 0 && !s.trusts(a) {
		return a
	}
	if s.Forwarded {
		return s.walk(a, forwardedHops(r.Header["Forwarded"]))
	}
	return s.walk(a, listHops(r.Header["X-Forwarded-For"]))
}

// walk goes from hop to hop, away from this server, as long as the hop that told of the next one is
// believed. With Trusted 10.0.0.0/8, a connection from 10.0.0.1 and the hops 10.0.0.2, 203.0.113.7 and
// 198.51.100.9, the client is 203.0.113.7: it is the first that is no proxy, and what it says of others
// behind it is its own word.
func (s *Source) walk(a netip.Addr, hops func(yield func(netip.Addr) bool)) netip.Addr {
	n := 0
	for next := range hops {
		if !next.IsValid() {
			break // nobody can tell what is behind it
		}
		a, n = next, n+1
		if n == maxHops || s.Hops > 0 && n == s.Hops || s.Hops == 0 && !s.trusts(a) {
			break
		}
	}
	return a
}

// trusts is whether an address is one of the proxies. There are a few, so they are tried one by one.
func (s *Source) trusts(a netip.Addr) bool {
	for _, p := range s.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peer is the other end of the connection, and its text where that is plain:
// to take a part of a string costs nothing, a new one does.
func peer(r *http.Request) (a netip.Addr, text string) {
	i := strings.LastIndexByte(r.RemoteAddr, ':')
	switch {
	case i <= 0:
	case r.RemoteAddr[0] != '[':
		if a, err := netip.ParseAddr(r.RemoteAddr[:i]); err == nil && a.Is4() {
			return a, r.RemoteAddr[:i]
		}
	case r.RemoteAddr[i-1] == ']':
		if a, err := netip.ParseAddr(r.RemoteAddr[1 : i-1]); err == nil {
			return plain(a), ""
		}
	}
	return hop(r.RemoteAddr), ""
}

// plain is an address without what does not tell clients apart: its zone, and
// the form of an IPv4 address as one of IPv6.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// hop reads an address as proxies write it, with a port or without; not valid
// when it is none:
//
//	203.0.113.7   203.0.113.7:4711   2001:db8::7   [2001:db8::7]   [2001:db8::7]:4711
//
// Two colons without brackets are an IPv6 address, for one with a port needs brackets.
func hop(text string) netip.Addr {
	host, port := strings.Trim(text, " \t"), ""
	if inside, ok := strings.CutPrefix(host, "["); ok {
		if host, port, ok = strings.Cut(inside, "]"); !ok {
			return netip.Addr{}
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 && i == strings.LastIndexByte(host, ':') {
		host, port = host[:i], host[i:]
	}
	if port != "" && !isPort(port) {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return plain(a)
}

// isPort is whether text is a : and digits.
func isPort(text string) bool {
	for i := range len(text) {
		if c := text[i]; (i > 0 || c != ':') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// network is the key of an address: all addresses of one customer have the same.
func network(a netip.Addr, bits int) (string, error) {
	if !a.IsValid() {
		return "", ErrNoKey
	}
	return address.Network(a, bits), nil
}
