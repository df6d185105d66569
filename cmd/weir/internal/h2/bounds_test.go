package h2

import (
	"bytes"
	"context"
	"errors"
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

// peer is a client that writes frames by hand.
type peer struct {
	*http2.Framer

	conn    net.Conn
	head    []byte // of a request
	bye     chan *http2.GoAwayFrame
	streams chan uint32 // how many it was told it may have
	why     []string    // of Config.Refused
}

// meet connects a peer to a server over a pipe, in a bubble.
func meet(t *testing.T, fast func(*Call), gate *overload.Gate) *peer {
	t.Helper()
	here, there := net.Pipe()
	p := &peer{conn: there, Framer: http2.NewFramer(there, there), bye: make(chan *http2.GoAwayFrame, 1), streams: make(chan uint32, 100)}
	p.AllowIllegalWrites = true
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}} {
		_ = e.WriteField(f) // a buffer takes all
	}
	p.head = out.Bytes()
	s := NewServer(Config{
		Fast: func(*Head) func(*Call) { return fast }, Rest: http.NotFoundHandler(), Budget: new(overload.Budget), Gate: gate,
		Refused: func(why string) { p.why = append(p.why, why) }, Panicked: func(where string, v any) { t.Error(where, v) },
	})
	s.begin(here)
	go func() {
		for {
			f, err := p.ReadFrame()
			if err != nil {
				close(p.bye)
				return
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				own := *f
				select {
				case p.bye <- &own:
				default:
				}
			case *http2.SettingsFrame:
				if n, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
					p.streams <- n
				}
			}
		}
	}()
	if _, err := io.WriteString(there, preface); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = there.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // ctx is over
	})
	return p
}

func (p *peer) request(id uint32, ends bool) error {
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.head, EndHeaders: true, EndStream: ends})
}

func answerAll(c *Call) { c.Answer(&Answer{Status: 200}) }

// TestWaste: frames that bring no call to its end close a connection when they are too many for the calls that
// were answered, and too fast; those of a client that is busy do not.
func TestWaste(t *testing.T) {
	type step = func(*peer, uint32) error
	ping := func(p *peer, _ uint32) error { return p.WritePing(false, [8]byte{}) }
	call := func(p *peer, id uint32) error { return p.request(id, true) }
	begin := func(p *peer, id uint32) error { return p.request(id, false) }
	reset := func(p *peer, id uint32) error { return p.WriteRSTStream(id, http2.ErrCodeCancel) }
	sleep := func(d time.Duration) step { return func(*peer, uint32) error { time.Sleep(d); return nil } }
	for name, c := range map[string]struct {
		each   []step
		closed bool
	}{
		"pings":                {[]step{ping}, true},
		"settings":             {[]step{func(p *peer, _ uint32) error { return p.WriteSettings() }}, true},
		"answers to settings":  {[]step{func(p *peer, _ uint32) error { return p.WriteSettingsAck() }}, true},
		"windows":              {[]step{func(p *peer, _ uint32) error { return p.WriteWindowUpdate(0, 1) }}, true},
		"priorities":           {[]step{func(p *peer, id uint32) error { return p.WritePriority(id, http2.PriorityParam{}) }}, true},
		"unknown frames":       {[]step{func(p *peer, _ uint32) error { return p.WriteRawFrame(77, 0, 0, nil) }}, true},
		"calls that are reset": {[]step{begin, reset}, true},
		"empty data": {[]step{begin, func(p *peer, id uint32) error {
			return errors.Join(p.WriteData(id, false, nil), p.WriteData(id, true, nil))
		}}, false},
		"resets made by mistakes": {[]step{begin, func(p *peer, id uint32) error { return p.WriteWindowUpdate(id, 0) }}, true},
		"large heads": {[]step{func(p *peer, id uint32) error {
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bytes.Repeat([]byte{0x82}, 12_000), EndHeaders: true})
		}}, true},
		"calls with metadata of 4 KB": {[]step{func(p *peer, id uint32) error {
			block := append(bytes.Clone(p.head), 0, 1, 'x', 0x7f, 0xa1, 0x1e)
			block = append(block, bytes.Repeat([]byte{'y'}, 4000)...)
			return p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true})
		}}, false},
		"pings in time":          {[]step{ping, sleep(time.Millisecond)}, false},
		"calls, windows, a ping": {[]step{call, ping, func(p *peer, _ uint32) error { return p.WriteWindowUpdate(0, 1) }, ping}, false},
		"calls, taken back late": {[]step{call, reset}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := meet(t, answerAll, nil)
				var err error
				for id := uint32(1); id < 6*wasteMost && err == nil; id += 2 {
					for _, do := range c.each {
						err = errors.Join(err, do(p, id))
					}
				}
				_ = p.conn.Close()
				synctest.Wait()
				if closed := len(p.why) == 1 && p.why[0] == ReasonFlood; closed != c.closed || len(p.why) > 1 {
					t.Errorf("%v, refused for %v", err, p.why)
				}
				if bye := <-p.bye; c.closed && (bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm) {
					t.Errorf("the client was told %v", bye)
				}
			})
		})
	}
}

// TestWasteAtOnce: a connection that has rested may waste no more at once than wasteMost.
func TestWasteAtOnce(t *testing.T) {
	now := time.Now()
	w := waste{left: wasteMost, at: now}
	for range 3 {
		now = now.Add(time.Hour)
		spent := 0
		for ; !w.spend(1, now); spent++ {
			now = now.Add(time.Microsecond)
		}
		if most := wasteMost + 2; spent < wasteMost-1 || spent > most {
			t.Errorf("%d were spent at once, want up to %d", spent, most)
		}
	}
}

// TestSlowRequest: a request must arrive within inTime, however often its client says something; one that has may take
// as long as it takes.
func TestSlowRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var later []*Call
		p := meet(t, func(c *Call) {
			l, _ := c.Later()
			later = append(later, l)
		}, nil)
		if err := p.request(1, true); err != nil {
			t.Fatal(err)
		}
		alive := make(chan struct{})
		go func() {
			defer close(alive)
			ping := append(appendHead(nil, 8, framePing, 0, 0), aliveMark...)
			for err := error(nil); err == nil; time.Sleep(time.Minute) {
				_, err = p.conn.Write(ping)
			}
		}()
		defer func() { <-alive }()
		time.Sleep(time.Hour)
		start := time.Now()
		if err := p.request(3, false); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if err := p.WriteData(3, false, []byte("x")); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		<-p.bye
		took := time.Since(start)
		synctest.Wait()
		if took < inTime || took > inTime+2*time.Second || len(p.why) != 1 || p.why[0] != ReasonSlow || len(later) != 1 {
			t.Errorf("after %v, refused for %v", took, p.why)
		}
	})
}

// TestIdle: a connection without calls ends, and one whose client is gone.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := meet(t, answerAll, nil)
		alive := make(chan struct{})
		go func() {
			defer close(alive)
			ping := append(appendHead(nil, 8, framePing, 0, 0), aliveMark...)
			for err := error(nil); err == nil; time.Sleep(time.Minute) {
				_, err = p.conn.Write(ping)
			}
		}()
		defer func() { <-alive }()
		bye := <-p.bye
		if took := time.Since(start); bye == nil || bye.ErrCode != http2.ErrCodeNo || took < idle || took > idle+2*silent {
			t.Errorf("after %v: %v", took, bye)
		}
		gone := meet(t, answerAll, nil)
		start = time.Now()
		if bye := <-gone.bye; bye != nil || time.Since(start) < silent || time.Since(start) > silent+2*pong {
			t.Errorf("after %v: %v", time.Since(start), bye)
		}
	})
}

// TestUnread: a client that asks and reads no answer is sent away, and holds no more than what may wait to be written.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		var why []string
		large := strings.Repeat("x", 10_000)
		s := NewServer(Config{
			Fast: func(*Head) func(*Call) {
				return func(c *Call) { c.Answer(&Answer{Status: 200, Head: []Field{{"x", large}}}) }
			},
			Budget: new(overload.Budget), Refused: func(reason string) { why = append(why, reason) },
		})
		s.begin(here)
		f := http2.NewFramer(there, there)
		_, _ = io.WriteString(there, preface)
		err := f.WriteSettings()
		start := time.Now()
		for id := uint32(1); err == nil; id += 2 {
			err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true, EndStream: true})
		}
		synctest.Wait()
		if took := time.Since(start); len(why) != 1 || why[0] != ReasonUnread || took > 2*unread {
			t.Errorf("%v after %v, refused for %v", err, took, why)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestShares: a client is told how many streams it may have, whenever that changes by enough.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := new(overload.Gate)
		p := meet(t, answerAll, gate)
		told := func(want uint32) {
			t.Helper()
			if err := p.WritePing(false, [8]byte{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			last := uint32(0)
			for len(p.streams) > 0 {
				last = <-p.streams
			}
			if last != want {
				t.Errorf("it was told %d, want %d", last, want)
			}
		}
		told(MaxStreams)
		told(0)
		gate.SetLimit(100)
		told(100)
		gate.SetLimit(95)
		told(0)
		gate.SetLimit(0)
		told(MaxStreams)
	})
}

// TestLeave: what a client has sent before it knows that the server leaves is answered, and what comes later is not.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		var later []*Call
		s := NewServer(Config{
			Fast: func(*Head) func(*Call) {
				return func(c *Call) {
					l, _ := c.Later()
					later = append(later, l)
				}
			},
			Budget: new(overload.Budget), Refused: func(why string) { t.Error(why) },
		})
		s.begin(here)
		f := http2.NewFramer(there, there)
		seen := make(chan http2.Frame, 100)
		go func() {
			for {
				fr, err := f.ReadFrame()
				if err != nil {
					close(seen)
					return
				}
				switch fr := fr.(type) {
				case *http2.GoAwayFrame:
					own := *fr
					seen <- &own
				case *http2.RSTStreamFrame:
					own := *fr
					seen <- &own
				case *http2.MetaHeadersFrame, *http2.HeadersFrame:
					seen <- fr
				}
			}
		}()
		_, _ = io.WriteString(there, preface)
		ask := func(id uint32) {
			t.Helper()
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true, EndStream: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		ask(1)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		if g, ok := (<-seen).(*http2.GoAwayFrame); !ok || g.LastStreamID != 1<<31-1 {
			t.Errorf("%v", g)
		}
		ask(3)
		synctest.Wait()
		time.Sleep(2 * leavePause)
		if g, ok := (<-seen).(*http2.GoAwayFrame); !ok || g.LastStreamID != 3 {
			t.Errorf("%v", g)
		}
		ask(5)
		if r, ok := (<-seen).(*http2.RSTStreamFrame); !ok || r.StreamID != 5 || r.ErrCode != http2.ErrCodeRefusedStream {
			t.Errorf("%v", r)
		}
		for _, l := range later {
			l.Answer(&Answer{Status: 200})
		}
		for range 2 {
			if h, ok := (<-seen).(*http2.HeadersFrame); !ok {
				t.Errorf("%v", h)
			}
		}
		if err := <-done; err != nil || len(later) != 2 {
			t.Error(err, len(later))
		}
	})
}

// TestShut: a client that never opens a window for an answer is sent away, whatever else it says.
func TestShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := meet(t, func(c *Call) { c.Answer(&Answer{Status: 200, Body: make([]byte, 100)}) }, nil)
		start := time.Now()
		for _, err := range []error{
			p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), p.request(1, true), p.request(3, true), p.WriteWindowUpdate(3, 99),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for err := error(nil); err == nil; time.Sleep(time.Second) {
			err = p.WritePing(false, [8]byte{})
		}
		if bye := <-p.bye; bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("the client was told %v", bye)
		}
		if took := time.Since(start); took < unread || took > unread+2*time.Second || len(p.why) != 1 || p.why[0] != ReasonUnread {
			t.Errorf("after %v, refused for %v", took, p.why)
		}
	})
}

// TestAge: a connection that is too old ends when all is answered, and soon where a stream never ends.
func TestAge(t *testing.T) {
	for name, open := range map[string]bool{"answered": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const age = time.Hour
				here, there := net.Pipe()
				s := NewServer(Config{
					Fast: func(*Head) func(*Call) {
						return func(c *Call) {
							if open {
								c.Later()
							} else {
								c.Answer(&Answer{Status: 200})
							}
						}
					},
					Budget: new(overload.Budget), Refused: func(why string) { t.Error(why) }, MaxAge: age,
				})
				begun := time.Now()
				s.begin(here)
				f := http2.NewFramer(there, there)
				told := make(chan time.Duration, 10)
				ended := make(chan time.Duration, 1)
				go func() {
					for {
						fr, err := f.ReadFrame()
						if err != nil {
							ended <- time.Since(begun)
							return
						}
						if _, ok := fr.(*http2.GoAwayFrame); ok {
							told <- time.Since(begun)
						}
					}
				}()
				_, _ = io.WriteString(there, preface)
				if err := f.WriteSettings(); err != nil {
					t.Fatal(err)
				}
				ask := func(id uint32) error {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true, EndStream: true})
				}
				var at time.Duration
				for id := uint32(1); at == 0; id += 2 { // a connection that is used is neither idle nor silent
					if open && id > 1 {
						_ = f.WritePing(false, [8]byte{}) // it may have ended
					} else if err := ask(id); err != nil {
						t.Fatal(err)
					}
					select {
					case at = <-told:
					case <-time.After(time.Minute):
					}
				}
				if at < age || at > age+age/10+time.Second {
					t.Errorf("told after %v", at)
				}
				at = <-ended
				most := age + age/10 + time.Second
				if open {
					most += ageGrace
				}
				if at > most || open && at < age+ageGrace {
					t.Errorf("ended after %v", at)
				}
				_ = there.Close()
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
