package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

// TestParts: for each state of the members and each policy, how much keys have, until when and why.
func TestParts(t *testing.T) {
	set, err := rules.Parse("d.yaml", []byte(`domain: d
descriptors:
  - {key: a, limits: [5/s]}
  - {key: b, limits: [5/s], partition: closed}
  - {key: c, limits: [5/s], partition: reserve}
  - {key: d, limits: [5/s], partition: share}
  - {key: e, limits: [5/s], partition: open}
  - {key: f, limits: [5/s], sharing: mesh}
`))
	if err != nil {
		t.Fatal(err)
	}
	self, heard, silent, lost := Member{Name: "a", State: "self"}, Member{Name: "b", State: "heard"}, Member{Name: "c", State: "silent", GivenUpSeconds: 21}, Member{Name: "d", State: "silent"}
	const all, why = "keys have all of each limit", ", because this node does not hear 1 of 3 members"
	const until = " until c is heard again, or given up in 21 s"
	for name, c := range map[string]struct {
		status Status
		want   []string
	}{
		"well": {Status{Settled: true, Members: []Member{self, heard}}, []string{
			"partition: proportional: " + all, "partition: closed: " + all, "partition: reserve: " + all, "partition: share: " + all, "partition: open: " + all,
		}},
		"one is silent": {Status{Members: []Member{self, heard, silent}}, []string{
			"partition: proportional: keys have 2/3 of each limit" + until + why,
			"partition: closed: " + all + ", and keys that c owns nothing" + until + why,
			"partition: reserve: keys have 29/30 of each limit, and keys that c owns 2/30" + until + why,
			"partition: share: " + all + ", and keys that c owns 2/3" + until + why,
			"partition: open: " + all + ", and keys that c owns pass without a limit" + until + why,
		}},
	} {
		var got []string
		for _, p := range PartsOf(set, &c.status) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	forget := "c, d are heard again, or weir cluster forget NAME if they are gone for good"
	few := Status{Minority: true, Members: []Member{self, silent, lost}}
	for i, want := range []string{"1/3 of each limit", "nothing", "1/30 of each limit"} {
		if p := PartsOf(set, &few)[i]; p.Has != want || p.Until != forget {
			t.Errorf("%+v; want %s until %s", p, want, forget)
		}
	}
	if p := PartsOf(set, &Status{Members: []Member{self, heard}})[0]; p.Why != "members have changed" {
		t.Errorf("%+v while members change", p)
	}
	if p := PartsOf(set, &Status{Members: []Member{self, {Name: "b", State: "silent"}}})[0]; p.Until != "b is heard again, or given up" {
		t.Errorf("%+v of the first of two", p)
	}
	if p := PartsOf(nil, &few); p != nil {
		t.Errorf("%+v without rules", p)
	}
	if p := PartsOf(set, &Status{}); p != nil {
		t.Errorf("%+v without members", p)
	}
}
