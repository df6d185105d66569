// Package storeurl reads what the URLs of all kinds of stores have in common: where a server
// is, the path of a socket, and options. An error says what to write. It repeats nothing of a
// URL but the part that is wrong, for a URL may have a password.
package storeurl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// HostPort takes the place of a server apart: a name or an address, and the number of a
// port.
func HostPort(text string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(text)
	n, odd := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%q is no host:port; write an IPv6 address in brackets", text)
	case host == "":
		return "", "", fmt.Errorf("%q names no host; write host:port", text)
	case !isHost(host):
		return "", "", fmt.Errorf("%q is no host:port; a host is an IP address, or a name of letters, digits, and . - _", text)
	case odd != nil || n == 0:
		return "", "", fmt.Errorf("%q is no host:port; %q is no port number, which is 1…65535", text, port)
	}
	return host, port, nil
}

// isHost is whether text may be the name or the address of a host.
func isHost(text string) bool {
	if strings.Contains(text, ":") {
		_, err := netip.ParseAddr(text)
		return err == nil
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		letter, digit := 'a' <= r|0x20 && r|0x20 <= 'z', '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune(".-_", r)
	})
}

// Socket refuses the path of a socket that depends on the folder that a program runs in.
func Socket(path string) error {
	if strings.HasPrefix(path, "/") {
		return nil
	}
	return fmt.Errorf("%q is not the whole path of a socket; it begins with a slash, as in ///run/weir.sock", path)
}

// Options are the options of a URL, which stand behind its question mark. Each of them is one
// of known, and given once with a value.
func Options(query string, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the options can't be read; write ?name=value, and more with &")
	}
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch given := values[name]; {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("unknown option %q; the options are %s", name, strings.Join(known, ", "))
		case len(given) > 1:
			return nil, fmt.Errorf("option %s is given %d times; give it once", name, len(given))
		case given[0] == "":
			return nil, fmt.Errorf("option %s has no value; give it one, or leave it out", name)
		default:
			all[name] = given[0]
		}
	}
	return all, nil
}
