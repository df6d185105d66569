package daemon

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // or the listener would not even try to unpack
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/rules"
)

// others are answered, whatever else goes on.
func others(t *testing.T, r *running) {
	t.Helper()
	stub := rls.NewRateLimitServiceClient(client(t, r.grpc))
	for i := range 20 {
		key := fmt.Sprint("other", i)
		if code, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", strings.Replace(demoCheck, "bob", key, 1)); code != 200 {
			t.Errorf("another client: %d %s", code, body)
		}
		q := &rls.RateLimitRequest{Domain: "demo", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: key}},
		}}}
		answer, err := stub.ShouldRateLimit(t.Context(), q)
		for status.Code(err) == codes.Unavailable { // too much is asked, on a busy machine: "ask again later"
			time.Sleep(time.Millisecond)
			answer, err = stub.ShouldRateLimit(t.Context(), q)
		}
		if err != nil || answer.OverallCode != rls.RateLimitResponse_OK {
			t.Errorf("another client: %v %v", answer, err)
		}
	}
}

// TestHalfRequests: clients that begin and do not go on keep nobody waiting.
func TestHalfRequests(t *testing.T) {
	r := start(t, Config{RESP: "127.0.0.1:0"})
	for _, half := range []struct{ address, text string }{
		{r.http, ""},
		{r.http, "P"},
		{r.http, "POST /v1/check HTTP/1.1\r\nHost: a\r\nX"},
		{r.http, "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{"},
		{r.http, "POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n{"},
		{r.grpc, ""},
		{r.grpc, http2.ClientPreface[:10]},
		{r.grpc, http2.ClientPreface + "\x00\x40\x00\x01\x04\x00\x00\x00\x01\x82"},
		{r.resp, "*3\r\n$11\r\nCL.THR"},
		{r.resp, "*1000\r\n$3\r\nabc\r\n"},
	} {
		for range 20 {
			if _, err := io.WriteString(dial(t, half.address), half.text); err != nil {
				t.Error(err)
			}
		}
	}
	others(t, r)
	if got := redis(t, r, "PING", 1); got != "+PONG " {
		t.Error(got)
	}
}

// TestUnfinishedRequests: requests that stop just before their end hold together what
// their listener may hold, and no more.
func TestUnfinishedRequests(t *testing.T) {
	r := start(t, Config{})
	before := inUse()
	body := make([]byte, 1<<20-1)
	for range 150 {
		c := dial(t, r.http)
		_, _ = io.WriteString(c, "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n")
		_, _ = c.Write(body) // it may be cut off meanwhile
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	message := make([]byte, 2<<20)
	for range 4 {
		conn := client(t, r.grpc)
		for range 20 {
			desc := &grpc.StreamDesc{ClientStreams: true}
			if s, err := conn.NewStream(ctx, desc, rls.RateLimitService_ShouldRateLimit_FullMethodName, grpc.ForceCodec(asIs{})); err == nil {
				_ = s.SendMsg(message) // likewise; and it does not end
			}
		}
	}
	others(t, r)
	for _, door := range []string{"http", "grpc"} {
		cut := `weir_refused_total{listener="` + door + `",reason="memory"} `
		for end := time.Now().Add(patience); metric(t, r, cut) == "0"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: nobody was cut off", door)
			}
		}
	}
	if n := inUse() - before; n > 2*2*overload.DefaultBudget {
		t.Errorf("%d MiB are held", n>>20)
	}
}

// asIs sends bytes as they are.
type asIs struct{}

func (asIs) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (asIs) Unmarshal([]byte, any) error   { return nil }
func (asIs) Name() string                  { return "proto" }

// inUse is how much memory is in use, in this process.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHeaderBombs: "head too large" is an answer, not memory.
func TestHeaderBombs(t *testing.T) {
	r := start(t, Config{})
	for name, head := range map[string]string{
		"one field":   "X: " + strings.Repeat("x", 4<<20),
		"many fields": strings.Repeat("X: y\r\n", 1<<20),
		"no end":      strings.Repeat("x", 4<<20),
		"URL":         "Host: a\r\n\r\nGET /" + strings.Repeat("x", 4<<20),
	} {
		used := allocated()
		c := dial(t, r.http)
		answer := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(c) // it may be reset, as there is more to come than is read
			answer <- string(b)
		}()
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\n"+head) // cut off in the middle
		if got := <-answer; got != "" && !strings.Contains(got, "431 Request Header Fields Too Large") {
			t.Errorf("%s: %.100q", name, got)
		}
		if n := allocated() - used; n > 20<<20 { // what the test itself does with head is part of it
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	others(t, r)
}

// TestTwoLengths: a request with a Content-Length beside its chunks is the last on its
// connection: a proxy that went by the length takes what follows for its body.
func TestTwoLengths(t *testing.T) {
	r := start(t, Config{})
	c := dial(t, r.http)
	_, _ = io.WriteString(c, "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
		"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil { // or it would wait until it is idle for too long
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil || strings.Count(string(b), "HTTP/1.1 ") != 1 || !strings.Contains(string(b), "Connection: close") {
		t.Errorf("%v: %s", err, b)
	}
}

// TestHeaderBound: a head is answered up to the bound that documents tell.
func TestHeaderBound(t *testing.T) {
	r := start(t, Config{})
	for size, want := range map[int]string{19 << 10: "HTTP/1.1 200 OK", 21 << 10: "HTTP/1.1 431 Request Header Fields Too Large"} {
		c := dial(t, r.http)
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: "+strings.Repeat("x", size)+"\r\n\r\n")
		b, _ := io.ReadAll(c) // it may be reset, as there is more to come than is read
		if !strings.HasPrefix(string(b), want+"\r\n") {
			t.Errorf("%d bytes: %.100q, want %s", size, b, want)
		}
	}
}

// allocated is how much memory was asked for so far, in this process.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// h2 is a client that says what it likes by HTTP/2.
type h2 struct {
	net.Conn
	*http2.Framer
	fields bytes.Buffer // what write has packed
	write  *hpack.Encoder
	err    chan error // why reading ended
}

// speak opens a connection to the gRPC listener, and reads on until it ends.
func speak(t *testing.T, r *running) *h2 {
	t.Helper()
	c := &h2{Conn: dial(t, r.grpc), err: make(chan error, 1)}
	c.Framer = http2.NewFramer(c.Conn, c.Conn)
	c.AllowIllegalWrites = true
	c.write = hpack.NewEncoder(&c.fields)
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() { c.err <- c.listen() }()
	return c
}

// listen reads until the other side hangs up, and says why it did.
func (c *h2) listen() error {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return err
		}
		if bye, ok := f.(*http2.GoAwayFrame); ok {
			return fmt.Errorf("%v: %s", bye.ErrCode, bye.DebugData())
		}
	}
}

// call is the packed header fields of a call.
func (c *h2) call(extra ...string) []byte {
	c.fields.Reset()
	all := append([]string{
		":method", "POST", ":scheme", "http", ":path", rls.RateLimitService_ShouldRateLimit_FullMethodName, ":authority", "a",
		"content-type", "application/grpc", "te", "trailers",
	}, extra...)
	for i := 0; i < len(all); i += 2 {
		_ = c.write.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}) // a buffer takes all
	}
	return bytes.Clone(c.fields.Bytes())
}

// TestGzipBomb: a message that is small on the wire is not unpacked beyond what
// a message may be.
func TestGzipBomb(t *testing.T) {
	const size = 48 << 20
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for range size >> 16 {
		if _, err := w.Write(make([]byte, 1<<16)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{})
	used := allocated()
	c := speak(t, r)
	head := http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.call("grpc-encoding", "gzip"), EndHeaders: true}
	message := append([]byte{1, 0, byte(packed.Len() >> 16), byte(packed.Len() >> 8), byte(packed.Len())}, packed.Bytes()...)
	if len(message) > 65535 {
		t.Fatalf("%d bytes are more than may be sent at once", len(message))
	}
	if err := c.WriteHeaders(head); err != nil {
		t.Fatal(err)
	}
	for len(message) > 0 {
		n := min(len(message), 16_000)
		if err := c.WriteData(1, n == len(message), message[:n]); err != nil {
			t.Fatal(err)
		}
		message = message[n:]
	}
	const told = `weir_calls_total{code="ResourceExhausted",listener="grpc",route="ShouldRateLimit"} `
	for end := time.Now().Add(patience); metric(t, r, told) != "1"; {
		if time.Now().After(end) {
			t.Fatal("the bomb was not refused")
		}
	}
	if n := allocated() - used; n > 24<<20 {
		t.Errorf("%d bytes for a message of at most 2 MiB", n)
	}
	others(t, r)
}

// TestBoundsAreTold: each bound that a caller can reach has an answer, and a
// metric by which the operator sees that it was.
func TestBoundsAreTold(t *testing.T) {
	r := start(t, Config{})
	check := func(route, body string) func() (int, string) {
		return func() (int, string) { return do(t, http.MethodPost, "http://"+r.http+route, body) }
	}
	descriptor := `{"entries":[{"key":"k","value":"v"}]},`
	entry := `{"key":"k","value":"v"},`
	override := func(first, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"entries":[{"key":"k","value":"v"}],"limit":{"unit":"DAY","requests_per_unit":%d}}`, first+i))
		}
		return `{"domain":"demo","descriptors":[` + strings.Join(all, ",") + `]}`
	}
	for n := 0; n < rules.MaxOverrides/64; n += 64 {
		if status, body := do(t, http.MethodPost, "http://"+r.http+"/json", override(1+n, 64)); status != 200 && status != 429 {
			t.Fatal(status, body)
		}
	}
	for _, c := range []struct {
		name, route string
		ask         func() (int, string)
		status      int
		says        string
	}{
		{"body", "/v1/check", func() (int, string) { return doLarge(t, "http://"+r.http+"/v1/check", 1<<20+1) }, 413, "over 1 MiB"},
		{"descriptors", "/v1/check", check("/v1/check", `{"domain":"demo","descriptors":[`+strings.TrimSuffix(strings.Repeat(descriptor, 101), ",")+`]}`), 400, "more than 100"},
		{"descriptors as proto JSON", "/json", check("/json", `{"domain":"demo","descriptors":[`+strings.Repeat("{},", 100)+`{}]}`), 400, "there may be 100"},
		{"entries as proto JSON", "/json", check("/json", `{"domain":"demo","descriptors":[{"entries":[`+strings.Repeat("{},", 16)+`{}]}]}`), 400, "there may be 16"},
		{"entries", "/v1/check", check("/v1/check", `{"domain":"demo","descriptors":[{"entries":[`+strings.TrimSuffix(strings.Repeat(entry, 17), ",")+`]}]}`), 400, "more than 16"},
		{"value", "/v1/check", check("/v1/check", strings.Replace(demoCheck, "bob", strings.Repeat("x", 4097), 1)), 400, "there may be 4096"},
		{"cost", "/v1/check", check("/v1/check", strings.Replace(demoCheck, "}]}]}", `}],"cost":1073741825}]}`, 1)), 400, "1073741824"},
		{"limits that come with requests", "/json", check("/json", override(50_000, 1)), 400, "this client has as many different limits in use as it may: use fewer, write limits into rules"},
	} {
		counted := fmt.Sprintf(`weir_calls_total{code="%d",listener="http",route="%s"} `, c.status, c.route)
		before := metric(t, r, counted)
		if status, body := c.ask(); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.300s", c.name, status, body)
		}
		if after := metric(t, r, counted); after == before {
			t.Errorf("%s: no metric tells of it", c.name)
		}
	}
	stub := rls.NewRateLimitServiceClient(client(t, r.grpc))
	_, err := stub.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: strings.Repeat("x", 3<<20)})
	if err == nil || metric(t, r, `weir_calls_total{code="ResourceExhausted",listener="grpc",route="ShouldRateLimit"} `) != "1" {
		t.Error("a message of 3 MiB:", err)
	}
	others(t, r)
}

// doLarge sends a body that is refused before it is read. Where the machine is slow, the
// connection may end before the answer is read, and it is tried again.
func doLarge(t *testing.T, url string, size int) (status int, body string) {
	t.Helper()
	var err error
	for range 10 {
		var response *http.Response
		if response, err = http.Post(url, "application/json", strings.NewReader(strings.Repeat(" ", size))); err != nil { //nolint:noctx // a test
			continue
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(b)
	}
	t.Fatal(err)
	return 0, ""
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have
	return c
}
