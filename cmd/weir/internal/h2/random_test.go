package h2

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// TestRandomFrames: whatever frames a client sends, in any order, what a connection counts stays true, it sends no more
// than it may, and when its client is gone nothing of it is left: the bubble waits for all goroutines.
func TestRandomFrames(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { randomFrames(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func randomFrames(t *testing.T, r *rand.Rand) {
	budget := new(overload.Budget)
	s := NewServer(Config{
		Fast: randomly, Rest: http.HandlerFunc(restRandomly), Budget: budget,
		Refused: func(string) {}, Panicked: func(string, any) {},
	})
	here, there := net.Pipe()
	s.begin(here)
	var c *conn
	for c = range s.conns {
	}
	var sent atomic.Int64
	go func() {
		for head := make([]byte, frameHead); ; {
			if _, err := io.ReadFull(there, head); err != nil {
				return
			}
			f, size := next(head)
			if f.kind == frameData {
				sent.Add(int64(size - frameHead))
			}
			if _, err := io.CopyN(io.Discard, there, int64(size-frameHead)); err != nil {
				return
			}
		}
	}()
	first := append([]byte(preface), appendSettings(nil, setting{settingWindow, uint32(r.IntN(3) * r.IntN(3000))})...)
	first = append(appendHead(first, 3, frameHeaders, flagEndHeaders, 1), 0x83, 0x86, 0x84)
	_, err := there.Write(first)
	granted := int64(65535)
	top := uint32(1)
	for range 200 {
		if err != nil {
			break
		}
		var frames []byte
		for range 1 + r.IntN(6) {
			frames = append(frames, randomFrame(r, &top, &granted)...)
		}
		_, err = there.Write(frames)
		if r.IntN(3) == 0 {
			synctest.Wait()
			check(t, c, sent.Load(), granted)
		}
		if r.IntN(60) == 0 {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
	}
	synctest.Wait()
	check(t, c, sent.Load(), granted)
	if r.IntN(2) == 0 {
		_ = there.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = s.Shutdown(ctx) // a client that stays may have calls that wait for it
	_ = there.Close()
	synctest.Wait()
	if held := budget.Held(); held != 0 || c.open != 0 || c.partial != 0 {
		t.Errorf("%d bytes are held, of %d streams, %d in part", held, c.open, c.partial)
	}
}

// randomly answers by the path.
func randomly(h *Head) func(*Call) {
	body := make([]byte, 100*len(h.Path())*len(h.Path()))
	answer := func(c *Call) {
		c.Answer(&Answer{Status: 200, Body: body[:min(len(body), 40_000)], Trailers: []Field{{"x", "y"}}})
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

// randomFrame is one that a client may send, or a mistake of it now and then.
func randomFrame(r *rand.Rand, top *uint32, granted *int64) []byte {
	id := uint32(max(1, int(*top)-2*r.IntN(8)))
	ends := byte(r.IntN(2))
	switch r.IntN(30) {
	default:
		*top += 2
		path := "/" + string("flr"[r.IntN(3)]) + "123456789012345678"[:r.IntN(19)]
		block := []byte{0x83, 0x86, byte(4 + 0x40*r.IntN(2)), byte(len(path))}
		block = append(block, path...)
		if r.IntN(5) == 0 {
			block = append([]byte{0x20}, append([]byte{0x3f, 0xe1, 0x1f}, block...)...)
		}
		if r.IntN(4) > 0 {
			return append(appendHead(nil, len(block), frameHeaders, flagEndHeaders|ends, *top), block...)
		}
		return slices.Concat(appendHead(nil, 2, frameHeaders, ends, *top), block[:2],
			appendHead(nil, len(block)-2, frameContinuation, flagEndHeaders, *top), block[2:])
	case 0, 1, 2, 3, 4, 5, 6:
		n := r.IntN(20) * r.IntN(20) * r.IntN(20)
		return append(appendHead(nil, n, frameData, ends, id), make([]byte, n)...)
	case 7, 8:
		return append(appendHead(nil, 3, frameData, ends|flagPadded, id), 1, 'x', 0)
	case 9, 10:
		return appendReset(nil, id, Cancel)
	case 11, 12, 13:
		n := 1 + r.IntN(30_000)
		*granted += int64(n)
		return appendWindow(nil, 0, n)
	case 14, 15, 16:
		return appendWindow(nil, id, 1+r.IntN(20_000))
	case 17:
		return appendSettings(nil, setting{settingWindow, uint32(r.IntN(20_000))}, setting{settingTable, uint32(r.IntN(4097))})
	case 18:
		return appendHead(nil, 0, frameSettings, flagAck, 0)
	case 19:
		if r.IntN(50) > 0 {
			return nil
		}
		f := appendHead(nil, 4, byte(r.IntN(12)), byte(r.IntN(256)), id)
		return binary.BigEndian.AppendUint32(f, r.Uint32())
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
