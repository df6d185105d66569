package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that is read, in bytes. A longer one is skipped
// without being kept.
const MaxLine = 1 << 20

// Format is how the lines of a log are written.
type Format uint8

// The formats.
const (
	// Auto takes the format of the first line that can be read: JSON, or
	// Combined, which reads the common format as well.
	Auto Format = iota
	Common
	Combined
	JSON
)

var formatNames = [...]string{"auto", "common", "combined", "json"}

// String is the name of the format.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat is the format of that name.
func ParseFormat(name string) (Format, error) {
	for f, s := range formatNames {
		if s == name {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("unknown log format %q: take auto, common, combined or json", name)
}

// Parse reads one line, without its end, into l. It is false when the line
// does not count; l is then of no use. The values of l lie in line, which is
// changed where it has escapes.
func (l *Line) Parse(line []byte, f Format) bool {
	*l = Line{}
	if f == Auto {
		f = formatOf(line)
	}
	if f == JSON {
		return l.parseJSON(line)
	}
	return l.parseCLF(line, f == Combined)
}

// formatOf is the one format that the line can be in.
func formatOf(line []byte) Format {
	if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")) {
		return JSON
	}
	return Combined
}

// Reader reads the lines of a log, which may be compressed by gzip.
type Reader struct {
	// Skipped counts the lines so far that did not count, empty ones among them.
	Skipped int64

	from   *bufio.Reader
	format Format
	opened bool
	line   Line
}

// NewReader reads a log in that format.
func NewReader(r io.Reader, f Format) *Reader {
	return &Reader{from: bufio.NewReaderSize(r, MaxLine), format: f}
}

// Next is the next line that counts. It is good until the next call. At the
// end of the log the error is io.EOF.
func (r *Reader) Next() (*Line, error) {
	if !r.opened {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	for {
		b, err := r.from.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			err = r.passOver()
			b = nil
		case errors.Is(err, io.EOF) && len(b) > 0:
			err = nil // the last line has no end
		}
		if err != nil {
			return nil, err
		}
		if r.line.Parse(withoutEnd(b), r.format) {
			if r.format == Auto {
				r.format = formatOf(b)
			}
			return &r.line, nil
		}
		r.Skipped++
	}
}

// open finds out about compression and passes over a byte order mark. A read
// error while looking is left to come up again.
func (r *Reader) open() error {
	r.opened = true
	if head, _ := r.from.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(r.from)
		if err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		r.from = bufio.NewReaderSize(z, MaxLine)
	}
	if head, _ := r.from.Peek(3); string(head) == "\ufeff" {
		_, err := r.from.Discard(len(head))
		return err
	}
	return nil
}

// passOver reads to the end of a line that is too long.
func (r *Reader) passOver() error {
	for {
		_, err := r.from.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil // the line counts as skipped first; then comes the end
		default:
			return err
		}
	}
}

func withoutEnd(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	return bytes.TrimSuffix(b, []byte("\r"))
}
