package accesslog

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// File is a log in a file, which tells how much of it has been read.
type File struct {
	file        *os.File
	done, total int64
	progress    func(done, total int64)
}

// OpenFile opens a log. While it is read it tells progress, which may be nil,
// how many of its bytes are done. The error is an *InputError when there is no
// such file.
func OpenFile(name string, progress func(done, total int64)) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, &InputError{err}
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &InputError{fmt.Errorf("%s is a folder, not a log", name)}
	default:
		return &File{file: file, total: info.Size(), progress: progress}, nil
	}
	return nil, errors.Join(err, file.Close())
}

func (f *File) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	f.done += int64(n)
	if f.progress != nil && (err == nil || errors.Is(err, io.EOF)) {
		f.progress(f.done, max(f.done, f.total))
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
