package limited

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
)

// Node is a node with what it tells.
type Node struct {
	Name string
	Told Told
	Age  time.Duration // how long ago it told that
}

// List is the clients that are limited, at all nodes that told.
type List struct {
	At time.Time
	// Clients are those that were denied last first.
	Clients []*Client
	Nodes   []string // that told
	// Silent are nodes that should have told, and have not.
	Silent []string
	// Alone is why these are the clients of one node, though others may deny clients, too; empty: they are of all.
	Alone string
	// Omitted is how many clients nodes have left out, because there are too many.
	Omitted int
	// Missed is how many denials of the last minutes are in no count of a client.
	Missed int64
	// Hashed is whether a hash stands for each name.
	Hashed bool
}

// Client is a client of a rule. Its requests were denied Denied times at most in the last five to ten minutes, and Error times fewer
// at least.
type Client struct {
	Domain, Rule, Name string
	Denied, Error      int64
	// Lately is how many were in the last 10 to 20 seconds, at most Error more.
	Lately int64
	// Since and Last are when the first and the last one was, of those of the last minutes.
	Since, Last time.Time
	Until       time.Time // when it may come again, by its last denial; zero: nobody knows
	Nodes       []string  // where it is limited
}

// Merge is the sum of what nodes tell, at a time of this node's clock. A client that a node does not tell of had there at most what the
// node tells of all others, so that is added to Denied and to Error.
func Merge(nodes []Node, now time.Time) List {
	type key struct{ domain, rule, name string }
	type rule struct{ domain, name string }
	list, most := List{At: now}, 0
	for i := range nodes {
		for j := range nodes[i].Told.Rules {
			most += len(nodes[i].Told.Rules[j].Clients)
		}
	}
	rest, least := int64(0), map[rule]int64{} // of all nodes, and what is to be added to it for a rule
	at, clients := make(map[key]*Client, most), make([]Client, 0, most)
	for i := range nodes {
		n := &nodes[i]
		list.Nodes = append(list.Nodes, n.Name)
		list.Omitted += n.Told.Omitted
		list.Missed += n.Told.Missed
		rest += n.Told.Rest
		// Clocks of nodes differ: what they tell is so long before now as it was before they told.
		shift := now.Sub(n.Told.At) - n.Age
		for j := range n.Told.Rules {
			r := &n.Told.Rules[j]
			least[rule{r.Domain, r.Name}] += r.Least - n.Told.Rest
			for k := range r.Clients {
				c := &r.Clients[k]
				id := key{r.Domain, r.Name, c.Name}
				sum := at[id]
				if sum == nil {
					clients = append(clients, Client{Domain: r.Domain, Rule: r.Name, Name: c.Name})
					sum = &clients[len(clients)-1]
					at[id] = sum
				}
				sum.add(c, n.Name, r.Least, shift, now)
			}
		}
	}
	for i := range clients {
		c := &clients[i]
		if now.Sub(c.Last) >= For {
			continue
		}
		list.Clients = append(list.Clients, c)
		others := rest + least[rule{c.Domain, c.Rule}]
		c.Denied, c.Error = c.Denied+others, c.Error+others
	}
	slices.SortFunc(list.Clients, compare)
	slices.Sort(list.Nodes)
	return list
}

// add adds what a node tells of a client. least is what is to be taken for it where a node does not tell of it.
func (c *Client) add(o *offenders.Client, node string, least int64, shift time.Duration, now time.Time) {
	c.Denied, c.Error, c.Lately = c.Denied+o.N-least, c.Error+o.Error-least, c.Lately+o.Lately
	if o.Last.IsZero() {
		return
	}
	since, last := o.Since.Add(shift), o.Last.Add(shift)
	if now.Sub(last) < For {
		c.Nodes = append(c.Nodes, node)
	}
	if c.Since.IsZero() || since.Before(c.Since) {
		c.Since = since
	}
	if last.After(c.Last) {
		c.Last, c.Until = last, time.Time{}
		if !o.Until.IsZero() {
			c.Until = o.Until.Add(shift)
		}
	}
}

func compare(a, b *Client) int {
	if n := b.Last.Compare(a.Last); n != 0 { // names are compared only where all else is the same
		return n
	}
	if n := cmp.Or(cmp.Compare(b.Lately, a.Lately), cmp.Compare(b.Denied, a.Denied)); n != 0 {
		return n
	}
	return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Name, b.Name))
}

// Query says which clients are asked for: those with these texts in their name, domain and rule, in capital or small letters.
type Query struct {
	Client, Domain, Rule string
	May                  func(domain, rule string) bool // whether a rule may be told of
}

// Find is the clients that fit.
func (l *List) Find(q Query) []*Client {
	type rule struct{ domain, name string }
	fits := map[rule]bool{}
	q.Client, q.Domain, q.Rule = strings.ToLower(q.Client), strings.ToLower(q.Domain), strings.ToLower(q.Rule)
	var found []*Client
	for _, c := range l.Clients {
		of := rule{c.Domain, c.Rule}
		fit, known := fits[of]
		if !known {
			fit = strings.Contains(strings.ToLower(c.Domain), q.Domain) && strings.Contains(strings.ToLower(c.Rule), q.Rule) && q.May(c.Domain, c.Rule)
			fits[of] = fit
		}
		if fit && (q.Client == "" || strings.Contains(strings.ToLower(c.Name), q.Client)) {
			found = append(found, c)
		}
	}
	return found
}
