package replay

import (
	"context"
	"errors"
	"io"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

const (
	// batchLines is how many lines are read at a time.
	batchLines = 512
	// maxBatches is how many of these are read ahead.
	maxBatches = 4
)

// request is what is kept of a line.
type request struct {
	values []string // of the feed's fields; empty where the line has none
	cost   int64
}

// entry is a line that was read.
type entry struct {
	at      weir.Instant
	size    int
	request request
}

// feed reads a log on a goroutine of its own, while what it has read is decided.
type feed struct {
	log     *accesslog.Reader
	fields  []accesslog.Field // to be kept
	costs   bool              // lines say what they are worth
	batches chan []entry
	err     error // why it ended; good when batches is closed

	refused int64 // lines without a cost
	tooLong int64 // lines with a value that is too long
}

// run reads to the end of the log, or until ctx is done.
func (f *feed) run(ctx context.Context) {
	defer close(f.batches)
	for {
		batch, err := f.read()
		if len(batch) > 0 {
			select {
			case f.batches <- batch:
			case <-ctx.Done():
				f.err = ctx.Err()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.err = err
			}
			return
		}
	}
}

// read is the next lines. With the last of them is the error that ended the log.
func (f *feed) read() ([]entry, error) {
	batch := make([]entry, 0, batchLines)
	for size := 0; len(batch) < batchLines && size < accesslog.MaxLine; {
		line, err := f.log.Next()
		if err != nil {
			return batch, err
		}
		cost, ok := int64(1), true
		if f.costs {
			cost, ok = line.Cost()
		}
		if !ok {
			f.refused++
			continue
		}
		values, length := f.keep(line)
		size += length
		batch = append(batch, entry{at: line.Time, size: length, request: request{values, cost}})
	}
	return batch, nil
}

// keep copies the values of a line, but for those that a listener would refuse for
// their length, and says how long they are together.
func (f *feed) keep(line *accesslog.Line) (values []string, length int) {
	long := false
	values = make([]string, len(f.fields))
	for i, field := range f.fields {
		v := line.Value(field)
		if len(v) > rules.MaxWord {
			v, long = nil, true
		}
		values[i] = string(v)
		length += len(v)
	}
	if long {
		f.tooLong++
	}
	return values, length
}
