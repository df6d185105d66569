// Package credentials reads certificates, keys, tokens and passwords from
// files, and again when they change. Nothing of a secret is in its errors.
package credentials

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxFile is how large a file may be, in bytes. A larger one is refused.
const maxFile = 1 << 20

// File is a file that a flag names. Without a path there is none.
type File struct{ Flag, Path string }

// Error says what is wrong with a file, and what to do.
type Error struct {
	File File
	Text string
}

func (e *Error) Error() string {
	if e.File.Path == "" {
		return e.File.Flag + ": " + e.Text
	}
	return e.File.Flag + " " + e.File.Path + ": " + e.Text
}

// Files are files that mean something together, and what they mean. Its methods
// may be called from many goroutines.
type Files[T any] struct {
	files  []File
	parse  func(texts [][]byte, now time.Time) (T, error)
	value  atomic.Pointer[T]
	failed atomic.Pointer[string] // what was wrong last, to say it once; nil: nothing yet

	mu    sync.Mutex // held to look
	taken digest     // of what value was made of
	seen  digest     // of what was there last
}

type digest [sha256.Size]byte

// open reads files for the first time.
func open[T any](now time.Time, parse func([][]byte, time.Time) (T, error), files ...File) (*Files[T], error) {
	f := &Files[T]{files: files, parse: parse}
	if _, err := f.Look(now, true); err != nil {
		return nil, err
	}
	return f, nil
}

// Value is what the files say, or said when they were good last.
func (f *Files[T]) Value() T { return *f.value.Load() }

// Failed is what is wrong with the files; empty when nothing is. It does not wait for a goroutine
// that looks: files may be on a disk that hangs.
func (f *Files[T]) Failed() string {
	if text := f.failed.Load(); text != nil {
		return *text
	}
	return ""
}

// say keeps what is wrong, and says whether that is new.
func (f *Files[T]) say(text string) (news bool) {
	news = f.Failed() != text
	f.failed.Store(&text)
	return news
}

// Look reads the files, and whatever is good in them becomes the Value. A change
// counts when two looks on end see the same, or at once, so that what is
// being written is not read by halves. news is whether there is something to
// tell: another value, or another error.
func (f *Files[T]) Look(now time.Time, atOnce bool) (news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts, sum, err := f.read()
	settled := atOnce || sum == f.seen
	f.seen = sum
	switch {
	case !settled:
		return false, nil
	case err == nil && sum == f.taken && f.value.Load() != nil:
		return f.say(""), nil
	}
	var value T
	if err == nil {
		value, err = f.parse(texts, now)
	}
	if err != nil {
		err = f.named(err)
		return f.say(err.Error()), err
	}
	f.value.Store(&value)
	f.taken = sum
	f.say("")
	return true, nil
}

// fault is what a parse finds wrong with the file at an index.
type fault struct {
	file int
	text string
}

func (e *fault) Error() string { return e.text }

// named names the file of a fault.
func (f *Files[T]) named(err error) error {
	if bad, ok := errors.AsType[*fault](err); ok {
		return &Error{f.files[bad.file], bad.text}
	}
	return err
}

// read gives the text of each file, nil where there is none, and a digest of
// all: of the error, too, which can be as new.
func (f *Files[T]) read() (texts [][]byte, sum digest, err error) {
	h := sha256.New()
	for i, file := range f.files {
		var text []byte
		if file.Path != "" && err == nil {
			text, err = readFile(i, file.Path)
		}
		texts = append(texts, text)
		part := sha256.Sum256(text)
		h.Write(part[:])
	}
	if err != nil {
		h.Write([]byte(err.Error()))
	}
	return texts, digest(h.Sum(nil)), err
}

func readFile(i int, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &fault{i, "it is no file; write the path of one"}
	}
	var text []byte
	if err == nil {
		text, err = readUpTo(path, maxFile+1)
	}
	switch reason, ok := errors.AsType[*os.PathError](err); {
	case ok:
		return nil, &fault{i, reason.Err.Error() + "; write the path of a file that this process may read"}
	case err != nil:
		return nil, &fault{i, err.Error()}
	case len(text) > maxFile:
		return nil, &fault{i, fmt.Sprintf("it has more than %d bytes; is it the right file?", maxFile)}
	}
	return text, nil
}

func readUpTo(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// exposed says that others than its user and group may read or write the file of a secret;
// empty when they may not, and where the system has no such modes.
func exposed(f File) string {
	info, err := os.Stat(f.Path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o006 == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: every user of this machine may open it (mode %04o); take that from them: chmod o= %[2]s", f.Flag, f.Path, info.Mode().Perm())
}
