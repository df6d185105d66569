package memstore

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// hasher turns keys into fingerprints of 64 bits, by a secret that nobody
// outside can know: so nobody can choose keys that share one. Two of n keys of a
// rule share a fingerprint with a probability of n²/2^65.
//
// One fingerprint serves for everything: its first bits lead to the segment, its lower
// half to the first bucket, all of it by a product to the second, and it stands in the
// slot in place of the key. A segment has 19 bits at most, so they never meet the lower half:
// keys of one segment spread over its buckets as evenly as keys of different ones. spilled goes
// by the upper 12 bits of the lower half, and denied by the lowest two.
type hasher struct {
	// seed is of maphash, which uses the processor's instructions and is the faster one.
	seed maphash.Seed
	// Where fingerprints outlive the process, they need a hash that does, too: keyed
	// takes SipHash-1-3 by key, which is in the snapshot. A store with a file so has
	// fingerprints of keyed from its first take on: the file has no keys to hash anew.
	keyed bool
	key   [2]uint64
}

// print is the fingerprint of key. Zero is an empty slot, so a key that hashes to it gets 1: two
// of 2^64 hashes have one fingerprint, which is no more likely than any other collision.
func (h *hasher) print(key string) uint64 {
	var f uint64
	if h.keyed {
		f = sip13(h.key, key)
	} else {
		f = maphash.String(h.seed, key)
	}
	if f == 0 {
		return 1
	}
	return f
}

// sip13 is SipHash-1-3 (Aumasson and Bernstein, 2012) of s.
func sip13(key [2]uint64, s string) uint64 {
	v0, v1 := key[0]^0x736f6d6570736575, key[1]^0x646f72616e646f6d
	v2, v3 := key[0]^0x6c7967656e657261, key[1]^0x7465646279746573
	last := uint64(len(s)) << 56
	for ; len(s) >= 8; s = s[8:] {
		m := word(s)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	var tail [8]byte
	copy(tail[:], s)
	last |= binary.LittleEndian.Uint64(tail[:])
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (a, b, c, d uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v1
	v0 += v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
