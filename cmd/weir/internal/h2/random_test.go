package h2

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// FuzzConnection: whatever frames a client sends, in any order and at any time, what a connection counts stays true. It
// sends no more than it may, and what it sends is HTTP/2 to another's reader (witness). When its client is gone, or the
// server leaves, nothing of it is left: the bubble waits for all goroutines.
func FuzzConnection(f *testing.F) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := make([]byte, 500+r.IntN(5000))
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 10_000 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := &story{draws: text, top: 1, granted: 65535}
			s.encoder = hpack.NewEncoder(&s.block)
			s.tell(t)
		})
	})
}

// story is a client whose choices are drawn from a text, until it ends.
type story struct {
	draws   []byte
	wrote   bytes.Buffer // all frames
	encoder *hpack.Encoder
	block   bytes.Buffer
	top     uint32 // the last stream
	granted int64  // what may come
}

// upTo draws a number below n.
func (s *story) upTo(n int) (drawn int) {
	for span := 1; span < n; span *= 256 {
		if len(s.draws) == 0 {
			return drawn % n
		}
		drawn, s.draws = drawn*256+int(s.draws[0]), s.draws[1:]
	}
	return drawn % n
}

// tell tells the story to a server.
func (s *story) tell(t *testing.T) {
	budget := new(overload.Budget)
	w := &witness{t: t, heads: map[uint32][]hpack.HeaderField{}, streams: map[uint32]phase{}, last: math.MaxInt32}
	server := NewServer(Config{
		Fast: w.fast, Rest: http.HandlerFunc(w.rest), Budget: budget,
		Refused: func(string) {}, Panicked: func(string, any) {},
	})
	here, there := net.Pipe()
	server.begin(here)
	var c *conn
	for c = range server.conns {
	}
	go w.read(there)
	_, err := there.Write([]byte(preface))
	window := uint32(s.upTo(3) * s.upTo(3000))
	left := make(chan struct{})
	leave := sync.OnceFunc(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = server.Shutdown(ctx) // a client that stays may have calls that wait for it
			close(left)
		}()
	})
	first := append(appendHead(nil, 3, frameHeaders, flagEndHeaders, 1), 0x83, 0x86, 0x84)
	for frames := append(appendSettings(nil, setting{settingWindow, window}), first...); err == nil; {
		s.wrote.Write(frames)
		if _, err = there.Write(frames); len(s.draws) == 0 {
			break
		}
		if s.upTo(3) == 0 {
			synctest.Wait()
			check(t, c, w.sent.Load(), s.granted)
		}
		switch s.upTo(120) {
		case 0, 1:
			time.Sleep(time.Duration(s.upTo(1500)) * time.Millisecond)
		case 2:
			leave()
		}
		frames = nil
		for range 1 + s.upTo(6) {
			frames = append(frames, s.frame()...)
		}
	}
	synctest.Wait()
	check(t, c, w.sent.Load(), s.granted)
	stays := s.top%4 == 1
	if stays { // all that was asked as a whole is answered
		open := appendWindow(appendSettings(nil, setting{settingWindow, 1 << 24}), 0, 1<<29)
		s.wrote.Write(open)
		if _, err := there.Write(open); err == nil {
			time.Sleep(5 * time.Second)
			w.ended(c, s.wrote.Bytes())
		}
	} else {
		_ = there.Close()
	}
	leave()
	<-left
	_ = there.Close()
	synctest.Wait()
	if held := budget.Held(); held != 0 || c.open != 0 || c.partial != 0 || len(c.streams)+len(c.blocked) != 0 || c.current != nil {
		t.Errorf("%d bytes are held, of %d streams, %d in part", held, c.open, c.partial)
	}
	w.compare(s.wrote.Bytes())
}

// randomly answers by the path.
func randomly(h *Head) func(*Call) {
	body := make([]byte, 100*len(h.Path())*len(h.Path()))
	head := []Field{{"content-type", "x"}, {"x-path", strconv.QuoteToASCII(string(h.Path()))}}
	answer := func(c *Call) {
		c.Answer(&Answer{Status: 200, Head: head, Body: body[:min(len(body), 40_000)], Trailers: []Field{{"x", "y"}}})
	}
	switch path := h.Path(); {
	case len(path) > 1 && path[1] == 'l':
		return func(c *Call) {
			later, ctx := c.Later()
			go func() {
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(len(path)) * 50 * time.Millisecond):
				}
				answer(later)
			}()
		}
	case len(path) > 1 && path[1] == 'r':
		return nil
	}
	return answer
}

func restRandomly(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body) // the client may be gone
	switch len(r.URL.Path) % 4 {
	case 0:
		panic("as some do")
	case 1:
		w.Header().Set(http.TrailerPrefix+"X-Y", "z")
	}
	_, _ = w.Write(make([]byte, 50*int(n)+len(r.URL.Path)*500)) // the client may be gone
}

// head packs a request's fields.
func (s *story) head() []byte {
	s.block.Reset()
	path := "/" + string("flr"[s.upTo(3)]) + "123456789012345678"[:s.upTo(19)]
	all := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path, Sensitive: s.upTo(2) == 0},
	}
	for range s.upTo(5) {
		all = append(all, []hpack.HeaderField{
			{Name: "te", Value: "trailers"},
			{Name: "x-a", Value: "b"},
			{Name: "x-a", Value: "c"},
			{Name: "x-long", Value: path + path + path},
			{Name: "x-large", Value: string(make([]byte, 3000))},
			{Name: "Large", Value: "x"},
			{Name: ":path", Value: "/"},
			{Name: "connection", Value: "close"},
			{Name: "x-empty"},
			{Name: "content-length", Value: "8"},
			{Name: "x-space", Value: " x"},
			{Name: "grpc-timeout", Value: "1S"},
		}[s.upTo(4)*s.upTo(s.upTo(4)+1)])
	}
	if s.upTo(5) == 0 {
		s.encoder.SetMaxDynamicTableSizeLimit(uint32(s.upTo(4097)))
	}
	for _, f := range all {
		_ = s.encoder.WriteField(f) // a buffer takes all
	}
	block := bytes.Clone(s.block.Bytes())
	if s.upTo(200) == 0 {
		block[s.upTo(len(block))] ^= byte(1 << s.upTo(8))
	}
	return block
}

// frame is one that a client may send, or a mistake of it now and then.
func (s *story) frame() []byte {
	id := uint32(max(1, int(s.top)-2*s.upTo(8)))
	ends := byte(s.upTo(2))
	switch s.upTo(30) {
	default:
		s.top += 2
		block := s.head()
		if s.upTo(4) > 0 {
			return append(appendHead(nil, len(block), frameHeaders, flagEndHeaders|ends, s.top), block...)
		}
		first := s.upTo(len(block))
		return slices.Concat(appendHead(nil, first, frameHeaders, ends, s.top), block[:first],
			appendHead(nil, len(block)-first, frameContinuation, flagEndHeaders, s.top), block[first:])
	case 0, 1, 2, 3, 4, 5, 6:
		n := s.upTo(20) * s.upTo(20) * s.upTo(20)
		return append(appendHead(nil, n, frameData, ends, id), make([]byte, n)...)
	case 7, 8:
		return append(appendHead(nil, 3, frameData, ends|flagPadded, id), 1, 'x', 0)
	case 9, 10:
		return appendReset(nil, id, Cancel)
	case 11, 12, 13:
		n := 1 + s.upTo(30_000)
		s.granted += int64(n)
		return appendWindow(nil, 0, n)
	case 14, 15, 16:
		return appendWindow(nil, id, 1+s.upTo(20_000))
	case 17:
		return appendSettings(nil, setting{settingWindow, uint32(s.upTo(20_000))}, setting{settingTable, uint32(s.upTo(4097))})
	case 18:
		return appendHead(nil, 0, frameSettings, flagAck, 0)
	case 19:
		if s.upTo(50) > 0 {
			return nil
		}
		kind := byte(s.upTo(12))
		if kind == framePriority {
			return nil // its size is wrong, which another reader takes for the end of the connection
		}
		f := appendHead(nil, 4, kind, byte(s.upTo(256)), id)
		return append(f, byte(s.upTo(256)), byte(s.upTo(256)), byte(s.upTo(256)), byte(s.upTo(256)))
	}
}

// check is whether what the connection counts is true.
func check(t *testing.T, c *conn, sent, granted int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	open, partial, waits := 0, 0, 0
	for s := range c.all {
		open++
		if !s.ended {
			partial++
		}
		if len(s.pending) > 0 {
			waits++
		}
		if s.lost || s.done || s.head == nil || slices.Contains(c.unused, s) {
			t.Errorf("stream %d is over, and among those that are open", s.id)
		}
		if c.streams[s.id] != s && c.current != s {
			t.Errorf("stream %d stands in the place of another", s.id)
		}
	}
	if open != c.open || partial != c.partial || waits != len(c.blocked) {
		t.Errorf("%d are open, %d in part, and %d wait; counted are %d, %d, %d", open, partial, waits, c.open, c.partial, len(c.blocked))
	}
	for i, s := range c.blocked {
		if s.lost || slices.Index(c.blocked, s) != i || c.find(s.id) != s {
			t.Errorf("stream %d waits, and is over", s.id)
		}
		if c.fault == nil && min(c.window, c.initial+s.extra) > 0 {
			t.Errorf("stream %d waits, and has a window", s.id)
		}
	}
	for i, s := range c.unused {
		if slices.Index(c.unused, s) != i || !s.lost {
			t.Errorf("stream %d is unused, and not", s.id)
		}
	}
	if sent > granted {
		t.Errorf("%d bytes were sent where %d may be", sent, granted)
	}
	if c.fault == nil && granted-c.window < sent {
		t.Errorf("the window says that %d were sent, and %d were", granted-c.window, sent)
	}
}
