// Package atomicfile puts a file in the place of another, whole or not at all.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A file that is being written has this in its name. One that nobody has written
// to for the time of abandoned was left by a process that was killed.
const (
	unfinished = ".tmp-"
	abandoned  = time.Minute
)

// Write puts what write writes in the place of the file, with mode 0600. When it fails,
// or the process is killed, or the machine loses power, the file is still the old one.
func Write(file string, write func(io.Writer) error) (err error) {
	folder := filepath.Dir(file)
	f, err := os.CreateTemp(folder, filepath.Base(file)+unfinished+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), file); err != nil {
		return err
	}
	syncFolder(folder)
	return nil
}

// Make is Write, and before it makes the folder of the file, for its owner alone.
func Make(file string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return Write(file, write)
}

// Put is Make of a text.
func Put(file string, text []byte) error {
	return Make(file, func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// syncFolder makes sure that a file is still there under its new name after a
// loss of power. Some file systems can't, and a folder may be written but not
// read; the file itself is safe.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// RemoveAbandoned removes what processes that were killed in Write of the file have
// left.
func RemoveAbandoned(file string) {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return // a reader of the file hears of it
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(file)+unfinished) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
}
