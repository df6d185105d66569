package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
)

// attacker is a client of HTTP/2 that writes whatever it likes. What comes back is read by another's parser,
// which fails on anything that is not HTTP/2.
type attacker struct {
	*http2.Framer // into text
	net.Conn

	text  bytes.Buffer
	asked int    // calls
	heads []byte // the fields of a call, packed
	watch []byte // those of one that lasts, and is none of ours
	small []byte // a message
	large []byte // the largest message

	over     chan struct{} // closed when nothing more comes
	pong     chan struct{} // has an answer to a ping
	mu       sync.Mutex
	came     [10]int // frames, by their type
	answered int     // calls
	bye      string  // what the last GOAWAY said
	err      error   // why nothing more comes, unless the connection was closed
}

// attackAt connects to a gRPC listener. A deaf attacker reads nothing.
func attackAt(t testing.TB, address string, deaf bool) *attacker {
	t.Helper()
	var d net.Dialer
	nc, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{Conn: nc, over: make(chan struct{}), pong: make(chan struct{}, 1), small: message(t, 1), large: message(t, 100)}
	a.Framer = http2.NewFramer(&a.text, nc)
	a.AllowIllegalWrites = true
	a.heads, a.watch = callTo(rls.RateLimitService_ShouldRateLimit_FullMethodName), callTo(healthpb.Health_Watch_FullMethodName)
	a.text.WriteString(http2.ClientPreface)
	_ = a.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096}) // a buffer takes all
	a.lets(0, 1<<30)
	if deaf {
		_ = nc.(*net.TCPConn).SetReadBuffer(4096) // it may be more
		close(a.over)
		return a
	}
	go a.listen()
	return a
}

// message is a call's, with so many descriptors.
func message(t testing.TB, descriptors int) []byte {
	t.Helper()
	q := &rls.RateLimitRequest{Domain: "edge"}
	for range descriptors {
		q.Descriptors = append(q.Descriptors, &ratelimit.RateLimitDescriptor{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
		})
	}
	b, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, 0, 0, byte(len(b) >> 8), byte(len(b))}, b...)
}

// pack packs header fields, none of them for a table.
func pack(fields ...string) []byte {
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}) // a buffer takes all
	}
	return out.Bytes()
}

// listen counts what comes.
func (a *attacker) listen() {
	defer close(a.over)
	in := http2.NewFramer(nil, a.Conn)
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := in.ReadFrame()
		a.mu.Lock()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
				a.err = err
			}
			a.mu.Unlock()
			return
		}
		a.came[f.Header().Type]++
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			a.bye = fmt.Sprintf("%v: %s", f.ErrCode, f.DebugData())
		case *http2.PingFrame:
			select {
			case a.pong <- struct{}{}:
			default:
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				a.answered++
			}
		}
		a.mu.Unlock()
	}
}

// send writes what has gathered.
func (a *attacker) send() (int, error) {
	defer a.text.Reset()
	return a.Write(a.text.Bytes())
}

// flood sends an attack until the server hangs up, or more says after so many bytes that it is enough. It says how
// many were sent.
func (a *attacker) flood(k *attack, more func(sent int) bool) (sent int) {
	if k.begin != nil {
		k.begin(a)
	}
	for i := uint32(0); ; {
		for k.each != nil && a.text.Len() < 4<<10 {
			k.each(a, 2*i+1)
			i++
		}
		n, err := a.send()
		if sent += n; err != nil || k.each == nil || !more(sent) {
			return sent
		}
	}
}

// settles waits until all is read that was sent, or the server hangs up.
func (a *attacker) settles(t testing.TB) {
	t.Helper()
	a.raw(http2.FramePing, 0, "the last")
	_, _ = a.send() // if it fails, the server has hung up
	select {
	case <-a.pong:
	case <-a.over:
	case <-time.After(time.Minute):
		t.Fatal("no answer comes to a ping")
	}
}

// callTo is the header fields of a call.
func callTo(method string) []byte {
	return pack(":method", "POST", ":scheme", "http", ":path", method, "content-type", "application/grpc", "te", "trailers")
}

// head is a frame of header fields; the call does not end with it.
func (a *attacker) head(id uint32, fields []byte) {
	_ = a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fields, EndHeaders: true}) // a buffer takes all
}

// asks makes a call, whole.
func (a *attacker) asks(id uint32, message []byte) {
	a.asked++
	a.head(id, a.heads)
	_ = a.WriteData(id, true, message) // a buffer takes all
}

// resets gives a call up.
func (a *attacker) resets(id uint32) { _ = a.WriteRSTStream(id, http2.ErrCodeCancel) } // a buffer takes all

// lets lets the server send more.
func (a *attacker) lets(id uint32, more uint32) { _ = a.WriteWindowUpdate(id, more) } // a buffer takes all

// sets sets settings.
func (a *attacker) sets(id http2.SettingID, values ...uint32) {
	var all []http2.Setting
	for _, v := range values {
		all = append(all, http2.Setting{ID: id, Val: v})
	}
	_ = a.WriteSettings(all...) // a buffer takes all
}

// raw writes a frame as it is, without flags.
func (a *attacker) raw(kind http2.FrameType, id uint32, payload string) {
	_ = a.WriteRawFrame(kind, 0, id, []byte(payload)) // a buffer takes all
}

// closes hangs up, and waits until nothing more is read.
func (a *attacker) closes() {
	_ = a.Close() // the server may have
	<-a.over
}
