package envoy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// Wire answers requests as they stand in a message, without the generated types: to make these is most of the
// work of a call. It keeps its memory for the next request, so it has one at a time. The zero Wire is ready.
type Wire struct {
	request rules.Request
	answer  rules.Answer
	entries []rules.Entry
	own     []bool // whether a descriptor has a cost of its own
	hits    uint32
}

// Answer appends the response to the request that message is to dst. It fails as ShouldRateLimit does, and with
// what is wrong with the message. Nothing of the message is kept.
func (w *Wire) Answer(ctx context.Context, limiter Limiter, message []byte, o Options, dst []byte) ([]byte, error) {
	if o != (Options{}) || !w.read(string(message)) {
		return answer(ctx, limiter, message, o, dst)
	}
	if err := check(ctx, limiter, &w.request, &w.answer); err != nil {
		return dst, err
	}
	return appendResponse(dst, &w.answer, len(w.request.Descriptors))
}

// answer does the same by the generated types.
func answer(ctx context.Context, limiter Limiter, message []byte, o Options, dst []byte) ([]byte, error) {
	q := new(rls.RateLimitRequest)
	if err := Unmarshal(message, q); err != nil {
		if _, ok := errors.AsType[*RequestError](err); !ok {
			err = &RequestError{fmt.Errorf("the request is no RateLimitRequest: %w", err)}
		}
		return dst, err
	}
	r, err := ShouldRateLimit(ctx, limiter, q, o)
	if err != nil {
		return dst, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, r)
}

// read reads a message, unless it has something that few have: a limit of its own, fields that this program does
// not know, too much of anything, a mistake. For these the generated types know best.
func (w *Wire) read(message string) bool {
	r := &w.request
	*r = rules.Request{Descriptors: r.Descriptors[:0], AnyCost: true} // what is more than any limit is over all of them
	w.entries, w.own, w.hits = w.entries[:0], w.own[:0], 0
	for len(message) > 0 {
		var f wireField
		if !f.next(&message) {
			return false
		}
		switch f.tag {
		case 1<<3 | 2:
			r.Domain = f.text
			if !utf8.ValidString(f.text) {
				return false
			}
		case 2<<3 | 2:
			if len(r.Descriptors) == rules.MaxDescriptors || !w.descriptor(f.text) {
				return false
			}
		case 3 << 3:
			w.hits = uint32(f.number)
		default:
			return false
		}
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		d.Cost = costOf(w.hits, w.own[i], uint64(d.Cost))
	}
	return true
}

// descriptor reads a RateLimitDescriptor. Its cost is its own, if it has one.
func (w *Wire) descriptor(message string) bool {
	first, own, cost, back := len(w.entries), false, uint64(0), false
	for len(message) > 0 {
		var f wireField
		if !f.next(&message) {
			return false
		}
		switch f.tag {
		case 1<<3 | 2:
			if len(w.entries)-first == rules.MaxEntries || !w.entry(f.text) {
				return false
			}
		case 3<<3 | 2: // a message with a number
			own = true
			for text := f.text; len(text) > 0; {
				if !f.next(&text) || f.tag != 1<<3 {
					return false
				}
				cost = f.number
			}
		case 4 << 3:
			back = f.number != 0
		default:
			return false
		}
	}
	end := len(w.entries)
	w.own = append(w.own, own)
	w.request.Descriptors = append(w.request.Descriptors, rules.Descriptor{
		Entries: w.entries[first:end:end], Cost: int64(min(cost, maxHits)), GiveBack: back,
	})
	return true
}

func (w *Wire) entry(message string) bool {
	var e rules.Entry
	for len(message) > 0 {
		var f wireField
		if !f.next(&message) || !utf8.ValidString(f.text) {
			return false
		}
		switch f.tag {
		case 1<<3 | 2:
			e.Key = f.text
		case 2<<3 | 2:
			e.Value = f.text
		default:
			return false
		}
	}
	w.entries = append(w.entries, e)
	return true
}

// wireField is a field of a message: a number, or bytes.
type wireField struct {
	tag    uint64 // its number and its type, as they are written
	number uint64
	text   string
}

// next cuts the first field off a message, if it is a number or bytes.
func (f *wireField) next(message *string) bool {
	m := *message
	ok := false
	if f.tag, m, ok = varint(m); !ok {
		return false
	}
	if f.number, m, ok = varint(m); !ok {
		return false
	}
	switch f.tag & 7 {
	case 0:
		f.text = ""
	case 2:
		if f.number > uint64(len(m)) {
			return false
		}
		f.text, m = m[:f.number], m[f.number:]
	default:
		return false
	}
	*message = m
	return true
}

// varint cuts a number off a message.
func varint(m string) (n uint64, rest string, ok bool) {
	if len(m) > 0 && m[0] < 0x80 {
		return uint64(m[0]), m[1:], true
	}
	for i := 0; i < len(m) && i < binary.MaxVarintLen64; i++ {
		n |= uint64(m[i]&0x7f) << (7 * i)
		if m[i] < 0x80 {
			return n, m[i+1:], i < binary.MaxVarintLen64-1 || m[i] < 2
		}
	}
	return 0, m, false
}

// The tags of a response's fields, and those of the messages in it.
const (
	tagOverall  = 1 << 3
	tagStatus   = 2<<3 | 2
	tagAdd      = 3<<3 | 2
	tagMetadata = 6<<3 | 2

	tagCode      = 1 << 3 // of a status
	tagLimit     = 2<<3 | 2
	tagRemaining = 3 << 3
	tagReset     = 4<<3 | 2

	tagCount = 1 << 3 // of a limit
	tagUnit  = 2 << 3
	tagName  = 3<<3 | 2

	tagSeconds = 1 << 3 // of a duration

	tagKey   = 1<<3 | 2 // of a header
	tagValue = 2<<3 | 2
)

// appendResponse appends what responseOf makes.
func appendResponse(dst []byte, a *rules.Answer, descriptors int) ([]byte, error) {
	dst = appendNumber(dst, tagOverall, uint64(overall(a)))
	for _, s := range standings(a, descriptors) {
		dst = append(dst, tagStatus, 0)
		at := len(dst)
		dst = appendNumber(dst, tagCode, uint64(s.code))
		if s.decision != nil {
			dst = appendLimit(append(dst, tagLimit, 0), s.decision.Rule)
		}
		dst = appendNumber(dst, tagRemaining, uint64(s.remaining))
		if s.decision != nil {
			dst = append(dst, tagReset, 0)
			from := len(dst)
			dst = ends(appendNumber(dst, tagSeconds, uint64(fields.Reset(&s.decision.Decision))), from)
		}
		dst = ends(dst, at)
	}
	if !a.Allowed {
		dst = append(dst, tagAdd, 0)
		at := len(dst)
		dst = ends(appendString(appendString(dst, tagKey, DenialHeader), tagValue, a.ID()), at)
	}
	metadata := structOf(metadataOf(a, descriptors))
	if metadata == nil {
		return dst, nil
	}
	m, err := proto.Marshal(metadata)
	return protowire.AppendBytes(append(dst, tagMetadata), m), err
}

// appendLimit appends which limit it was, behind the room for its size.
func appendLimit(dst []byte, r *rules.Rule) []byte {
	at := len(dst)
	name, count, unit := limitOf(r)
	dst = appendNumber(dst, tagCount, uint64(count))
	dst = appendNumber(dst, tagUnit, uint64(unit))
	return ends(appendString(dst, tagName, name), at)
}

// appendNumber appends a field, unless it is 0.
func appendNumber(dst []byte, tag byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, tag), n)
}

// appendString appends a field, unless it is empty.
func appendString(dst []byte, tag byte, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(append(dst, tag), text)
}

// ends is dst with the size of the message that begins there, in the byte before it, and further ones if it is large.
func ends(dst []byte, at int) []byte {
	size := len(dst) - at
	if size < 0x80 {
		dst[at-1] = byte(size)
		return dst
	}
	more := protowire.SizeVarint(uint64(size)) - 1
	dst = append(dst, make([]byte, more)...)
	copy(dst[at+more:], dst[at:])
	protowire.AppendVarint(dst[:at-1], uint64(size))
	return dst
}
