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
	// batchLines is how many lines are read at a time. They share a piece of
	// memory, which is kept as long as one of them waits for its turn.
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

	text    []byte // to be used again
	ends    []int  // likewise: where the values of a batch end in text
	refused int64  // lines without a cost
	tooLong int64  // lines with a value that is too long
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
	f.text, f.ends = f.text[:0], f.ends[:0]
	var line *accesslog.Line
	var err error
	for len(batch) < batchLines && len(f.text) < accesslog.MaxLine {
		if line, err = f.log.Next(); err != nil {
			break
		}
		cost := int64(1)
		if f.costs {
			var ok bool
			if cost, ok = line.Cost(); !ok {
				f.refused++
				continue
			}
		}
		before := len(f.text)
		f.keep(line)
		batch = append(batch, entry{at: line.Time, size: len(f.text) - before, request: request{cost: cost}})
	}
	f.share(batch)
	return batch, err
}

// keep copies the values of a line, but for those that a listener would refuse for
// their length.
func (f *feed) keep(line *accesslog.Line) {
	long := false
	for _, field := range f.fields {
		v := line.Value(field)
		if len(v) > rules.MaxWord {
			v, long = nil, true
		}
		f.text = append(f.text, v...)
		f.ends = append(f.ends, len(f.text))
	}
	if long {
		f.tooLong++
	}
}

// share gives the lines of a batch their values.
func (f *feed) share(batch []entry) {
	text, from, n := string(f.text), 0, len(f.fields)
	values := make([]string, len(f.ends))
	for i, end := range f.ends {
		values[i], from = text[from:end], end
	}
	for i := range batch {
		batch[i].request.values = values[i*n : (i+1)*n : (i+1)*n]
	}
}
