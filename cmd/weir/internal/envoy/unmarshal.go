package envoy

import (
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/rules"
)

// The fields of the messages that repeat: those of a RateLimitRequest, and of its
// descriptors.
const (
	descriptorsField protowire.Number = 2
	entriesField     protowire.Number = 1
)

// crowd is how many descriptors a request has, and how many entries the first of them
// that has too many.
type crowd struct{ descriptors, at, entries int }

// crowdIn counts what is in a request that is made.
func crowdIn(descriptors []*ratelimit.RateLimitDescriptor) (c crowd) {
	for _, d := range descriptors {
		c.descriptors++
		c.entry(len(d.GetEntries()))
	}
	return c
}

// entry counts another entry of the last descriptor, which has so many by then.
func (c *crowd) entry(has int) {
	if last := c.descriptors - 1; has > rules.MaxEntries && (c.entries == 0 || c.at == last) {
		c.at, c.entries = last, has
	}
}

// fault is what is wrong with a request of a crowd.
func (c *crowd) fault() error {
	switch {
	case c.descriptors > rules.MaxDescriptors:
		return fmt.Errorf("descriptors: there are %d; there may be %d", c.descriptors, rules.MaxDescriptors)
	case c.entries > 0:
		return fmt.Errorf("descriptors[%d].entries: there are %d; there may be %d", c.at, c.entries, rules.MaxEntries)
	}
	return nil
}

// Unmarshal reads a request from the wire. It fails with a *RequestError, before it
// makes anything, for one that has more descriptors or entries than it may: an empty
// descriptor is two bytes there, and a hundred here.
func Unmarshal(wire []byte, q *rls.RateLimitRequest) error {
	var c crowd
	each(wire, descriptorsField, func(descriptor []byte) {
		c.descriptors++
		entries := 0
		each(descriptor, entriesField, func([]byte) {
			entries++
			c.entry(entries)
		})
	})
	if err := c.fault(); err != nil {
		return &RequestError{err}
	}
	return proto.Unmarshal(wire, q)
}

// each calls do with each message that is a field of another. Where the bytes are none it stops, as
// their reader will.
func each(wire []byte, field protowire.Number, do func([]byte)) {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeField(wire)
		if n < 0 {
			return
		}
		if number == field && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(wire)
			message, _ := protowire.ConsumeBytes(wire[tag:])
			do(message)
		}
		wire = wire[n:]
	}
}

// UnmarshalJSON is Unmarshal for proto JSON.
func UnmarshalJSON(text []byte, q *rls.RateLimitRequest) error {
	c := crowdOf(text)
	if err := c.fault(); err != nil {
		return &RequestError{err}
	}
	return protojson.Unmarshal(text, q)
}

// maxDepth is deeper than a request is.
const maxDepth = 8

// crowdOf counts what is in the arrays of a request, as far as it is one. There are no
// others than its descriptors and, in these, the entries, whatever their names are
// written like; both hold objects.
func crowdOf(text []byte) (c crowd) {
	var open [maxDepth]byte // what has begun and not ended: '[' or '{'
	depth, arrays, entries := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; b {
		case '"':
			i = stringEnd(text, i)
		case '[', '{':
			if depth == maxDepth {
				return c
			}
			switch within := depth > 0 && open[depth-1] == '['; {
			case within && arrays == 1:
				c.descriptors++
				entries = 0
			case within:
				entries++
				c.entry(entries)
			}
			open[depth] = b
			depth++
			if b == '[' {
				arrays++
			}
		case ']', '}':
			if depth == 0 {
				return c
			}
			depth--
			if open[depth] == '[' {
				arrays--
			}
		}
	}
	return c
}

// stringEnd is where a string ends that begins at i, or the end of the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
