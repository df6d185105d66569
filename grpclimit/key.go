package grpclimit

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Key says whose count a call is: any bytes. method is the full one, as
// /package.Service/Method. It is false when the call does not tell; see
// Rule.Optional. What a client may choose freely is no key for a limit that it
// should not get around: an address, a method, or what was verified before is.
type Key func(ctx context.Context, method string) (key string, ok bool)

// Everyone is one count for all calls.
func Everyone(context.Context, string) (string, bool) { return "", true }

// Method is a count for each method.
func Method(_ context.Context, method string) (string, bool) { return method, true }

// ipv6Bits is how much of an IPv6 address tells clients apart: they may change the
// rest at will.
const ipv6Bits = 64

// Peer is the address of the connection, of an IPv6 address its /64. An IPv4
// address that is written as IPv6 is the same as without. Behind a proxy all
// connections are the proxy's. Clients of a socket without addresses, as a unix
// socket, are one.
func Peer(ctx context.Context, _ string) (string, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", false
	}
	text := p.Addr.String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return p.Addr.Network(), true
	}
	if a = a.Unmap(); a.Is4() {
		return a.String(), true
	}
	network, err := a.Prefix(ipv6Bits) // without its zone
	return network.String(), err == nil
}

// Metadata is a value that the call brings along, as an API key that an
// interceptor before has verified. Several values are one key together.
func Metadata(name string) Key {
	name = strings.ToLower(name)
	return func(ctx context.Context, _ string) (string, bool) {
		values := metadata.ValueFromIncomingContext(ctx, name)
		switch len(values) {
		case 0:
			return "", false
		case 1:
			return values[0], values[0] != ""
		}
		return join(values), true
	}
}

// Join is all keys together: each pair of a peer and a method has a count of its
// own. It is false when one of them is. No two lists of parts have the same key,
// whatever is in them.
func Join(keys ...Key) Key {
	return func(ctx context.Context, method string) (string, bool) {
		parts := make([]string, len(keys))
		for i, key := range keys {
			var ok bool
			if parts[i], ok = key(ctx, method); !ok {
				return "", false
			}
		}
		return join(parts), true
	}
}

// join puts parts together with their lengths, so that they can't run into each
// other.
func join(parts []string) string {
	var b []byte
	for _, part := range parts {
		b = strconv.AppendInt(b, int64(len(part)), 10)
		b = append(append(b, ':'), part...)
	}
	return string(b)
}

// HealthOrReflection is whether a method is of gRPC's health or reflection
// service, for Options.Skip: who watches a server should not be denied, and
// should not use up what others share.
func HealthOrReflection(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.") || strings.HasPrefix(method, "/grpc.reflection.v1")
}
