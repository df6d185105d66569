// Package address says which addresses one client has: an IPv4 address, also one
// that a translator has written as IPv6, or a network of IPv6.
package address

import "net/netip"

// IPv4 is the address that a has inside, if it is of the well-known prefix
// 64:ff9b::/96 (RFC 6052, section 2.1); else it is a. Only global addresses are
// looked for: no other address may be written so, and a client that pretends to be one of a network
// of ours gains nothing.
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

// IPv6Bits is how much of an IPv6 address tells clients apart: the least that one customer is
// given. The customer may change the rest at will.
const IPv6Bits = 64

// Network is the text that a valid address counts under: an IPv4 address, however
// it is written, or the network of the first bits of an IPv6 address.
func Network(a netip.Addr, bits int) string {
	if a = a.Unmap(); !a.Is4() {
		a = IPv4(a) // else the whole internet of IPv4 would be one /64
	}
	if a.Is4() {
		return a.String()
	}
	if bits == IPv6Bits {
		return network64(a)
	}
	p, err := a.Prefix(bits) // without its zone
	if err != nil {
		return a.String() // there are no such bits
	}
	var room [48]byte
	return string(p.AppendTo(room[:0]))
}

// network64 is the text of the /64 of an IPv6 address as netip.Prefix writes it, in
// two thirds of the time: the second half is the longest run of zeros, with what is
// before it, so the text has only to end early.
func network64(a netip.Addr) string {
	const hex = "0123456789abcdef"
	b := a.As16()
	groups := 4
	for groups > 0 && b[2*groups-2]|b[2*groups-1] == 0 {
		groups--
	}
	var room [len("ffff:ffff:ffff:ffff::/64")]byte
	text := room[:0]
	for i := range groups {
		if i > 0 {
			text = append(text, ':')
		}
		high, low := b[2*i], b[2*i+1]
		if high > 0xf {
			text = append(text, hex[high>>4])
		}
		if high > 0 {
			text = append(text, hex[high&0xf])
		}
		if high > 0 || low > 0xf {
			text = append(text, hex[low>>4])
		}
		text = append(text, hex[low&0xf])
	}
	return string(append(text, "::/64"...))
}
