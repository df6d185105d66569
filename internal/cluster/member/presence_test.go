package member_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/internal/cluster/member"
)

// TestOpenTo: a hub is one whom all hear. A node that is gone is missed by nobody.
func TestOpenTo(t *testing.T) {
	for _, c := range []struct {
		what string
		self int
		deaf map[[2]int]bool // by, of
		want string
	}{
		{"all hear all", 0, nil, "1111"},
		{"3 is gone", 0, map[[2]int]bool{{0, 3}: true, {1, 3}: true, {2, 3}: true}, "1110"},
		{"0 and 3 don't hear each other", 1, map[[2]int]bool{{0, 3}: true, {3, 0}: true}, "0110"},
		{"the same, as 3 sees it", 3, map[[2]int]bool{{0, 3}: true, {3, 0}: true}, "0110"},
		{"two sides", 0, map[[2]int]bool{{0, 2}: true, {0, 3}: true, {1, 2}: true, {1, 3}: true, {2, 0}: true, {2, 1}: true, {3, 0}: true, {3, 1}: true}, "1100"},
		{"a ring", 0, map[[2]int]bool{{0, 2}: true, {2, 0}: true, {1, 3}: true, {3, 1}: true}, "0000"},
		{"3 does not hear 0, which hears it", 1, map[[2]int]bool{{3, 0}: true}, "0110"},
	} {
		var got strings.Builder
		deaf := func(by int) (all []int) {
			for of := range 4 {
				if c.deaf[[2]int{by, of}] {
					all = append(all, of)
				}
			}
			return all
		}
		for _, open := range member.OpenTo(c.self, 4, deaf) {
			fmt.Fprint(&got, map[bool]int{true: 1}[open])
		}
		if diff := cmp.Diff(c.want, got.String()); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}

// TestOpenToDefined holds OpenTo to what it says, whoever does not hear whom.
func TestOpenToDefined(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		n, percent := 1+r.IntN(6), r.IntN(60)
		deaf := make([][]int, n)
		for by := range n {
			for of := range n {
				if r.IntN(100) < percent {
					deaf[by] = append(deaf[by], of)
				}
			}
		}
		self := r.IntN(n)
		hears := func(by, of int) bool { return by == of || !slices.Contains(deaf[by], of) }
		open := member.OpenTo(self, n, func(by int) []int { return deaf[by] })
		for i := range n {
			want := hears(self, i)
			for j := range n {
				somebody := false
				for k := range n {
					somebody = somebody || hears(self, k) && hears(k, j)
				}
				want = want && (!somebody || hears(i, j) && (!hears(self, j) || hears(j, i)))
			}
			if open[i] != want {
				t.Fatalf("%d of %d nodes, as %d sees it, who don't hear %v: %v", i, n, self, deaf, open[i])
			}
		}
	}
}
