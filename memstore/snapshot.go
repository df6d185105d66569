package memstore

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/atomicfile"
)

// A snapshot is a file of all numbers in little-endian order:
//
//	"weir-mem", the format's number, the key of the hash that makes fingerprints,
//	sections, a section of no rule, and the SHA-256 of all this
//
// A section is the rule, the text of the limit, the words of a state or 0 where
// they grow, how many counts follow, and of each the fingerprint and the state;
// one that grows has its length before it. Texts have their length before them.
//
// A number has 8 bytes, so a key with a state of two words takes 24. The fingerprints stand in
// the file, and so does the key of their hash: the next process finds the states by them.
// The keys are not in it. But somebody who can read it can try whether a key that they think of
// is in use, and choose keys that collide.
const (
	magic  = "weir-mem"
	format = 1
)

// longestText bounds the rules and limits that are read from a snapshot.
const longestText = 1 << 24

// SnapshotError says why counts were not read from a snapshot.
type SnapshotError struct {
	File  string
	Aside string // where the file is now, or empty when it could not be moved
	Err   error
}

func (e *SnapshotError) Error() string {
	text := fmt.Sprintf("the counts in %s can't be used, so all start anew: %v", e.File, e.Err)
	if e.Aside != "" {
		text += "; the file is now " + e.Aside
	}
	return text
}

// Unwrap is why.
func (e *SnapshotError) Unwrap() error { return e.Err }

// Open makes a store with the counts that Save has kept in file, if it is there.
// When they can't be used, the store is empty, the file is moved aside, and the
// error is a *SnapshotError. Any other error comes without a store.
//
// Receipts from before give nothing back, but free their permits. The state that keys of a full
// table shared, because all other keys were denied, is not kept.
func Open(file string, o Options) (*Store, error) {
	// A pipe would be waited for, and what is a device put aside.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file; write the path of one, or of none that is there yet", file)
	}
	s := New(o)
	s.file, s.hash.keyed = file, true
	if err := s.newKey(); err != nil {
		return nil, err
	}
	atomicfile.RemoveAbandoned(file)
	err := s.restore()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	s = New(o)
	s.file, s.hash.keyed = file, true
	if err := s.newKey(); err != nil {
		return nil, err
	}
	failed := &SnapshotError{File: file, Err: err}
	if aside := file + time.Now().UTC().Format(".unread-20060102T150405.000000Z"); os.Rename(file, aside) == nil {
		failed.Aside = aside
	}
	return s, failed
}

func (s *Store) newKey() error {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("make a key for fingerprints: %w", err)
	}
	s.hash.key = [2]uint64{binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])}
	return nil
}

// Save keeps all counts in the file that the store was opened with: the whole
// new file or, when it fails, still the old one. Takes go on meanwhile; none
// waits for more than the copy of one segment. It must not be called twice at
// the same time.
//
// The file is not of one moment: each segment is as it was when it was copied. So of a
// take of several keys it may have one count with the charge and another without. The tables
// are those of its beginning: a rule that is asked for the first time meanwhile is in the next
// file.
func (s *Store) Save() error {
	if s.file == "" {
		return errors.New("memstore: only a store that was made by Open can be saved")
	}
	if err := atomicfile.Write(s.file, s.write); err != nil {
		return fmt.Errorf("save counts: %w", err)
	}
	return nil
}

func (s *Store) write(to io.Writer) error {
	sum := sha256.New()
	w := &writer{to: bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)}
	w.bytes([]byte(magic))
	w.number(format)
	w.number(s.hash.key[0])
	w.number(s.hash.key[1])
	tables := s.all()
	for _, t := range tables {
		if err := t.write(w); err != nil {
			return err
		}
	}
	written := map[*own]bool{nil: true}
	for _, t := range tables {
		if o := t.own.Load(); !written[o] { // all tables of a rule have one
			written[o] = true
			t.writeOwn(w)
		}
	}
	w.text("")
	if err := w.flush(); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// all are the tables of now, of each rule those that are retired last: insert relies on that order.
func (s *Store) all() []*table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tables := make([]*table, 0, len(s.tables))
	for _, t := range s.tables {
		if v := t.current(); v != nil {
			tables = append(tables, v.all()...)
		} else {
			tables = append(tables, t)
		}
	}
	return tables
}

// writer remembers its first error.
type writer struct {
	to    *bufio.Writer
	err   error
	few   [8]byte
	words []uint64 // memory for writeOwn
}

func (w *writer) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
}

func (w *writer) number(n uint64) {
	binary.LittleEndian.PutUint64(w.few[:], n)
	w.bytes(w.few[:])
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.bytes([]byte(s))
}

func (w *writer) flush() error {
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// section is what is copied at a time, without being written yet. It is the states of one segment,
// or for states that grow a part of them: first their fingerprints only, then, with their
// lengths, the states. A slow disk so makes no take wait, for it is written without a lock.
type section struct {
	limit *weir.Limit // nil: the segment was never asked
	width int         // words of a state; 0: they grow
	count int         // of states
	words []uint64    // as in the file; their memory is used again for the next segment
}

// write writes the states of all segments, by their start. It goes on with the fingerprint after
// the last of the segment before. A split in between changes nothing of that: its parts cover what
// the segment did. So each key that has a slot all the time is in the file once.
func (t *table) write(w *writer) error {
	var s section
	for start := uint64(0); ; {
		next := t.copy(start, &s)
		switch {
		case s.limit != nil && s.width == 0:
			if err := t.writeGrowing(w, s.words); err != nil {
				return err
			}
		case s.count > 0:
			s.write(w, t.rule)
		}
		if start = next; start == 0 || w.err != nil {
			return w.err
		}
	}
}

// writeOwn writes the counts of keys with limits of their own, a section for each limit that a key has a
// state of. They come behind the tables, and have ownRule before their rule: a Weir that knows of no such keys
// reads them as counts of rules that there are not.
func (t *table) writeOwn(w *writer) {
	for f, v := range t.ownStates {
		limit, state := v.Limit, v.State
		if len(state) == 0 {
			continue // as never used
		}
		s := section{limit: limit, width: limit.Words(), count: 1, words: append(w.words[:0], f)}
		if s.width == 0 {
			s.words = append(s.words, uint64(len(state)))
		}
		s.words = append(s.words, state...)
		w.words = s.words
		s.write(w, ownRule+limit.String()+ownRule+t.rule)
	}
}

// ownRule stands before the limit and the rule of a section of writeOwn.
const ownRule = "\x00own\x00"

func (s *section) write(w *writer, rule string) {
	w.text(rule)
	if rule == "" {
		w.number(0) // not the end
	}
	w.text(s.limit.String())
	w.number(uint64(s.width))
	w.number(uint64(s.count))
	for _, word := range s.words {
		w.number(word)
	}
}

// copy copies the segment of start while its takes wait: the fingerprints, and
// the states if they have a fixed length. It returns where the next one starts; after the last
// that is 2^64, which is 0. Those that grow come later, a few at a time, for one segment may have
// far more words of them than may be copied while takes wait.
func (t *table) copy(start uint64, s *section) (next uint64) {
	sg := t.lock(start)
	defer sg.mu.Unlock()
	*s = section{limit: sg.limit, words: s.words[:0]}
	next = sg.start + 1<<(64-sg.depth)
	if sg.limit == nil {
		return next
	}
	s.width = sg.limit.Words()
	for i := range sg.cells.all {
		s.words = append(s.words, sg.cells.words[i])
		if s.width > 0 {
			s.words = append(s.words, sg.state(i)...)
		}
		s.count++
	}
	return next
}

// copyWords is how many words of growing states are copied while takes wait. The state that passes
// it is still copied whole.
const copyWords = 1 << 16

// writeGrowing writes the states of some fingerprints, a few at a time. States that have gone
// meanwhile were unused, or forgotten. The fingerprints were of one segment, which may have been
// split since then: each round looks for the segment of the next one, and takes those that follow
// as long as they are of the same.
func (t *table) writeGrowing(w *writer, prints []uint64) error {
	for len(prints) > 0 && w.err == nil {
		sg := t.lock(prints[0])
		s := section{limit: sg.limit, width: sg.limit.Words()}
		for len(prints) > 0 && len(s.words) < copyWords && sg.holds(prints[0]) {
			if i := sg.cells.find(prints[0]); i >= 0 {
				state := sg.state(i)
				s.words = append(s.words, prints[0])
				if s.width == 0 {
					s.words = append(s.words, uint64(len(state)))
				}
				s.words = append(s.words, state...)
				s.count++
			}
			prints = prints[1:]
		}
		sg.mu.Unlock()
		s.write(w, t.rule)
	}
	return w.err
}
