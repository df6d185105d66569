package h2

import "errors"

// tableSize is how large the dynamic table of a client's header fields may be: what RFC 9113 has a client
// begin with. An entry counts fieldCost more than its bytes.
const (
	tableSize = 4 << 10
	fieldCost = 32
	// mostList is how large the fields of a block may be: a byte may stand for a field as large as the table, so they
	// cost more than the bytes that came.
	mostList = 64 << 10
)

// decoder reads header blocks (RFC 7541). A connection has one for all its blocks, in their order.
type decoder struct {
	table table
	// changes counts the blocks that changed the table. While it stands, the same bytes mean the same fields.
	changes uint64
}

// table is the fields that the client has had indexed.
type table struct {
	bytes []byte  // of the entries, oldest first, each its name and its value
	all   []entry // those before first are gone
	first int
	size  int
	most  int // by the client, at most tableSize
}

// entry is where a field stands in the table's bytes. A malformed one stays so wherever it is used.
type entry struct {
	at, name, value int32
	malformed       bool
}

func (t *table) init() { t.most = tableSize }

func (t *table) len() int { return len(t.all) - t.first }

// get is the field of an index that counts from the newest, which is 0.
func (t *table) get(i int) (name, value []byte, malformed bool) {
	e := &t.all[len(t.all)-1-i]
	end := e.at + e.name
	return t.bytes[e.at:end], t.bytes[end : end+e.value], e.malformed
}

// add makes a field the newest. One that is too large for the table empties it (RFC 7541, 4.4).
func (t *table) add(name, value []byte, malformed bool) {
	need := len(name) + len(value) + fieldCost
	t.shrink(t.most - need)
	if need > t.most {
		return
	}
	if t.first > len(t.all)/2 && t.first > 16 {
		t.compact()
	}
	at := len(t.bytes)
	t.bytes = append(append(t.bytes, name...), value...)
	t.all = append(t.all, entry{int32(at), int32(len(name)), int32(len(value)), malformed})
	t.size += need
}

// shrink drops the oldest entries until the table is no larger.
func (t *table) shrink(size int) {
	for t.size > max(size, 0) {
		e := &t.all[t.first]
		t.size -= int(e.name+e.value) + fieldCost
		t.first++
	}
}

// compact drops the bytes of the entries that are gone.
func (t *table) compact() {
	gone := int32(len(t.bytes))
	if t.len() > 0 {
		gone = t.all[t.first].at
	}
	t.bytes = t.bytes[:copy(t.bytes, t.bytes[gone:])]
	t.all = t.all[:copy(t.all, t.all[t.first:])]
	t.first = 0
	for i := range t.all {
		t.all[i].at -= gone
	}
}

// The mistakes that a header block may have. The connection ends with it: nobody knows what later blocks mean.
var (
	errBlockEnds = errors.New("a header block ends within a field")
	errIndex     = errors.New("a header field has an index that no table has")
	errNumber    = errors.New("a number in a header block is too large")
	errResize    = errors.New("a header block makes the table larger than it may be, or late")
	errList      = errors.New("the fields of a header block are larger than 65536 bytes, each with 32")
)

// decode reads a block into h.
func (d *decoder) decode(block []byte, h *Head) error {
	h.reset()
	changed := false
	for begun := false; len(block) > 0; {
		first := block[0]
		var err error
		if first&0xe0 == 0x20 { // the size of the table
			var size int
			if size, block, err = number(block, 5); err != nil {
				return err
			}
			if begun || size > tableSize {
				return errResize
			}
			d.table.most = size
			d.table.shrink(size)
			changed = true
			continue
		}
		begun = true
		switch {
		case first&0x80 != 0: // a field of a table
			var i int
			if i, block, err = number(block, 7); err != nil {
				return err
			}
			err = d.indexed(i, h)
		case first&0x40 != 0: // a field for the table
			changed = true
			block, err = d.literal(block, 6, h)
		default: // a field for no table
			block, err = d.literal(block, 4, h)
		}
		if err != nil {
			return err
		}
		if h.size > mostList {
			return errList
		}
	}
	if changed {
		d.changes++
	}
	return nil
}

// indexed adds a field of a table to h.
func (d *decoder) indexed(i int, h *Head) error {
	if i > 0 && i < len(static) {
		h.add(static[i].name, static[i].value)
		return nil
	}
	if i == 0 || i-len(static) >= d.table.len() {
		return errIndex
	}
	name, value, malformed := d.table.get(i - len(static))
	h.malformed = h.malformed || malformed
	h.add(name, value)
	return nil
}

// literal reads a field that is written out, behind an index of so many bits for its name. With 6 bits it
// goes to the table.
func (d *decoder) literal(block []byte, bits int, h *Head) (rest []byte, err error) {
	i, block, err := number(block, bits)
	if err != nil {
		return nil, err
	}
	from, malformed := len(h.bytes), false
	switch {
	case i == 0:
		if h.bytes, block, err = text(h.bytes, block); err != nil {
			return nil, err
		}
	case i < len(static):
		h.bytes = append(h.bytes, static[i].name...)
	case i-len(static) < d.table.len():
		var name []byte
		name, _, malformed = d.table.get(i - len(static))
		h.bytes = append(h.bytes, name...)
	default:
		return nil, errIndex
	}
	middle := len(h.bytes)
	if h.bytes, block, err = text(h.bytes, block); err != nil {
		return nil, err
	}
	name, value := h.bytes[from:middle], h.bytes[middle:]
	malformed = malformed || i == 0 && !isName(name) || !isValue(value)
	if bits == 6 {
		d.table.add(name, value, malformed)
	}
	h.malformed = h.malformed || malformed
	h.added(from, middle)
	return block, nil
}

// text reads a string behind its length, and appends it to dst.
func text(dst, block []byte) (text, rest []byte, err error) {
	if len(block) == 0 {
		return dst, nil, errBlockEnds
	}
	packed := block[0]&0x80 != 0
	size, block, err := number(block, 7)
	if err != nil {
		return dst, nil, err
	}
	if size > len(block) {
		return dst, nil, errBlockEnds
	}
	if packed {
		dst, err = unpack(dst, block[:size])
		return dst, block[size:], err
	}
	return append(dst, block[:size]...), block[size:], nil
}

// mostNumber is larger than any number that can mean something here.
const mostNumber = 1 << 24

// number reads a number whose first bits are the last so many of the first byte (RFC 7541, 5.1).
func number(block []byte, bits int) (n int, rest []byte, err error) {
	most := 1<<bits - 1
	n = int(block[0]) & most
	block = block[1:]
	if n < most {
		return n, block, nil
	}
	for shift := 0; ; shift += 7 {
		if len(block) == 0 {
			return 0, nil, errBlockEnds
		}
		b := block[0]
		block = block[1:]
		if shift > 21 {
			return 0, nil, errNumber
		}
		if n += int(b&0x7f) << shift; n > mostNumber {
			return 0, nil, errNumber
		}
		if b&0x80 == 0 {
			return n, block, nil
		}
	}
}
