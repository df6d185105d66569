package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// phase is how far the answer of a stream has come.
type phase int

const (
	unanswered phase = iota
	begun            // its head has come
	over
)

// witness reads what a server sends, and knows what it was asked, by a parser that is not ours.
type witness struct {
	t    *testing.T
	sent atomic.Int64 // bytes of bodies that came

	mu      sync.Mutex
	heads   map[uint32][]hpack.HeaderField // what the server took for the head of a request, by its stream
	whole   []uint32                       // streams whose request the server has as a whole
	streams map[uint32]phase
	last    uint32 // of the last GOAWAY
}

// read reads until the connection ends.
func (w *witness) read(nc net.Conn) {
	in := http2.NewFramer(nil, nc)
	in.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	in.SetMaxReadFrameSize(largest)
	for {
		f, err := in.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.ErrUnexpectedEOF) {
				w.t.Errorf("what came is not HTTP/2: %v, %v", err, in.ErrorDetail())
			}
			return
		}
		w.mu.Lock()
		if problem := w.note(f); problem != "" {
			w.t.Errorf("%v: %s", f, problem)
		}
		w.mu.Unlock()
	}
}

// note takes note of a frame, and says what is wrong with it. mu is held.
func (w *witness) note(f http2.Frame) string {
	id := f.Header().StreamID
	at := w.streams[id]
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		w.streams[id] = begun
		if f.StreamEnded() {
			w.streams[id] = over
		}
		switch {
		case at == over:
			return "it follows the end of its stream"
		case at == begun && (!f.StreamEnded() || len(f.PseudoFields()) > 0):
			return "a second head is no trailers"
		case at == unanswered && f.PseudoValue("status") == "":
			return "a head has no status"
		case !w.answers(id, f.Fields):
			return "it answers another stream"
		case id > w.last:
			return fmt.Sprintf("it is of a stream after %d, the last one", w.last)
		}
	case *http2.DataFrame:
		w.sent.Add(int64(f.Header().Length))
		if f.StreamEnded() {
			w.streams[id] = over
		}
		if at != begun {
			return "it follows no head, or the end of its stream"
		}
	case *http2.RSTStreamFrame:
		w.streams[id] = over
	case *http2.GoAwayFrame:
		if f.LastStreamID > w.last {
			return "its last stream was less before"
		}
		w.last = f.LastStreamID
	}
	return ""
}

// answers is whether the head of an answer, if it tells the path that was asked, tells this stream's.
func (w *witness) answers(id uint32, head []hpack.HeaderField) bool {
	for _, f := range head {
		if f.Name == "x-path" {
			return slices.ContainsFunc(w.heads[id], func(asked hpack.HeaderField) bool {
				return asked.Name == ":path" && strconv.QuoteToASCII(asked.Value) == f.Value
			})
		}
	}
	return true
}

// ended is whether each request was answered or reset that the server has as a whole, and that its client has not given
// up, unless the connection ends.
func (w *witness) ended(c *conn, wrote []byte) {
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	given := map[uint32]bool{}
	for len(wrote) > 0 {
		f, size := next(wrote)
		given[f.stream] = given[f.stream] || f.kind == frameReset
		wrote = wrote[size:]
	}
	for _, id := range w.whole {
		if fault == nil && w.streams[id] != over && !given[id] {
			w.t.Errorf("stream %d has no answer", id)
		}
	}
}

// took is that the server answers a request with this head, and has it as a whole.
func (w *witness) took(s *stream, h *Head, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heads[s.id] == nil {
		w.heads[s.id] = fieldsOf(h)
	}
	if whole {
		w.whole = append(w.whole, s.id)
	}
}

// fast answers as randomly does.
func (w *witness) fast(h *Head) func(*Call) {
	do := randomly(h)
	if do == nil {
		return nil
	}
	return func(c *Call) {
		w.took(c.stream, c.Head, true)
		do(c)
	}
}

// rest answers as restRandomly does.
func (w *witness) rest(rw http.ResponseWriter, r *http.Request) {
	w.took(rw.(*rest).stream, HeadOf(r), false)
	restRandomly(rw, r)
}

// compare is whether another reader finds the same heads in what the client wrote, and none of them malformed.
func (w *witness) compare(wrote []byte) {
	found := heads(wrote)
	for id, head := range w.heads {
		if diff := cmp.Diff(found[id], head); diff != "" {
			w.t.Errorf("the head of stream %d: %s", id, diff)
		}
		for _, f := range head {
			name, value := strings.TrimPrefix(f.Name, ":"), f.Value
			if !httpguts.ValidHeaderFieldName(name) || name != strings.ToLower(name) || strings.Trim(value, " \t") != value || strings.ContainsAny(value, "\x00\r\n") {
				w.t.Errorf("the head of stream %d has %v", id, f)
			}
		}
	}
}

// heads is what another reader finds in frames, up to the first mistake that ends a connection: the first head of each
// stream.
func heads(wrote []byte) map[uint32][]hpack.HeaderField {
	in := http2.NewFramer(nil, bytes.NewReader(wrote))
	in.SetMaxReadFrameSize(largest)
	decoder := hpack.NewDecoder(tableSize, nil)
	found := map[uint32][]hpack.HeaderField{}
	for block := []byte(nil); ; {
		f, err := in.ReadFrame()
		if _, bad := errors.AsType[http2.StreamError](err); bad {
			continue
		} else if err != nil {
			return found
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			block = bytes.Clone(f.HeaderBlockFragment())
		case *http2.ContinuationFrame:
			block = append(block, f.HeaderBlockFragment()...)
		default:
			continue
		}
		if !f.Header().Flags.Has(flagEndHeaders) {
			continue
		}
		fields, err := decoder.DecodeFull(block)
		if err != nil {
			return found
		}
		for i := range fields {
			fields[i].Sensitive = false
		}
		if id := f.Header().StreamID; found[id] == nil {
			found[id] = fields
		}
	}
}
