package accesslog

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how far back a log compressed by zstd may refer, which is memory:
// as much as the zstd command allows by itself. Other logs are refused.
const maxWindow = 128 << 20

// InputError is a fault of the log, or of the rules and options for it, which their
// author has to mend.
type InputError struct {
	Err error
}

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap is the fault itself.
func (e *InputError) Unwrap() error { return e.Err }

// source is where a log comes from. It remembers that reading failed, so that
// this is told from damage.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unpacked is the content of packed, which may be compressed by gzip or zstd: the first bytes tell.
// A log in several parts gives the content of all.
func unpacked(from *source, packed *bufio.Reader) (io.Reader, error) {
	head, _ := packed.Peek(4) // a read error comes up again
	var err error
	u := &unpacker{from: from}
	switch {
	case len(head) >= 2 && string(head[:2]) == "\x1f\x8b":
		u.by = "gzip"
		u.unpack, err = gzip.NewReader(packed)
	case string(head) == "\x28\xb5\x2f\xfd":
		u.by = "zstd"
		u.unpack, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	default:
		return packed, nil
	}
	if err != nil {
		return nil, u.fault(err)
	}
	return u, nil
}

// unpacker tells damage from faults of reading.
type unpacker struct {
	unpack io.Reader
	from   *source
	by     string
}

func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.unpack.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.fault(err)
	}
	return n, err
}

func (u *unpacker) fault(err error) error {
	switch {
	case u.from.err != nil:
		return u.from.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return &InputError{fmt.Errorf("it is compressed by zstd --long beyond %d MiB: unpack it with zstd -dc --long=31, and give it by --log -", maxWindow>>20)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &InputError{fmt.Errorf("it is compressed by %s, and ends too early (%w); the file is not whole: copy or compress it again", u.by, io.ErrUnexpectedEOF)}
	}
	return &InputError{fmt.Errorf("it is compressed by %s, and damaged (%w); the file is not whole: copy or compress it again", u.by, err)}
}
