package main

import (
	"slices"
	"testing"
)

// TestSubjects: what is measured does what the plan says: all passes, or after
// the first event of a key nothing.
func TestSubjects(t *testing.T) {
	for _, deny := range []bool{false, true} {
		for _, s := range slices.Concat([]subject{ours}, fronts, peers) {
			p := plan{keys: 2, deny: deny}
			worker := s.takes(p)
			if worker == nil {
				continue
			}
			f := worker()
			fill(f, p.keys)
			var b [16]byte
			for range 3 {
				for n := range uint64(p.keys) {
					if passed := f(keyOf(&b, n)); passed == deny {
						t.Errorf("%s, deny %v: key %d passes: %v", s.name, deny, n, passed)
					}
				}
			}
		}
	}
}
