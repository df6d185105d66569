package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// MaxLine is the longest line that is read, in bytes. A longer one is skipped
	// without being kept.
	MaxLine = 1 << 20
	// MaxBarren is how many bytes, unpacked, may come without a line that counts.
	// A file with more is no log: a file of another kind, an endless line, or a small file that
	// unpacks to terabytes.
	MaxBarren = 256 << 20
)

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

// Formats are the names of all formats.
func Formats() []string { return slices.Clone(formatNames[:]) }

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
	if f := slices.Index(formatNames[:], name); f >= 0 {
		return Format(f), nil
	}
	return 0, fmt.Errorf("unknown log format %q: take auto, common, combined or json", name)
}

// Parse reads one line, without its end, into l. When the line does not count
// it says why; l is then of no use. The values of l lie in line, which is changed
// where it has escapes.
func (l *Line) Parse(line []byte, f Format) Fault {
	l.values = [FieldCount][]byte{}
	l.costText = nil
	if f == Auto {
		f = formatOf(line)
	}
	switch {
	case len(line) == 0:
		return Empty
	case f == JSON:
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

// Reader reads the lines of a log, which may be compressed by gzip or zstd.
type Reader struct {
	// Skipped counts the lines so far that did not count, empty ones among them.
	Skipped int64
	// Damaged are the first of them.
	Damaged []Damaged

	source *source
	from   *bufio.Reader
	format Format
	opened bool
	number int64 // of the line
	barren int64 // bytes since a line counted
	line   Line
}

// NewReader reads a log in that format. cost is the field that says what each
// line is worth: see Line.Cost.
func NewReader(r io.Reader, f Format, cost string) *Reader {
	s := &source{from: r}
	return &Reader{source: s, from: bufio.NewReaderSize(s, MaxLine), format: f, line: Line{costField: cost}}
}

// Next is the next line that counts. It is good until the next call. At the
// end of the log the error is io.EOF; where the log is at fault it is an
// *InputError.
func (r *Reader) Next() (*Line, error) {
	if !r.opened {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	for {
		b, err := r.from.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case long:
			r.barren += int64(len(b))
			err = r.passOver()
			b = nil
		case errors.Is(err, io.EOF) && len(b) > 0:
			err = nil // the last line has no end
		}
		if err != nil {
			return nil, err
		}
		r.number++
		fault := TooLong
		if !long {
			r.barren += int64(len(b))
			fault = r.line.Parse(withoutEnd(b), r.format)
		}
		if fault == Whole {
			if r.format == Auto {
				r.format = formatOf(b)
			}
			r.barren = 0
			return &r.line, nil
		}
		if err := r.skip(fault); err != nil {
			return nil, err
		}
	}
}

// skip counts a line that does not.
func (r *Reader) skip(fault Fault) error {
	r.Skipped++
	if len(r.Damaged) < MaxDamaged {
		r.Damaged = append(r.Damaged, Damaged{r.number, fault})
	}
	if r.barren > MaxBarren {
		return r.noLog()
	}
	return nil
}

func (r *Reader) noLog() error {
	return &InputError{fmt.Errorf("no line could be read in %d MiB, up to line %d: it is no access log, or not in the format %v", MaxBarren>>20, r.number, r.format)}
}

// open finds out about compression and passes over a byte order mark. A read
// error while looking is left to come up again.
func (r *Reader) open() error {
	r.opened = true
	from, err := unpacked(r.source, r.from)
	if err != nil {
		return err
	}
	if from != r.from {
		r.from = bufio.NewReaderSize(from, MaxLine)
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
		b, err := r.from.ReadSlice('\n')
		r.barren += int64(len(b))
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && r.barren > MaxBarren:
			r.number++
			return r.noLog()
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
