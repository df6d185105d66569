package h2

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// TestBomb: a block whose bytes stand for fields of the table that are far larger closes the connection.
func TestBomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, answerAll, nil)
		block := append([]byte{0x40, 1, 'x', 0x7f, 0xa1, 0x1e}, bytes.Repeat([]byte("y"), 4000)...)
		block = append(block, bytes.Repeat([]byte{0xbe}, 100)...)
		err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
		if bye := <-p.bye; bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("the client was told %v, %v", bye, err)
		}
	})
}

// TestSlowHead: a header block must end in time, too.
func TestSlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, answerAll, nil)
		time.Sleep(time.Minute)
		start := time.Now()
		if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}}); err != nil {
			t.Fatal(err)
		}
		<-p.bye
		took := time.Since(start)
		synctest.Wait()
		if took < inTime || took > 2*inTime || len(p.why) != 1 || p.why[0] != ReasonSlow {
			t.Errorf("after %v, refused for %v", took, p.why)
		}
	})
}

// TestUntold: a client that never says that it knows how many streams it may have is taken to know.
func TestUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := 0
		p := meet(t, func(c *Call) { c.Later(); began++ }, nil)
		time.Sleep(inTime)
		for id := uint32(1); id <= 4*MaxStreams; id += 2 {
			if err := p.request(id, true); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if began != MaxStreams {
			t.Errorf("%d began", began)
		}
	})
}

// TestRestsSmall: a connection that rests keeps no memory of large calls.
func TestRestsSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *conn
		p := meet(t, func(call *Call) { c = call.conn; call.Answer(&Answer{Status: 200}) }, nil)
		for id := uint32(1); id < 40; id += 2 {
			if err := p.request(id, false); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if err := p.WriteData(id, i == 3, make([]byte, 15_000)); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		for _, s := range c.unused {
			if cap(s.body) > mostReused {
				t.Errorf("a stream keeps %d bytes", cap(s.body))
			}
		}
	})
}

// TestLargeHead: an answer's fields go on in further frames.
func TestLargeHead(t *testing.T) {
	large := strings.Repeat("x", 40_000)
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := NewServer(Config{
			Fast: func(*Head) func(*Call) {
				return func(c *Call) { c.Answer(&Answer{Status: 200, Head: []Field{{"x", large}}}) }
			},
			Budget: new(overload.Budget), Refused: func(why string) { t.Error(why) },
		})
		s.begin(here)
		f := http2.NewFramer(there, there)
		f.SetMaxReadFrameSize(largest)
		f.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
		go func() {
			_, _ = io.WriteString(there, preface) // reading tells
			_ = f.WriteSettings()
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true, EndStream: true})
		}()
		for {
			fr, err := f.ReadFrame()
			if err != nil {
				t.Error(err)
				break
			}
			if h, ok := fr.(*http2.MetaHeadersFrame); ok {
				if len(h.Fields) != 2 || h.Fields[1].Value != large || !h.StreamEnded() {
					t.Errorf("%d fields came", len(h.Fields))
				}
				break
			}
		}
		_ = there.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaveEarly: a client that has not begun to speak when the server leaves is told the settings first; one that says
// nothing is not waited for.
func TestLeaveEarly(t *testing.T) {
	for _, speaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			s := NewServer(Config{Rest: http.NotFoundHandler(), Budget: new(overload.Budget), Refused: func(string) {}})
			s.begin(here)
			synctest.Wait()
			start := time.Now()
			done := make(chan error, 1)
			go func() { done <- s.Shutdown(context.Background()) }()
			time.Sleep(leavePause / 2)
			if speaks {
				go func() { _, _ = io.WriteString(there, preface) }() // reading tells
				if fr, err := http2.NewFramer(there, there).ReadFrame(); err != nil || fr.Header().Type != http2.FrameSettings {
					t.Errorf("%v, %v", fr, err)
				}
			}
			go func() { _, _ = io.Copy(io.Discard, there) }()
			if err := <-done; err != nil || time.Since(start) > 2*greetPause {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			_ = there.Close()
		})
	}
}

// TestWindowsComeBack: what a stream might send that is over bounds no later setting.
func TestWindowsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, answerAll, nil)
		for _, err := range []error{
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}),
			p.request(1, false), p.WriteWindowUpdate(1, 1<<31-1-100), p.WriteRSTStream(1, http2.ErrCodeCancel),
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		_ = p.conn.Close()
		if bye := <-p.bye; bye != nil {
			t.Errorf("the client was told %v", bye)
		}
	})
}

// TestPadding: a client may send on what it has sent as padding.
func TestPadding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		read := int64(0)
		s := NewServer(Config{
			Fast: func(*Head) func(*Call) { return nil },
			Rest: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				read, _ = io.Copy(io.Discard, r.Body) // read tells
			}),
			Budget: new(overload.Budget), Refused: func(why string) { t.Error(why) },
		})
		s.begin(here)
		go func() { _, _ = io.Copy(io.Discard, there) }()
		f := http2.NewFramer(there, there)
		_, _ = io.WriteString(there, preface) // the frames tell
		_ = f.WriteSettings()
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true})
		for i := 0; i < 1000 && err == nil; i++ {
			err = f.WriteDataPadded(1, i == 999, []byte("x"), make([]byte, 255))
			synctest.Wait()
		}
		if err != nil || read != 1000 {
			t.Errorf("%d bytes were read, %v", read, err)
		}
		_ = there.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
