package httpapi

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// names are the members of one kind of object, in the order of their bits.
var (
	checkNames      = []string{"domain", "descriptors", "peek", "receipt"}
	descriptorNames = []string{"entries", "cost"}
	entryNames      = []string{"key", "value"}
	settleNames     = []string{"receipt", "used", "renew"}
)

// required is the error for members that are not there, of those that must be.
func required(names []string, seen uint, must ...int) error {
	for _, i := range must {
		if seen&(1<<i) == 0 {
			return faultf("member %q is missing; it has no default", names[i])
		}
	}
	return nil
}

// readCheck reads the body of /v1/check into q, whose slices it uses again.
func readCheck(body string, q *rules.Request) error {
	*q = rules.Request{Descriptors: q.Descriptors[:0]}
	t := text{src: body}
	seen, err := t.object(checkNames, func(i int) (err error) {
		switch checkNames[i] {
		case "domain":
			q.Domain, err = t.string()
		case "descriptors":
			err = t.array(rules.MaxDescriptors, func(int) error {
				q.Descriptors = grow(q.Descriptors)
				return readDescriptor(&t, &q.Descriptors[len(q.Descriptors)-1])
			})
			if err == nil && len(q.Descriptors) == 0 {
				err = faultf("there must be one at least")
			}
		case "peek":
			q.Peek, err = t.boolean()
		case "receipt":
			q.Receipt, err = t.boolean()
		}
		return err
	})
	if err == nil {
		err = t.end()
	}
	if err == nil {
		err = required(checkNames, seen, 0, 1)
	}
	return err
}

// grow makes s one longer. The element that s held there before stays, so that its slices can be
// used again.
func grow[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

func readDescriptor(t *text, d *rules.Descriptor) error {
	*d = rules.Descriptor{Entries: d.Entries[:0], Cost: 1}
	seen, err := t.object(descriptorNames, func(i int) (err error) {
		switch descriptorNames[i] {
		case "entries":
			err = t.array(rules.MaxEntries, func(int) error {
				d.Entries = grow(d.Entries)
				return readEntry(t, &d.Entries[len(d.Entries)-1])
			})
			if err == nil && len(d.Entries) == 0 {
				err = faultf("there must be one at least")
			}
		case "cost":
			d.Cost, err = t.integer(weir.MaxCount)
		}
		return err
	})
	if err != nil {
		return err
	}
	return required(descriptorNames, seen, 0)
}

func readEntry(t *text, e *rules.Entry) error {
	*e = rules.Entry{}
	seen, err := t.object(entryNames, func(i int) (err error) {
		switch entryNames[i] {
		case "key":
			e.Key, err = t.string()
		case "value":
			e.Value, err = t.string()
		}
		return err
	})
	if err != nil {
		return err
	}
	return required(entryNames, seen, 0, 1)
}

// settlement is the body of /v1/settle.
type settlement struct {
	receipt string
	used    []int64 // one for all descriptors, or as many as there were
	each    bool    // used is an array
	renew   bool
}

func readSettle(body string) (s settlement, err error) {
	t := text{src: body}
	seen, err := t.object(settleNames, func(i int) (err error) {
		switch settleNames[i] {
		case "receipt":
			s.receipt, err = t.string()
		case "used":
			err = s.readUsed(&t)
		case "renew":
			s.renew, err = t.boolean()
		}
		return err
	})
	if err == nil {
		err = t.end()
	}
	switch {
	case err != nil:
	case s.renew:
		err = required(settleNames, seen, 0)
	default:
		err = required(settleNames, seen, 0, 1)
	}
	return s, err
}

func (s *settlement) readUsed(t *text) error {
	one := func(int) error {
		n, err := t.integer(weir.MaxCount)
		s.used = append(s.used, n)
		return err
	}
	if t.next() != '[' {
		return one(0)
	}
	s.each = true
	return t.array(rules.MaxDescriptors, one)
}
