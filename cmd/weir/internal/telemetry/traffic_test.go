package telemetry

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestTrafficOfRules: what is told goes with the rules in force, and a new limit
// keeps what was counted.
func TestTrafficOfRules(t *testing.T) {
	m := testMeter(t, "domain: d\ndescriptors: [{key: user, limits: [1/day]}, {key: gone, limits: [1/day]}]\n")
	ann := rules.Entry{Key: "user", Value: "ann"}
	for range 2 {
		asks(t, m, "d", 1, nil, ann)
		asks(t, m, "d", 1, m.Set().Rules()[0].Limit, ann)
	}
	m.Replace(parsed(t, "domain: d\ndescriptors: [{key: user, limits: [2/day]}]\n"))
	asks(t, m, "d", 1, nil, ann)
	var got []string
	top, _ := m.Book.Top(offenders.Filter{}, 9)
	for _, one := range top {
		got = append(got, fmt.Sprint(one.Rule, " ", one.Limit, " ", one.Passed, " ", one.Clients.Top(9)))
	}
	if want := "[d/user 2/day 2 [{ann 1 0}] d#override <nil> 1 [{user ann 1 0}]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	m.Replace(parsed(t, "domain: other\ndescriptors: []\n"))
	if top, _ := m.Book.Top(offenders.Filter{}, 9); len(top) != 0 {
		t.Errorf("%+v", top)
	}
}

// TestTrafficOfOpened: a rule that is opened, and closed again, keeps what was
// counted before; when it goes, all of it goes.
func TestTrafficOfOpened(t *testing.T) {
	const enforced = "domain: d\ndescriptors: [{key: user, limits: [1/day]}]\n"
	const opened = "domain: d\ndescriptors: [{key: user, limits: [1/day], shadow_mode: true}]\n"
	m := testMeter(t, enforced)
	ann := rules.Entry{Key: "user", Value: "ann"}
	for _, text := range []string{enforced, opened, enforced, opened, enforced} {
		m.Replace(parsed(t, text))
		asks(t, m, "d", 1, nil, ann)
		asks(t, m, "d", 1, nil, ann)
	}
	got := map[bool]string{}
	top, _ := m.Book.Top(offenders.Filter{}, 9)
	for _, one := range top {
		got[one.Shadow] = fmt.Sprint(one.Passed, " ", one.Denied, " ", one.Clients.Top(9))
	}
	if got[false] != "1 5 [{ann 5 0}]" || got[true] != "0 4 [{ann 4 0}]" || len(top) != 2 {
		t.Error(got, len(top))
	}
	m.Replace(parsed(t, "domain: d\ndescriptors: [{key: other, limits: [1/day]}]\n"))
	if top, _ := m.Book.Top(offenders.Filter{}, 9); len(top) != 1 || len(m.counters.Load().labels) != 1 {
		t.Errorf("%+v", top)
	}
}

// BenchmarkDenied is a check that is denied, and counted: by one client, and in a
// flood of them.
func BenchmarkDenied(b *testing.B) {
	for _, clients := range []int{1, 100_000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			m := NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), NewDecisions())
			m.Replace(parsed(b, "domain: shop\ndescriptors:\n- {key: user, limits: [0/s]}\n"))
			if err := m.Remember(rules.NewDenials()); err != nil {
				b.Fatal(err)
			}
			requests := make([]*rules.Request, clients)
			for i := range requests {
				e := rules.Entry{Key: "user", Value: fmt.Sprint("somebody-", i)}
				requests[i] = &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{e}, Cost: 1}}}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if a, err := m.Check(b.Context(), requests[i%clients]); err != nil || a.Allowed {
					b.Fatal(err)
				}
			}
		})
	}
}
