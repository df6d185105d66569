package natsstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/record"
)

// maxValue is how large an item may grow; a take that would make it larger fails. A server takes
// messages of 1 MB unless it was told otherwise.
const maxValue = 256 << 10

// cells are the keys of a bucket.
//
// The version of a cell is the sequence of its last message in the bucket's stream. Its epoch counts
// connections and buckets: while one bucket lives a sequence is never used twice, so a swap stands on
// exactly the write that it names.
//
// Looks are answered by the server that leads the bucket. One of its replicas would do for what is
// written, since a swap over an old view is refused; but a denial writes nothing, and neither does
// the answer to a take that was charged already.
type cells struct {
	link *link
}

// Look reads the item, and when it has that, its notes: the server may answer calls that are on their
// way together in any order.
func (c *cells) Look(ctx context.Context, _ string, names []string, out []cas.Cell) error {
	epoch, err := c.link.open(ctx)
	if err == nil {
		err = c.look(ctx, epoch, names[:1], out)
	}
	if err == nil && len(names) > 1 {
		err = c.look(ctx, epoch, names[1:], out[1:])
	}
	return c.link.explain(err)
}

// look reads cells in any order. They are of the epoch of before: a swap after a new connection is
// not sent.
func (c *cells) look(ctx context.Context, epoch uint64, names []string, out []cas.Cell) error {
	if len(names) == 1 {
		cell, err := c.one(ctx, epoch, names[0])
		out[0] = cell
		return err
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { out[i], errs[i] = c.one(ctx, epoch, name) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

func (c *cells) one(ctx context.Context, epoch uint64, name string) (cas.Cell, error) {
	ask, err := json.Marshal(map[string]string{"last_by_subj": c.link.subjects + name})
	if err != nil {
		return cas.Cell{}, err
	}
	b, err := c.link.read(ctx, streamMessage+streamPrefix+c.link.bucket, ask)
	if err != nil {
		return cas.Cell{}, err
	}
	return c.cell(b, epoch)
}

// cell reads the answer to a look.
//
// A key that was deleted, or whose end left a marker, is a cell without a value: a swap has to name
// the sequence of the marker.
func (c *cells) cell(b []byte, epoch uint64) (cas.Cell, error) {
	var answer struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Seq  uint64 `json:"seq"`
			Head []byte `json:"hdrs"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := json.Unmarshal(b, &answer)
	switch {
	case err != nil || answer.Error == nil && answer.Message == nil:
		return cas.Cell{}, errors.New("this is no answer of JetStream")
	case answer.Error == nil:
		m := answer.Message
		if bytes.Contains(m.Head, []byte("\r\nKV-Operation:")) || bytes.Contains(m.Head, []byte("\r\nNats-Marker-Reason:")) {
			m.Data = nil
		}
		return cas.Cell{Value: m.Data, Version: cas.Version{Number: m.Seq, Epoch: epoch}}, nil
	case answer.Error.Code == codeNoMessage:
		return cas.Cell{Version: cas.Version{Epoch: epoch}}, nil
	}
	return cas.Cell{}, c.refused(answer.Error)
}

// Swap writes keys whose last sequence still is what was seen, or 0 for one that is not there.
func (c *cells) Swap(ctx context.Context, _ string, swaps []cas.Swap) (written bool, err error) {
	epoch, err := c.link.open(ctx)
	if err != nil {
		return false, c.link.explain(fmt.Errorf("%w: %w", cas.ErrEpoch, err))
	}
	anyway := true
	for i := range swaps {
		if w := &swaps[i]; !w.Any && w.Seen.Epoch != epoch {
			return false, c.link.explain(cas.ErrEpoch)
		}
		anyway = anyway && swaps[i].Any
	}
	calls, ids := make([]*call, len(swaps)), make([]uint64, len(swaps))
	high := c.link.high.Load()
	for i := range swaps {
		w := &swaps[i]
		var sent error
		if calls[i], ids[i], sent = c.link.send(ctx, c.link.subjects+w.Name, header(w), w.Value); sent != nil {
			err = c.refused(sent)
			break // those that were sent hold their turns until they are waited for
		}
	}
	written = true
	for i, k := range calls {
		if k == nil {
			continue
		}
		b, lost := c.link.wait(ctx, k, ids[i])
		if lost == nil {
			var done bool
			done, lost = c.wrote(b, epoch, high, &swaps[i])
			written = written && done
		}
		err = cmp.Or(err, lost)
	}
	switch {
	case err == nil:
		return written, nil
	case anyway: // no charge
		return false, c.link.explain(err)
	}
	return false, c.link.explainWrite(err)
}

// header is what the server has to do with a write: compare, and keep for so long. The server counts
// in seconds.
func header(w *cas.Swap) nats.Header {
	seconds := int64((w.Keep + time.Second - 1) / time.Second)
	seconds = max(seconds, 1)
	w.Life = time.Duration(seconds) * time.Second
	h := nats.Header{"Nats-TTL": {strconv.FormatInt(seconds, 10)}}
	if !w.Any {
		h["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(w.Seen.Number, 10)}
	}
	return h
}

// wrote reads the answer to a write. high was known of the bucket before it was sent.
func (c *cells) wrote(b []byte, epoch, high uint64, w *cas.Swap) (bool, error) {
	seq, err := sequence(b)
	if err == nil {
		c.link.saw(seq, high)
		w.Version = cas.Version{Number: seq, Epoch: epoch}
		return true, nil
	}
	if n := code(err); n == codeWrongSequence || n == codeWriteOnItsWay {
		return false, nil
	}
	return false, c.refused(err)
}

// sequence is what the answer to a write says. Nearly all are as {"stream":"KV_weir","seq":17}, and
// are not worth a reader of JSON.
func sequence(b []byte) (uint64, error) {
	if _, rest, found := bytes.Cut(b, []byte(`","seq":`)); found && bytes.HasPrefix(b, []byte(`{"stream":"`)) {
		digits := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))]
		if seq, err := strconv.ParseUint(string(digits), 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	var answer struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Error == nil && answer.Seq == 0 {
		return 0, fmt.Errorf("%w: this is no answer of JetStream", errLost)
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	return answer.Seq, nil
}

// refused is why nothing was done. What speaks of one item is a CountError: the servers are well. All
// else is a failure of the servers, which the edge counts.
func (c *cells) refused(err error) error {
	switch n := code(err); {
	case n == codeTooLarge, errors.Is(err, nats.ErrMaxPayload):
		return &record.CountError{Err: err}
	case n == codeNoStream, n == codeUnavailable:
		c.link.doubt(err)
	}
	return err
}

// saw takes note of the sequence of a write. One that is not above what was known before it was sent
// is of another bucket.
func (l *link) saw(seq, high uint64) {
	if seq <= high {
		l.renew(seq)
		l.look()
		return
	}
	for was := l.high.Load(); was < seq && !l.high.CompareAndSwap(was, seq); was = l.high.Load() {
	}
}

// Where is the servers of the URL: they are one store.
func (c *cells) Where(string) string { return c.link.place() }

// Explain is explain of the link.
func (c *cells) Explain(_ string, err error) error { return c.link.explain(err) }

// Close ends the connection, and with it the calls on their way.
func (c *cells) Close() { c.link.close() }
