package rls

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/cmd/weir/internal/transcripttest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/frames; read the diff")

// TestFrames: which frames come back for which. Those of a paragraph are sent together.
func TestFrames(t *testing.T) {
	transcripttest.Run(t, "testdata/frames/*.txt", *update, func(t *testing.T, text string) string {
		s := meet(t)
		defer s.end()
		return transcripttest.Answer(text, func(lines []string) string {
			for _, line := range lines {
				if err := s.says(strings.TrimPrefix(line, "→ ")); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
			return s.hears()
		})
	})
}

// frameRules are the rules of the transcripts.
const frameRules = `domain: shop
descriptors:
  - key: user
    limits: [3/min]
`

// speaker is a client of the gRPC listener that says what a transcript tells it to.
type speaker struct {
	t       *testing.T
	server  *Server
	conn    net.Conn
	text    bytes.Buffer // to be sent
	out     *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	left    chan error // how the server left

	mu   sync.Mutex
	came []string
}

// pipe is a listener that has one connection.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{} }

// meet connects a speaker to a listener.
func meet(t *testing.T) *speaker {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(frameRules))
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	l := &pipe{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- here
	s := &speaker{t: t, conn: there, server: New(rules.NewLimiter(memstore.New(memstore.Options{}), set), Options{Here: true}), left: make(chan error, 2)}
	s.out = http2.NewFramer(&s.text, nil)
	s.out.AllowIllegalWrites = true
	s.encoder = hpack.NewEncoder(&s.block)
	go func() { s.left <- s.server.Serve(l) }()
	go s.listen()
	return s
}

// end hangs up, and has the server leave.
func (s *speaker) end() {
	_ = s.conn.Close() // it may be closed
	if err := errors.Join(s.server.Stop(context.Background()), <-s.left); err != nil {
		s.t.Error(err)
	}
}

// says does what a line tells: a frame with what it has behind a colon, or a word in small letters.
func (s *speaker) says(line string) error {
	if times, more, ok := strings.Cut(line, " × "); ok {
		n, err := strconv.Atoi(times)
		for range n {
			err = errors.Join(err, s.says(more))
		}
		return err
	}
	head, text, _ := strings.Cut(line, ": ")
	words := append(strings.Fields(head), "", "", "")
	ids, ends := words[1], words[2] == "end" || words[1] == "end"
	switch words[0] {
	case "preface":
		s.text.WriteString(http2.ClientPreface)
		return nil
	case "waits":
		s.send()
		d, err := time.ParseDuration(words[1])
		time.Sleep(d)
		return err
	case "daemon": // it stops
		s.send()
		go func() { s.left <- s.server.Stop(context.Background()) }()
		return nil
	case "SETTINGS":
		return s.settings(words[1:])
	case "PING":
		return s.out.WritePing(words[1] == "ack", [8]byte([]byte(text)))
	case "GOAWAY":
		return s.out.WriteGoAway(0, http2.ErrCodeNo, nil)
	}
	first, last, ok := strings.Cut(ids, "-")
	if !ok {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(last, 10, 32)
	for id := from; id <= to && err == nil; id += 2 {
		err = s.stream(words[0], uint32(id), ends, text)
	}
	return errors.Join(err, err2)
}

// stream says a frame of a stream, or a whole call.
func (s *speaker) stream(kind string, id uint32, ends bool, text string) error {
	switch kind {
	case "call":
		return errors.Join(s.stream("HEADERS", id, false, callHead), s.stream("DATA", id, true, text))
	case "HEADERS":
		s.block.Reset()
		for field := range strings.SplitSeq(text, ", ") {
			name, value, _ := strings.Cut(field, " ")
			_ = s.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // a buffer takes all
		}
		return s.out.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.block.Bytes(), EndHeaders: true, EndStream: ends})
	case "DATA":
		return s.data(id, ends, text)
	case "WINDOW_UPDATE":
		n, err := strconv.ParseUint(text, 10, 32)
		return errors.Join(err, s.out.WriteWindowUpdate(id, uint32(n)))
	case "RST_STREAM":
		return s.out.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	return errors.New("there is no such frame")
}

// callHead is what begins a call.
const callHead = ":method POST, :scheme http, :path /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, content-type application/grpc, te trailers"

// data says a message, or a text in quotes as it is.
func (s *speaker) data(id uint32, ends bool, text string) error {
	if bare, err := strconv.Unquote(text); err == nil {
		return s.out.WriteData(id, ends, []byte(bare))
	}
	text, extra, _ := strings.Cut(text, ", and bytes that mean nothing: ")
	domain, entry, _ := strings.Cut(text, " ")
	key, value, _ := strings.Cut(entry, "=")
	b, err := proto.Marshal(&rls.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}},
	}}})
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(extra); err == nil {
		b = append(binary.AppendUvarint(append(b, 0xfa, 0x3f), uint64(n)), make([]byte, n)...)
	}
	b = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
	for len(b) > 16384 {
		if err := s.out.WriteData(id, false, b[:16384]); err != nil {
			return err
		}
		b = b[16384:]
		s.send() // apart, so that it does not depend on the server's goroutines how much is read at a time
	}
	return s.out.WriteData(id, ends, b)
}

// settings says SETTINGS with a name and a value each.
func (s *speaker) settings(words []string) error {
	if words[0] == "ack" {
		return s.out.WriteSettingsAck()
	}
	var all []http2.Setting
	for i := 0; words[i] != ""; i += 2 {
		value, err := strconv.ParseUint(strings.TrimSuffix(words[i+1], ","), 10, 32)
		if err != nil {
			return err
		}
		for id := http2.SettingHeaderTableSize; id <= http2.SettingMaxHeaderListSize; id++ {
			if id.String() == words[i] {
				all = append(all, http2.Setting{ID: id, Val: uint32(value)})
			}
		}
	}
	return s.out.WriteSettings(all...)
}

// send sends what was said.
func (s *speaker) send() {
	_, _ = s.conn.Write(s.text.Bytes()) // the transcript shows that the server hung up
	s.text.Reset()
	synctest.Wait()
}

// hears is what has come since.
func (s *speaker) hears() string {
	s.send()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for i := 0; i < len(s.came); {
		n := 1
		for i+n < len(s.came) && s.came[i+n] == s.came[i] {
			n++
		}
		if n > 1 {
			fmt.Fprintf(&out, "← %d × %s\n", n, s.came[i])
		} else {
			fmt.Fprintf(&out, "← %s\n", s.came[i])
		}
		i += n
	}
	s.came = nil
	return out.String()
}

// listen reads what comes.
func (s *speaker) listen() {
	in := http2.NewFramer(nil, s.conn)
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := in.ReadFrame()
		line := "the end of the connection"
		if err == nil {
			line = written(f)
		} else if !errors.Is(err, io.EOF) {
			line = ""
		}
		s.mu.Lock()
		if line != "" {
			s.came = append(s.came, line)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// written is a frame as transcripts have it.
func written(f http2.Frame) string {
	h := f.Header()
	kind := fmt.Sprint(h.Type)
	if h.StreamID != 0 {
		kind += fmt.Sprint(" ", h.StreamID)
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return kind + " ack"
		}
		var all []string
		_ = f.ForeachSetting(func(s http2.Setting) error { // it returns what this does
			all = append(all, fmt.Sprint(s.ID, " ", s.Val))
			return nil
		})
		return kind + " " + strings.Join(all, ", ")
	case *http2.MetaHeadersFrame:
		var all []string
		for _, f := range f.Fields {
			all = append(all, f.Name+" "+f.Value)
		}
		slices.Sort(all) // grpc-go's come in any order
		return fmt.Sprintf("%s%s (%d B): %s", kind, ending(f.StreamEnded()), h.Length, strings.Join(all, ", "))
	case *http2.DataFrame:
		return fmt.Sprintf("%s%s (%d B): %s", kind, ending(f.StreamEnded()), h.Length, answered(f.Data()))
	case *http2.RSTStreamFrame:
		return fmt.Sprint(kind, " ", f.ErrCode)
	case *http2.WindowUpdateFrame:
		return fmt.Sprint(kind, ": ", f.Increment)
	case *http2.PingFrame:
		return fmt.Sprintf("%s%s: %s", kind, map[bool]string{true: " ack"}[f.IsAck()], f.Data)
	case *http2.GoAwayFrame:
		return strings.TrimSuffix(fmt.Sprintf("%s, the last stream is %d, %v: %s", kind, f.LastStreamID, f.ErrCode, f.DebugData()), ": ")
	}
	return kind
}

func ending(ends bool) string { return map[bool]string{true: " end"}[ends] }

// answered is an answer's message, or its bytes where it is none.
func answered(data []byte) string {
	var r rls.RateLimitResponse
	if len(data) < prefix || data[0] != 0 || proto.Unmarshal(data[prefix:], &r) != nil || len(r.Statuses) == 0 {
		return strconv.QuoteToASCII(string(data))
	}
	var text strings.Builder
	text.WriteString(r.OverallCode.String())
	for _, s := range r.Statuses {
		if s.CurrentLimit == nil {
			text.WriteString(", without a limit")
			continue
		}
		fmt.Fprintf(&text, ", %d left of %d a %v", s.LimitRemaining, s.CurrentLimit.GetRequestsPerUnit(), s.CurrentLimit.GetUnit())
	}
	return text.String()
}
