package h2

import "errors"

// The Huffman code of RFC 7541, appendix B, is canonical: codes of one length are numbers in the order
// of their symbols, and the shorter ones come first. So the symbols of each length are all that need be
// written. The end of a string, EOS, is the last code of 30 bits; it must not occur.
var lengths = map[int]string{
	5: "012aceiost",
	6: " %-./3456789=A_bdfghlmnpru",
	7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
	8: "&*,;XZ", 10: "!\"()?", 11: "'+|", 12: "#>", 13: "\x00$@[]~", 14: "^}", 15: "<`{",
	19: "\\\xc3\xd0",
	20: "\x80\x82\x83\xa2\xb8\xc2\xe0\xe2",
	21: "\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6",
	22: "\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9",
	23: "\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\xc5\xe7\xef",
	24: "\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed",
	25: "\xc7\xcf\xea\xeb",
	26: "\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
	27: "\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe",
	28: "\x02\x03\x04\x05\x06\a\b\v\f\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f\xdc\xf9",
	30: "\n\r\x16",
}

const longest = 30 // bits of a code

// step is what the next 8 bits of a string mean: a symbol of so many of them, or that the code goes on in
// another table. Neither: they are no code.
type step struct {
	symbol byte
	bits   uint8
	table  uint8
}

// steps are the tables; the first is that of a code's first 8 bits.
var steps = newSteps() //nolint:gochecknoglobals // Go has no constant tables

func newSteps() [][256]step {
	all := make([][256]step, 1)
	code := uint32(0)
	for bits := 1; bits <= longest; bits++ {
		code <<= 1
		for _, symbol := range []byte(lengths[bits]) {
			all = enter(all, code<<(32-bits), bits, symbol)
			code++
		}
	}
	return all
}

// enter adds a code, whose bits are the first of code.
func enter(all [][256]step, code uint32, bits int, symbol byte) [][256]step {
	at := 0
	for ; bits > 8; bits -= 8 {
		first := byte(code >> 24)
		if all[at][first].table == 0 {
			all = append(all, [256]step{})
			all[at][first].table = uint8(len(all) - 1)
		}
		at = int(all[at][first].table)
		code <<= 8
	}
	first := int(code >> 24)
	for i := range 1 << (8 - bits) {
		all[at][first+i] = step{symbol: symbol, bits: uint8(bits)}
	}
	return all
}

var errHuffman = errors.New("a string is not in the Huffman code of RFC 7541")

// unpack appends the string that coded is to dst.
func unpack(dst, coded []byte) ([]byte, error) {
	bits, have, at := uint64(0), uint(0), uint8(0)
	for _, b := range coded {
		bits = bits<<8 | uint64(b)
		have += 8
		for have >= 8 {
			s := &steps[at][byte(bits>>(have-8))]
			switch {
			case s.table != 0:
				at = s.table
				have -= 8
			case s.bits != 0:
				dst = append(dst, s.symbol)
				have -= uint(s.bits)
				at = 0
			default:
				return dst, errHuffman
			}
		}
	}
	for have > 0 {
		s := &steps[at][byte(bits<<(8-have))]
		if s.bits == 0 || uint(s.bits) > have {
			break
		}
		dst = append(dst, s.symbol)
		have -= uint(s.bits)
		at = 0
	}
	// The bits that are left are the first of EOS, fewer than 8.
	if at != 0 || bits&(1<<have-1) != 1<<have-1 {
		return dst, errHuffman
	}
	return dst, nil
}
