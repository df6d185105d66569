package grpclimit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-limit/weir/internal/address"
)

// Key says whose count a call is: any bytes. method is the full one, as
// /package.Service/Method. It fails with ErrNoKey when the call does not tell; see
// Rule.Optional. With any other error the call ends with INVALID_ARGUMENT, optional
// or not. A value that a client may choose freely is no key for a limit that it should not get
// around: an address, a method, or a value verified before is.
type Key func(ctx context.Context, method string) (string, error)

// Errors of keys.
var (
	// ErrNoKey is returned by a Key when a call does not tell whose it is.
	ErrNoKey = errors.New("grpclimit: the call does not tell whose it is")

	errTwoKeys = errors.New("grpclimit: the call has two keys, of which the handler may read the other one")
)

// Everyone is one count for all calls.
func Everyone(context.Context, string) (string, error) { return "", nil }

// Method is a count for each method.
func Method(_ context.Context, method string) (string, error) { return method, nil }

// Peer is the address of the connection, of an IPv6 address its /64. An IPv4
// address that is written as IPv6, also by NAT64 as 64:ff9b::/96, is the same as
// without. It is the key that
// httplimit.Peer has, so that both can share counts. Behind a proxy all
// connections are the proxy's. Clients of a socket without addresses, as a unix
// socket, are one.
func Peer(ctx context.Context, _ string) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return "", ErrNoKey
	}
	text := p.Addr.String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return address.Network(a, address.IPv6Bits), nil
	}
	return p.Addr.Network(), nil
}

// Metadata is a value that the call brings along, as an API key that an
// interceptor before has verified. A call that has it twice is refused: the handler
// may read the one that was not counted.
func Metadata(name string) Key {
	name = strings.ToLower(name)
	return func(ctx context.Context, _ string) (string, error) {
		switch values := metadata.ValueFromIncomingContext(ctx, name); {
		case len(values) > 1:
			return "", errTwoKeys
		case len(values) == 0 || values[0] == "":
			return "", ErrNoKey
		default:
			return values[0], nil
		}
	}
}

// Join is all keys together: each pair of a peer and a method has a count of its
// own. It fails when one of them does. No two lists of parts have the same key,
// whatever is in them.
func Join(keys ...Key) Key {
	return func(ctx context.Context, method string) (string, error) {
		var b []byte // parts with their lengths can't run into each other
		for _, key := range keys {
			part, err := key(ctx, method)
			if err != nil {
				return "", err
			}
			b = strconv.AppendInt(b, int64(len(part)), 10)
			b = append(append(b, ':'), part...)
		}
		return string(b), nil
	}
}

// HealthOrReflection is whether a method is of gRPC's health or reflection
// service, for Options.Skip: a program that watches a server should not be denied, and should not
// use up events that clients share.
func HealthOrReflection(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.") || strings.HasPrefix(method, "/grpc.reflection.v1")
}
