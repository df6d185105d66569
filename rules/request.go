package rules

import (
	"fmt"

	"github.com/weir-limit/weir"
)

// The bounds of a request. A cost is at most weir.MaxCount. Beyond them Check fails with a
// *RequestError: a caller has to see that it asks wrongly, and a request that was cut would meet
// other rules.
const (
	// MaxDescriptors is how many descriptors a request may have. Each meets at most MaxLimits
	// rules.
	MaxDescriptors = 100
	// MaxEntries is how many entries a descriptor may have, and so how deep a rule may stand in a
	// file.
	MaxEntries = 16
	// MaxWord is how many bytes a key may have, and a value.
	MaxWord = 4 << 10
)

// Entry is a key and its value: of a request, or of a rule.
type Entry struct {
	Key   string // not empty
	Value string // any bytes, also none
}

// Descriptor is one thing that a request is, told from the general to the
// particular: a user, or a user on a path. The order of the entries matters: path, then user meets
// the rules of user below path, and no rules of path below user.
type Descriptor struct {
	Entries []Entry // 1…MaxEntries
	// Cost is the events that the request is worth. 0 charges nothing: it only
	// asks.
	Cost int64
	// GiveBack gives Cost events back instead, of what is in use, as weir.Limit.Refund
	// does, before the others of the request are decided. The decision is that on a
	// cost of 0. A store that can't do it fails with weir.ErrNoRefund.
	GiveBack bool
	// Override is a limit that the request brings along. It stands in place of
	// the rules of the file, if the domain is known, and is always enforced.
	Override *weir.Limit
}

// Request asks the rules of one domain. All its descriptors are decided together, all or nothing.
type Request struct {
	Domain      string       // not empty; a domain that is unknown limits nothing
	Descriptors []Descriptor // 1…MaxDescriptors
	// Peek decides without charging: what it says may be different a moment later.
	Peek bool
	// Receipt asks for receipts, for Limiter.Settle. Without them a charge can't be corrected, and
	// a permit is free after its ttl only.
	Receipt bool
	// AnyCost makes a cost over weir.MaxCount one that can never pass, instead of
	// an error.
	AnyCost bool
	// Wider, unless nil, tells under which value an entry counts together with
	// others: of an IPv6 address its network. Limiter.Check puts it in place of the
	// entry's own, but where a rule is written for that one.
	Wider func(Entry) string
	// Client names the client, as far as it bounds how many different limits it may bring
	// (MaxOverrides): its address, say. Requests without it are one client's.
	Client string
}

// RequestError says that a request is none. Limiter.Check and Limiter.Settle
// return it. It is the fault of the caller, and the same request fails again:
//
//	descriptors[2].entries[0].key: is empty
type RequestError struct {
	Field string // where, as descriptors[2].entries[0].key
	Text  string // what is wrong there
}

// Error is the field and what is wrong with it.
func (e *RequestError) Error() string { return e.Field + ": " + e.Text }

// check finds what is wrong with r.
func (r *Request) check() error {
	if r.Domain == "" {
		return &RequestError{"domain", "is empty"}
	}
	if n := len(r.Descriptors); n < 1 || n > MaxDescriptors {
		return &RequestError{"descriptors", fmt.Sprintf("there are %d; there must be 1…%d", n, MaxDescriptors)}
	}
	for i := range r.Descriptors {
		if field, text := r.Descriptors[i].fault(r.AnyCost); text != "" {
			return &RequestError{fmt.Sprintf("descriptors[%d].%s", i, field), text}
		}
	}
	return nil
}

// fault is where a descriptor is wrong, and what is wrong there; empty: nothing is.
func (d *Descriptor) fault(anyCost bool) (field, text string) {
	if n := len(d.Entries); n < 1 || n > MaxEntries {
		return "entries", fmt.Sprintf("there are %d; there must be 1…%d", n, MaxEntries)
	}
	if d.Cost < 0 || d.Cost > weir.MaxCount && !anyCost {
		return "cost", fmt.Sprintf("is %d; it must be 0…%d", d.Cost, weir.MaxCount)
	}
	for i, e := range d.Entries {
		switch {
		case e.Key == "":
			return fmt.Sprintf("entries[%d].key", i), "is empty"
		case len(e.Key) > MaxWord:
			return fmt.Sprintf("entries[%d].key", i), fmt.Sprintf("has %d bytes; there may be %d", len(e.Key), MaxWord)
		case len(e.Value) > MaxWord:
			return fmt.Sprintf("entries[%d].value", i), fmt.Sprintf("has %d bytes; there may be %d", len(e.Value), MaxWord)
		}
	}
	return "", ""
}
