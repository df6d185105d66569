package usagelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The bounds of a file.
const (
	// MaxFile is how many bytes a file has, after which the next one begins.
	MaxFile = 64 << 20
	// maxFileAge is after how long the next one begins.
	maxFileAge = time.Hour
)

// Files is a Sink that keeps records in files of a folder. A file belongs to one process, so
// that several may use one folder. Each batch is on the disk before it is acknowledged.
type Files struct {
	dir, self string // self tells the files of this process from others
	number    int    // of the file

	file   *os.File // nil: the next one is to begin
	size   int64
	opened time.Time
	most   int64 // MaxFile; tests write less
}

// OpenFiles makes the folder if it is not there, and fails when files can't be made in it. node is
// this daemon's name.
func OpenFiles(dir, node string) (*Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(dir, ".weir-*")
	if err != nil {
		return nil, err
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) || r < ' ' {
			return '_'
		}
		return r
	}, node)
	self := fmt.Sprintf("%s-%s", name, time.Now().UTC().Format("20060102T150405.000000"))
	return &Files{dir: dir, self: strings.ReplaceAll(self, ".", ""), most: MaxFile}, err
}

// Append is as Sink has it. What is written of a batch that fails is cut off again.
func (f *Files) Append(_ context.Context, b Batch) error {
	if f.file != nil && (f.size > 0 && f.size+int64(len(b.Lines)) > f.most || time.Since(f.opened) > maxFileAge) {
		if err := f.leave(); err != nil {
			return err
		}
	}
	if f.file == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	_, err := f.file.WriteAt(b.Lines, f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err == nil && !f.there() {
		err = fmt.Errorf("%s was moved or removed while it was written; take files that are no longer written", f.file.Name())
	}
	if err == nil {
		f.size += int64(len(b.Lines))
		return nil
	}
	cut := f.file.Truncate(f.size)
	if cut != nil || f.size == 0 || !f.there() {
		_ = f.leave() // the batch comes again, in another file
	}
	return err
}

// begin begins the next file.
func (f *Files) begin() error {
	f.number++
	path := filepath.Join(f.dir, fmt.Sprintf("usage-%s-%06d.jsonl", f.self, f.number))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	syncFolder(f.dir)
	f.file, f.size, f.opened = file, 0, time.Now()
	return nil
}

// leave closes the file; one without a record goes.
func (f *Files) leave() error {
	file := f.file
	f.file = nil
	err := file.Close()
	if f.size == 0 {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// Close closes the file.
func (f *Files) Close() error {
	if f.file == nil {
		return nil
	}
	return f.leave()
}

// there is whether the file still has its name.
func (f *Files) there() bool {
	named, err := os.Stat(f.file.Name())
	open, openErr := f.file.Stat()
	return err == nil && openErr == nil && os.SameFile(named, open)
}

// syncFolder makes the names in a folder survive a loss of power, where the file system can.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
