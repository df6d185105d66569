// Package nat64 knows IPv4 addresses again that a translator has written as IPv6.
package nat64

import "net/netip"

// IPv4 is the address that a has inside, if it is of the well-known prefix
// 64:ff9b::/96 (RFC 6052, section 2.1); else it is a. Only global addresses are
// looked for: no others may be written so, and who would pretend to be one of a
// network of ours gains nothing.
func IPv4(a netip.Addr) netip.Addr {
	b := a.As16()
	if b[0] != 0 || b[1] != 0x64 || b[2] != 0xff || b[3] != 0x9b || [8]byte(b[4:12]) != [8]byte{} {
		return a
	}
	inside := netip.AddrFrom4([4]byte(b[12:]))
	if !inside.IsGlobalUnicast() || inside.IsPrivate() {
		return a
	}
	return inside
}
