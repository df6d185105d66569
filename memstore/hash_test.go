package memstore

import (
	"encoding/binary"
	"math/bits"
	"os"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
)

// sip is SipHash-c-d as its paper writes it down.
func sip(c, d int, k0, k1 uint64, s []byte) uint64 {
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[1] = bits.RotateLeft64(v[1], 13)
			v[1] ^= v[0]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[3]
			v[3] = bits.RotateLeft64(v[3], 16)
			v[3] ^= v[2]
			v[0] += v[3]
			v[3] = bits.RotateLeft64(v[3], 21)
			v[3] ^= v[0]
			v[2] += v[1]
			v[1] = bits.RotateLeft64(v[1], 17)
			v[1] ^= v[2]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append(append([]byte{}, s...), make([]byte, 8-len(s)%8)...)
	padded[len(padded)-1] = byte(len(s))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		rounds(c)
		v[0] ^= m
	}
	v[2] ^= 0xff
	rounds(d)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// TestSip: the reference gives the paper's value for SipHash-2-4, and sip13 gives
// what it gives for SipHash-1-3.
func TestSip(t *testing.T) {
	const k0, k1 = 0x0706050403020100, 0x0f0e0d0c0b0a0908
	var text []byte
	for i := range 300 {
		if got := sip(2, 4, k0, k1, text); i == 15 && got != 0xa129ca6149be45e5 {
			t.Fatalf("the reference is wrong: %x", got)
		}
		if got, want := sip13([2]uint64{k0, k1}, string(text)), sip(1, 3, k0, k1, text); got != want {
			t.Fatalf("%d bytes: %x, want %x", i, got, want)
		}
		text = append(text, byte(i))
	}
}

// TestSaveOnAFullDisk: it is told, and the old file is still there.
func TestSaveOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here:", err)
	}
	defer full.Close()
	s := New(Options{})
	out := make([]weir.Decision, 1)
	if err := s.Take(t.Context(), []weir.Ask{{Limit: weir.MustParseLimit("1/day"), Cost: 1}}, out); err != nil {
		t.Fatal(err)
	}
	if err := s.write(full); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
}
