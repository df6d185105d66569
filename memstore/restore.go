package memstore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
)

var errDamaged = errors.New("it is damaged or cut short")

// restore reads the file of s, which is empty. It reads it twice: nothing is
// believed before the sum is right. Nobody else has s yet; the locks are taken since the code
// that keeps states wants them. An error leaves s with a part of the counts, and Open drops it.
//
// The file says nothing of when it was written, and needn't: states go by instants since 1970.
// A state that has recovered since then is as never used by the clock of now, and is left out. A clock
// that is behind finds more in use, and for longer. Then keys are denied for longer than need
// be, and none is let through for it.
func (s *Store) restore() error {
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := check(f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := &reader{from: bufio.NewReaderSize(io.LimitReader(f, size), 1<<16), left: size}
	r.bytes(len(magic))
	r.number()
	s.hash.key = [2]uint64{r.number(), r.number()}
	most := s.brought.most // what was kept had room, and is laid out anew
	s.brought.most = math.MaxInt64
	defer func() { s.brought.most = most }()
	for {
		more, err := s.section(r)
		if err != nil || !more {
			return err
		}
	}
}

// check reads all of f and says how many bytes come before the sum. It looks at the format first,
// since a file of another one may have its sum elsewhere, and the operator is told of the format.
func check(f *os.File) (int64, error) {
	var head [len(magic) + 8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:len(magic)]) != magic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		return 0, errors.New("it is no snapshot, or cut short")
	}
	if v := binary.LittleEndian.Uint64(head[len(magic):]); v != format {
		return 0, fmt.Errorf("it has format %d, and this version of Weir reads format %d", v, format)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size() - sha256.Size
	if size < int64(len(head)) {
		return 0, errDamaged
	}
	sum := sha256.New()
	sum.Write(head[:])
	if _, err := io.CopyN(sum, f, size-int64(len(head))); err != nil {
		return 0, err
	}
	want, err := io.ReadAll(io.LimitReader(f, sha256.Size+1))
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(want, sum.Sum(nil)) {
		return 0, errDamaged
	}
	return size, nil
}

// reader remembers its first error, and reads zeros from then on. The sum of what it reads was
// right, so an error means that the writer was at fault; still no length is believed: each is
// compared with left before memory is had for it.
type reader struct {
	from *bufio.Reader
	left int64 // bytes until the sum
	err  error
	few  [8]byte // of a number, so that none is allocated for each
}

func (r *reader) number() uint64 {
	if r.err == nil {
		_, r.err = io.ReadFull(r.from, r.few[:])
		r.left -= 8
	}
	if r.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(r.few[:])
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || int64(n) > r.left {
		r.err = errors.Join(r.err, errDamaged)
		return nil
	}
	b := make([]byte, n)
	_, r.err = io.ReadFull(r.from, b)
	r.left -= int64(n)
	return b
}

func (r *reader) text() string { return string(r.bytes(int(min(r.number(), longestText+1)))) }

// section reads one section, and says whether it was not the end.
//
// A section whose limit the rule's table does not understand goes to a table of its own, as if it
// were asked by that limit now: a live one while there is room, then one that is retired.
//
// Receipts from before now give nothing back, since the file may be older than their charges. That
// goes by the clock alone, as given knows of none of them: one from a clock that was ahead of now
// counts as newer.
func (s *Store) section(r *reader) (more bool, err error) {
	rule := r.text()
	if rule == "" && r.left == 0 {
		return false, r.err
	}
	if rule == "" {
		r.number()
	}
	text, width, count := r.text(), r.number(), r.number()
	if r.err != nil {
		return false, r.err
	}
	rule, apart := strings.CutPrefix(rule, ownRule)
	if apart {
		rule = strings.TrimPrefix(rule, text+ownRule)
	}
	limit, err := weir.ParseLimit(text)
	if err != nil {
		return false, fmt.Errorf("it has counts of a limit that can't be read: %w", err)
	}
	if width != uint64(limit.Words()) {
		return false, fmt.Errorf("its counts of %q have %d words, and this version of Weir keeps %d", text, width, limit.Words())
	}
	t, err := s.table(rule)
	if err != nil {
		return false, err
	}
	now := s.clock.now()
	if !apart && !t.understands(limit) {
		if t = s.branch(rule, limit, now); t == nil {
			t = s.branchRetired(rule, limit, now)
		}
		if t == nil {
			return false, fmt.Errorf("it has counts of more than %d limits of one rule", 2*weir.MaxVersions)
		}
	}
	t.forget(now)
	var state weir.State
	for ; count > 0 && r.err == nil; count-- {
		f, n := r.number(), width
		if width == 0 {
			n = r.number()
		}
		if f == 0 || int64(n) > r.left/8 || n > 1<<lengthBits-1 {
			return false, errDamaged
		}
		state = state[:0]
		for range n {
			state = append(state, r.number())
		}
		if apart {
			t.insertOwn(f, limit, state, now)
		} else {
			t.insert(f, limit, state, now)
		}
	}
	return true, r.err
}

// insertOwn gives a key with limits of its own the state by one of them. The first that is read decides.
func (t *table) insertOwn(f uint64, limit *weir.Limit, state weir.State, now weir.Instant) {
	o := t.ownKeys()
	had := o.of(f)
	switch {
	case limit.Fresh(state, now):
		return
	case had == nil && !o.room(now):
		return
	case had == nil:
		o.put(f, &weir.Kept{Limit: limit, State: slices.Clone(state), Since: now + 1}, now)
		return
	}
	k := had.Clone()
	k.Earlier = append(k.Earlier, weir.Version{
		Limit: limit, State: slices.Clone(state), Since: now + 1, Until: now + weir.Instant(limit.FreshAfter(state, now).Microseconds()) + 1,
	})
	if len(k.Earlier) < weir.MaxVersions {
		o.put(f, &k, now)
	}
}

// insert gives f a state that was read, unless it has one: a table that is retired comes
// after the one of the same limit that has heard of all that is in it.
//
// A table that may have fewer keys than before fills up. Then the key nearest to never used makes
// room, and a state for which all of its slots are of denied keys is left out.
func (t *table) insert(f uint64, limit *weir.Limit, state weir.State, now weir.Instant) {
	if limit.Fresh(state, now) {
		return
	}
	// The clock may show less than when the file was written, and step on later: what is
	// owed until then is kept.
	t.last(now + weir.Instant(limit.FreshAfter(state, now).Microseconds()) + 1)
	sg := t.lock(f)
	defer sg.unlock()
	sg.keep(limit)
	if sg.cells.find(f) >= 0 {
		return
	}
	if i := sg.claim(f, now); i >= 0 {
		sg.put(i, state)
	}
}
