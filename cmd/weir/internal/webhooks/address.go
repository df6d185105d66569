package webhooks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// ParseNetworks reads networks, as 10.0.0.0/8,fd00::/8. A single address is a network, too.
func ParseNetworks(text string) (list []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if a, single := netip.ParseAddr(part); err != nil && single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no network; write 10.0.0.0/8, or several with commas between", part)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// inner is networks that are not the public Internet, or lead elsewhere from there (RFC 6890, and where clouds have their metadata).
func inner() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	for _, p := range networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// refusal is why nothing is sent to an address.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// check refuses addresses that are not public, unless they are allowed, and without TLS all that are not. It is asked about the address that is connected to, after
// the name was resolved: a name says nothing of where it leads.
func (c *client) check(plain bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		a, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		return c.refuse(a, plain)
	}
}

// refuse is why nothing is sent to an address, with TLS or plain; nil: something is.
func (c *client) refuse(a netip.Addr, plain bool) error {
	a = a.WithZone("").Unmap()
	switch {
	case within(a, c.networks):
		return nil
	case within(a, c.inner):
		return &refusal{a.String() + " is not public, and so not told anything; an operator can allow its network by --webhook-networks"}
	case plain:
		return &refusal{"without TLS nothing is sent to " + a.String() + "; write https, or an operator allows its network by --webhook-networks"}
	}
	return nil
}

// Reach is why nothing would be sent to a URL now: each address of its host is refused, as it would be when a message is sent. A host that can't be
// looked up is not refused, for it may be there later, and a URL that is none is not either.
func (s *Sender) Reach(ctx context.Context, target string) (err error) {
	u, bad := url.Parse(target)
	if bad != nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, lookupTime)
	defer stop()
	found, bad := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if bad != nil {
		return nil
	}
	for _, a := range found {
		if err = s.client.refuse(a, u.Scheme != "https"); err == nil {
			return nil
		}
	}
	return err
}
