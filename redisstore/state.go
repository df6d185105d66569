package redisstore

import (
	"encoding/binary"
	"fmt"

	"github.com/weir-limit/weir"
)

// words is a state of its bytes, without copying the text first.
func words(text string) weir.State {
	if text == "" {
		return nil
	}
	s := make(weir.State, len(text)/8)
	for i := range s {
		s[i] = word(text[8*i:])
	}
	return s
}

// word is the number in the first 8 bytes, little-endian. A text shorter than a word reads as if
// zeros followed. Callers have looked at the length where that matters.
func word(text string) uint64 {
	var b [8]byte
	copy(b[:], text)
	return binary.LittleEndian.Uint64(b[:])
}

// stateOf is the state that take.lua saw, or one that decides alike where it
// left out what does not matter.
func stateOf(a *weir.Ask, text string) (weir.State, error) {
	switch a.Limit.Algorithm() {
	// take.lua tells long logs and permits in a shorter form: a log may have 10,000 stamps, and
	// each of them would travel with each answer. All other states are a few words, and come as
	// they are.
	case weir.SlidingLog:
		return logOf(text)
	case weir.Concurrent:
		return permitsOf(text)
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.LeakyQueue, weir.FixedWindow, weir.SlidingWindow, weir.WarmUp:
	}
	if n := a.Limit.Words(); text != "" && len(text) != 8*n {
		return nil, fmt.Errorf("it has %d bytes of state for a %s; is it another program's?", len(text), a.Limit)
	}
	return words(text), nil
}

// No decision may miss what the script leaves out: each function here makes a state by which
// package weir comes to the same decision for the ask at hand, although it is not the state that
// Redis has. Nothing of it is written back. The tests compare each decision with the one over the
// whole state.

// logOf is a log of all stamps ('A'), or ('F') of how many there are, the oldest,
// the index and the value of one between, and the newest.
func logOf(text string) (weir.State, error) {
	// take.lua counts stamps in 14 bits, so the state that is made here is at most 128 kB,
	// whatever stands in the key.
	if len(text) < 9 || text[0] == 'F' && len(text) != 41 {
		return nil, fmt.Errorf("a log of %d bytes", len(text))
	}
	n := word(text[1:])
	if text[0] == 'A' { // what follows is the state as Go has it: the number, then the stamps
		if n == 0 {
			return nil, nil
		}
		return words(text[1:]), nil
	}
	// An ask waits until one certain stamp has left the window. So the stamps up to that one may
	// all be the oldest, and those from it on all be that one, but for the newest, when the log is
	// as never used.
	s := make(weir.State, 1+n)
	s[0] = n
	oldest, at, waits, newest := word(text[9:]), word(text[17:]), word(text[25:]), word(text[33:])
	for i := range s[1:] {
		s[1+i] = oldest
		if uint64(i) >= at {
			s[1+i] = waits
		}
	}
	s[n] = newest
	return s, nil
}

// permitsOf makes a state from the numbers of which a decision about permits depends: how many are
// held, whether there is room for another holder, and when the last permit ends. It is as many
// holders as there are, with all permits held by the last.
func permitsOf(text string) (weir.State, error) {
	if len(text) != 24 {
		return nil, fmt.Errorf("permits of %d bytes", len(text))
	}
	// At the bound each of them has a place of its own in the state, for then package weir counts
	// places.
	held, holders, last := word(text), word(text[8:]), word(text[16:])
	if holders == 0 {
		return nil, nil
	}
	if holders < weir.MaxHolders {
		holders = 1 // how many there are matters at the bound only
	}
	s := make(weir.State, 1+3*holders)
	s[0] = held
	for i := uint64(1); i < uint64(len(s)); i += 3 {
		s[i] = last
	}
	s[len(s)-1] = held
	return s, nil
}
