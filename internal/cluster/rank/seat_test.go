package rank

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
)

// TestLed: all keys of a rule have one owner, or as many as it has leaders, and all counts of a descriptor
// have the same.
func TestLed(t *testing.T) {
	members := []string{"a", "b", "c", "d", "e"}
	for _, leaders := range []int{0, 1, 3, weir.MaxLeaders, weir.MaxLeaders + 5} {
		seats, owners := map[int]int{}, map[string]string{}
		for i := range 4000 {
			key := weir.StateKey{Rule: "shop/ip#gcra", Key: fmt.Sprint(i)}
			led := Led(key, leaders)
			seats[Seat(key.Key, leaders)]++
			mark, rest := CutMark(led.Rule)
			if rest != key.Rule || led.Key != key.Key || len(mark) > MaxMark {
				t.Fatalf("%v is led as %q, %q", key, led.Rule, led.Key)
			}
			owner := First(led, members)
			if before, ok := owners[mark]; ok && before != owner {
				t.Fatalf("%q has owners %s and %s", mark, before, owner)
			}
			owners[mark] = owner
			if other := Led(weir.StateKey{Rule: "shop/ip#log", Key: key.Key}, leaders); other.Rule[:len(mark)] != mark || First(other, members) != owner {
				t.Fatalf("another count of %q is with another leader", key.Key)
			}
		}
		want := min(max(leaders, 1), weir.MaxLeaders)
		if len(seats) != want {
			t.Errorf("%d leaders: %d seats; want %d", leaders, len(seats), want)
		}
		for seat, n := range seats {
			if n*want < 2000 || n*want > 8000 {
				t.Errorf("%d leaders: seat %d has %d of 4000 keys", leaders, seat, n)
			}
		}
	}
}

// TestCutMark: what no node writes is no mark.
func TestCutMark(t *testing.T) {
	for _, rule := range []string{"", "shop/ip", "leader:", "leader:3", "leader:\x00x", "leader:333\x00x", "\x00leader:1\x00x"} {
		if mark, rest := CutMark(rule); mark != "" || rest != rule {
			t.Errorf("%q: %q and %q", rule, mark, rest)
		}
	}
}
