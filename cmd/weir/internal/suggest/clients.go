package suggest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
)

const (
	// maxClients is how many clients are looked at. When there are more, half of
	// them are dropped, by a hash of their keys, and so are newcomers of that half:
	// those that stay are a fair sample.
	maxClients = 1_000_000
	// maxEvents is how many requests there may be within one window; a log with
	// more is refused.
	maxEvents = 1 << 23
)

// keyOf is what tells clients apart.
func keyOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	var b []byte
	for _, v := range values {
		b = strconv.AppendInt(b, int64(len(v)), 10)
		b = append(append(b, ' '), v...)
	}
	return string(b)
}

// clients numbers clients by their keys.
type clients struct {
	numbers map[string]int32
	most    int
	mask    uint64 // of the hash: clients with any of these bits are not looked at
}

// hash is FNV-1a, the same in every run, so that the same log gets the same answer.
func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return h
}

// peaks finds the most requests of each client within any window.
type peaks struct {
	clients

	all    []peak
	window weir.Instant
	per    Window
	events []event // in the window that ends now
	limit  int     // of events
}

// event is a request of a client.
type event struct {
	at     weir.Instant
	client int32
}

// peak is one client.
type peak struct {
	now  int64 // requests in the window that ends now
	most int64
}

func newPeaks(per Window) *peaks {
	return &peaks{
		clients: clients{numbers: map[string]int32{}, most: maxClients},
		window:  per.length(), per: per, limit: maxEvents,
	}
}

// count notes a request. Times never run backwards.
func (p *peaks) count(at weir.Instant, key string) error {
	for len(p.events) > 0 && p.events[0].at <= at-p.window {
		p.all[p.events[0].client].now--
		p.events = p.events[1:]
	}
	n := p.number(key)
	if n < 0 {
		return nil
	}
	c := &p.all[n]
	c.now++
	c.most = max(c.most, c.now)
	if len(p.events) == p.limit {
		return &accesslog.InputError{Err: fmt.Errorf("more than %d requests within one %s: %s", p.limit, p.per, shorter[p.per])}
	}
	p.events = append(p.events, event{at, n})
	return nil
}

// shorter is what to do when a window has too many requests.
var shorter = map[Window]string{Hour: "take --per min", Minute: "take --per s", Second: "take a part of the log"}

// number is the number of a client, −1 for one that is not looked at.
func (p *peaks) number(key string) int32 {
	if n, ok := p.numbers[key]; ok {
		return n
	}
	h := hash(key)
	for h&p.mask == 0 && len(p.numbers) >= p.most {
		p.halve()
	}
	if h&p.mask != 0 {
		return -1
	}
	n := int32(len(p.all))
	p.numbers[strings.Clone(key)] = n
	p.all = append(p.all, peak{})
	return n
}

// halve drops half of the clients.
func (p *peaks) halve() {
	p.mask = p.mask<<1 | 1
	kept := make([]int32, len(p.all)) // new numbers; −1 for those dropped
	var all []peak
	for key, n := range p.numbers {
		if kept[n] = -1; hash(key)&p.mask != 0 {
			delete(p.numbers, key)
			continue
		}
		kept[n] = int32(len(all))
		p.numbers[key] = kept[n]
		all = append(all, p.all[n])
	}
	p.all = all
	events := p.events[:0]
	for _, e := range p.events {
		if e.client = kept[e.client]; e.client >= 0 {
			events = append(events, e)
		}
	}
	p.events = events
}

// peaks is the peaks of all clients.
func (p *peaks) peaks() []int64 {
	all := make([]int64, len(p.all))
	for i := range p.all {
		all[i] = p.all[i].most
	}
	return all
}

// needs finds the burst that each client needs never to be denied, for some
// counts.
type needs struct {
	clients *clients
	window  int64
	counts  [len(marks)]int64
	all     []need
}

// need is one client: for each count how full its bucket is, and was at most. An
// event is as many parts as the window has microseconds, so that the bucket
// leaks count parts in one.
type need struct {
	at   weir.Instant
	now  [len(marks)]int64
	most [len(marks)]int64
}

func newNeeds(c *clients, per Window, suggestions []Suggestion) *needs {
	n := &needs{clients: c, window: int64(per.length()), all: make([]need, len(c.numbers))}
	for i := range suggestions {
		n.counts[i] = suggestions[i].count
	}
	return n
}

// count notes a request. Times never run backwards.
func (n *needs) count(at weir.Instant, key string) {
	number, ok := n.clients.numbers[key]
	if !ok {
		return
	}
	c := &n.all[number]
	passed := int64(at - c.at)
	c.at = at
	for i, count := range n.counts {
		if passed > c.now[i]/count {
			c.now[i] = 0
		} else {
			c.now[i] -= passed * count
		}
		c.now[i] += n.window
		c.most[i] = max(c.most[i], c.now[i])
	}
}

// of is the bursts that all clients need for the i-th count.
func (n *needs) of(i int) []int64 {
	all := make([]int64, len(n.all))
	for j := range n.all {
		all[j] = (n.all[j].most[i] + n.window - 1) / n.window
	}
	return all
}

// percentile is the least of values that percent of them do not exceed.
func percentile(values []int64, percent int64) int64 {
	slices.Sort(values)
	rank := (int64(len(values))*percent + 99) / 100
	return values[max(rank, 1)-1]
}
