// Package limited says which clients are limited now, over all rules and all nodes of a rule database. Each node tells the others the
// clients that it denied in the last minutes; a reader adds them up.
//
// told.go is what a node tells, in few bytes, and list.go the sum of that, as pages and programs see it. The counts of each
// node are of package offenders, and the rule database carries them: the daemon's limited.go.
package limited

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/internal/packing"
)

const (
	// For is how long after a denial a client counts as limited.
	For = time.Minute
	// MaxClients is how many clients a node tells of: those that were denied last. Told.Omitted counts the others.
	MaxClients = 1000
	// MaxBytes is how long it may be what a node tells. Clients that don't fit are omitted.
	MaxBytes = 256 << 10
)

// Told is what a node tells of its clients: those of some rules, at a time by the node's clock.
type Told struct {
	At    time.Time
	Rules []Rule
	// Rest is how often any client of a rule that is not among Rules was denied at most.
	Rest int64
	// Omitted is how many clients that are limited are left out.
	Omitted int
	// Missed is how many denials are in no count of a client.
	Missed int64
}

// Rule is a rule with clients that it denied.
type Rule struct {
	Domain, Name string
	// Least is how often any other client of this rule was denied at most.
	Least   int64
	Clients []offenders.Client
}

// Tell is what a node tells at a time of what its rules have denied. name is what to say in the place of a client's name.
func Tell(all []offenders.Limited, now time.Time, name func(string) string) Told {
	type one struct {
		rule int
		offenders.Client
	}
	var clients []one
	t := Told{At: now}
	for i := range all {
		t.Missed += all[i].Missed
		for _, c := range all[i].Clients {
			clients = append(clients, one{i, c})
		}
	}
	slices.SortFunc(clients, func(a, b one) int {
		return cmp.Or(recent(&b.Client, now).Compare(recent(&a.Client, now)), cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name), cmp.Compare(a.rule, b.rule))
	})
	at, bytes, least := map[int]int{}, headBytes, make([]int64, len(all))
	for i := range all {
		least[i] = all[i].Least
	}
	told := 0
	for _, c := range clients {
		shown := c.Client
		shown.Name = name(c.Name)
		size, of := clientBytes+len(shown.Name), &all[c.rule]
		if _, there := at[c.rule]; !there {
			size += ruleBytes + len(of.Domain) + len(of.Rule)
		}
		if told == MaxClients || bytes+size > MaxBytes {
			least[c.rule] = max(least[c.rule], c.N)
			if isLimited(&c.Client, now) {
				t.Omitted++
			}
			continue
		}
		told, bytes = told+1, bytes+size
		if _, there := at[c.rule]; !there {
			at[c.rule] = len(t.Rules)
			t.Rules = append(t.Rules, Rule{Domain: of.Domain, Name: of.Rule})
		}
		r := &t.Rules[at[c.rule]]
		r.Clients = append(r.Clients, shown)
	}
	for i := range all {
		if j, there := at[i]; there {
			t.Rules[j].Least = least[i]
		} else {
			t.Rest = max(t.Rest, least[i])
		}
	}
	return t
}

// isLimited is whether a request of a client did not pass lately.
func isLimited(c *offenders.Client, now time.Time) bool { return now.Sub(c.Last) < For }

// recent is when a client was limited last; zero: it is not limited.
func recent(c *offenders.Client, now time.Time) time.Time {
	if isLimited(c, now) {
		return c.Last
	}
	return time.Time{}
}

// The most bytes that packing takes beside texts.
const (
	headBytes   = 1 + 5*binary.MaxVarintLen64
	ruleBytes   = 4 * binary.MaxVarintLen64
	clientBytes = 7 * binary.MaxVarintLen64
)

// form is the first byte of what is told.
const form = 1

// Pack is what is told in bytes, MaxBytes at most. Times are told in seconds before At, and Until after it.
func (t *Told) Pack() []byte {
	b := []byte{form}
	put := func(n int64) { b = binary.AppendUvarint(b, uint64(max(n, 0))) }
	put(t.At.Unix())
	put(t.Rest)
	put(int64(t.Omitted))
	put(t.Missed)
	put(int64(len(t.Rules)))
	// 0 is no time, and n+1 is n seconds.
	seconds := func(from, to time.Time) int64 {
		if from.IsZero() || to.IsZero() {
			return 0
		}
		return max(int64(to.Sub(from)/time.Second), 0) + 1
	}
	for i := range t.Rules {
		r := &t.Rules[i]
		b = packing.AppendText(packing.AppendText(b, r.Domain), r.Name)
		put(r.Least)
		put(int64(len(r.Clients)))
		for _, c := range r.Clients {
			b = packing.AppendText(b, c.Name)
			put(c.N)
			put(c.Error)
			put(c.Lately)
			put(seconds(c.Since, t.At))
			put(seconds(c.Last, t.At))
			put(seconds(t.At, c.Until))
		}
	}
	return b
}

// errForm is in the error of Unpack.
var errForm = errors.New("limited: a node tells this in a form that this one does not know")

// Unpack reads what Pack has written. It fails for anything else, as of a newer node.
func Unpack(b []byte) (Told, error) {
	if len(b) == 0 || b[0] != form || len(b) > MaxBytes {
		return Told{}, errForm
	}
	r := packing.Reader{Rest: b[1:]}
	const most = 1 << 62
	number := func() int64 { return int64(r.Below(most)) }
	t := Told{At: time.Unix(int64(r.Below(1<<40)), 0).UTC(), Rest: number(), Omitted: int(number()), Missed: number()}
	at := func(sign int64) time.Time {
		n := r.Below(1 << 33)
		if n == 0 {
			return time.Time{}
		}
		return t.At.Add(time.Duration(sign*int64(n-1)) * time.Second)
	}
	t.Rules = make([]Rule, r.Length())
	for i := range t.Rules {
		rule := &t.Rules[i]
		rule.Domain, rule.Name, rule.Least = r.Text(MaxBytes), r.Text(MaxBytes), number()
		rule.Clients = make([]offenders.Client, r.Length())
		for j := range rule.Clients {
			c := &rule.Clients[j]
			c.Name, c.N, c.Error, c.Lately = r.Text(MaxBytes), number(), number(), number()
			c.Since, c.Last, c.Until = at(-1), at(-1), at(1)
		}
		if r.Bad {
			break
		}
	}
	if r.Bad || len(r.Rest) > 0 {
		return Told{}, errForm
	}
	return t, nil
}
