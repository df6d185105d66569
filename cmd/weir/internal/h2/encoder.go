package h2

// Field is a header field of an answer. Its name is in small letters.
type Field struct{ Name, Value string }

// encoder writes header blocks. It has the client's table keep the first few fields that may be the same
// again, and nothing else: so it knows where they stand. The zero encoder is that of a new connection.
type encoder struct {
	kept [mostKept]Field // oldest first
	n    int
	// shy is that the client's table is too small to keep anything.
	shy bool
	// smaller is by how much the client's table is smaller than tableSize, and tell that the next block must
	// say so.
	smaller int
	tell    bool
}

const (
	// mostKept is how many fields are kept, and mostKeptSize how large each is at most: together leastTable.
	mostKept     = 4
	mostKeptSize = 128
	leastTable   = mostKept * (mostKeptSize + fieldCost)
)

// resize takes note of how large the client's table may be.
func (e *encoder) resize(size uint32) {
	smaller := tableSize - int(min(size, tableSize))
	if smaller <= e.smaller {
		return
	}
	e.smaller, e.tell = smaller, true
	if tableSize-smaller < leastTable {
		e.shy, e.n = true, 0
	}
}

// begin begins a block.
func (e *encoder) begin(dst []byte) []byte {
	if !e.tell {
		return dst
	}
	e.tell = false
	return appendNumber(dst, 0x20, 5, tableSize-e.smaller)
}

// status appends :status.
func (e *encoder) status(dst []byte, code int) []byte {
	switch code {
	case 200:
		return append(dst, 0x88)
	case 404:
		return append(dst, 0x8d)
	}
	dst = append(dst, 0x08, 3)
	return append(dst, byte('0'+code/100%10), byte('0'+code/10%10), byte('0'+code%10))
}

// field appends a field. keep is whether it may be the same again.
func (e *encoder) field(dst []byte, f Field, keep bool) []byte {
	for i := range e.kept[:e.n] {
		if e.kept[i] == f {
			return append(dst, 0x80|byte(len(static)+e.n-1-i))
		}
	}
	kind := byte(0)
	if keep && !e.shy && e.n < mostKept && len(f.Name)+len(f.Value) <= mostKeptSize {
		e.kept[e.n] = f
		e.n++
		kind = 0x40
	}
	dst = appendText(append(dst, kind), f.Name)
	return appendText(dst, f.Value)
}

func appendText(dst []byte, text string) []byte {
	return append(appendNumber(dst, 0, 7, len(text)), text...)
}

// appendNumber appends a number behind the bits of first (RFC 7541, 5.1).
func appendNumber(dst []byte, first byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 128; n >>= 7 {
		dst = append(dst, byte(n)|128)
	}
	return append(dst, byte(n))
}
