package member

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
)

// TestKeptUnsettled: a member that falls silent before it was settled does not take a share for unbroken, when it is settled, that another has counted on
// in between (I10).
func TestKeptUnsettled(t *testing.T) {
	names := []string{"node0", "node1", "node2"}
	list := []Member{{"node0", 1}, {"node1", 1}, {"node2", 1}}
	var peers [3]*Peers
	now := weir.Instant(1_000_000_000)
	type flight struct {
		at       weir.Instant
		from, to int
		beat     Heartbeat
	}
	var flights []flight
	t0 := weir.Instant(0)
	a, b, m := 0, 1, 2
	// lag is how long a heartbeat takes, -1: it is lost.
	lag := func(from, to int) weir.Instant {
		switch since := now - 1_000_000_000; {
		case since < 3_000_000:
			return 1000
		case from == b && to == a || from == a && to == b:
			return 1000
		case since < 5_000_000 && from != b && to != b: // a and m are cut off from each other
			return -1
		case since > 5_255_000 && from == m && to == b: // and b hears m no more when a is back
			return -1
		case from == a && to == m && t0 == 0:
			return 265_000
		case from == a && to == m && now > t0+655_000 && now < t0+714_000:
			return t0 + 715_000 - now
		case from == a && to == m && now < t0+714_000:
			return -1
		}
		return 1000
	}
	send := func(from int, out []HeartbeatTo) {
		for _, h := range out {
			to := int(h.Peer[4] - '0')
			if l := lag(from, to); l >= 0 {
				flights = append(flights, flight{now + l, from, to, h.Heartbeat})
			}
		}
	}
	for i, name := range names {
		peers[i] = NewPeers(now, name, 1)
		peers[i].Found()
		var out []HeartbeatTo
		peers[i].Agree(now, append([]Member(nil), list...), &out)
		send(i, out)
	}
	var key weir.StateKey
	for n := 0; ; n++ {
		key = weir.StateKey{Rule: "r", Key: fmt.Sprint(n)}
		if r := Rank(names, key); r[0] == a && r[1] == b {
			break
		}
	}
	counts := func(i int) bool {
		v := peers[i].View()
		p := v.Place(now, key, nil)
		for _, by := range p.Voters {
			if of := &v.members[by.member]; by.Name == names[m] && v.Voting && !of.leaves && !by.Kept && now < of.until {
				return true
			}
		}
		return false
	}
	state := func() string {
		v := peers[m].View()
		return fmt.Sprint(v.members[m].stand(a), v.members[m].stand(b))
	}
	var place Place
	broken, last, was := weir.Instant(0), weir.Instant(0), ""
	for end := now + 8_000_000; now < end; now += 1000 {
		rest := flights[:0:0]
		for _, f := range flights {
			if f.at > now {
				rest = append(rest, f)
			} else if f.from != a || f.to != m || t0 == 0 || now >= t0+712_000 {
				peers[f.to].Receive(now, names[f.from], &f.beat)
			}
		}
		flights = rest
		for i, p := range peers {
			if now >= p.Next() {
				var out []HeartbeatTo
				p.Tick(now, false, true, &out)
				send(i, out)
			}
		}
		if x := peers[m].peer("node0"); t0 == 0 && now > 1_005_000_000 && x.since > 0 && x.relied > 0 {
			t0 = x.since
		}
		v := peers[a].View()
		p := v.Place(now, key, nil) // a looks all the time
		if v.Version != place.Version && (!p.has(names[m]) || !v.unbroken(names[m], &p, &place)) {
			broken = now
		}
		place = p
		if counts(b) {
			last = now
		}
		is := fmt.Sprint("m stands to a, b: ", state(), " a has it: ", p.has(names[m]), " counts: ", counts(a), " b counts: ", counts(b))
		if is != was {
			t.Logf("%.3f s: %s; broken at %.3f", float64(now-1_000_000_000)/1e6, is, float64(broken-1_000_000_000)/1e6)
		}
		if was = is; counts(a) && last > broken {
			t.Fatalf("node0 counts on the share, unbroken since %.3f, and node1 did at %.3f", float64(broken-1_000_000_000)/1e6, float64(last-1_000_000_000)/1e6)
		}
	}
}

func Rank(names []string, key weir.StateKey) []int {
	v := &View{}
	for _, n := range names {
		v.members = append(v.members, seen{name: n})
	}
	return v.rank(key)
}
