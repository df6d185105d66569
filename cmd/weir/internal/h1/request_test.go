package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
)

const (
	check = "POST /v1/check HTTP/1.1\r\nHost: weir:8080\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nbody"
	auth  = "GET /auth?domain=d&e=k%3Dv HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Api-Key: a b\r\n\r\n"
)

// with is a check with a line more in its head.
func with(line string) string {
	return strings.Replace(check, "Content-Type", line+"\r\nContent-Type", 1)
}

// TestRead: the subset is this, and what is in doubt is net/http's.
func TestRead(t *testing.T) {
	large := "Content-Length: 8193\r\n\r\n" + strings.Repeat("x", 8193)
	for text, want := range map[string]finding{
		check: whole, auth: whole, check + "more": whole, strings.Replace(auth, "GET", "HEAD", 1): whole,
		with("connection: Keep-Alive"): whole, with("X-A: 1\r\nX-A: 2"): whole, with("X-A:"): whole,
		strings.Replace(check, "/v1/check", "/json", 1): whole, "GET /auth HTTP/1.1\r\nHost: h\r\n\r\n": whole,

		"": partial, check[:5]: partial, check[:60]: partial, check[:len(check)-1]: partial, auth[:len(auth)-1]: partial,
		"GET /auth?" + strings.Repeat("x", MaxRequest-10): doubtful, strings.Repeat("x", MaxRequest): doubtful,
		strings.Replace(check, "Content-Length: 4\r\n\r\nbody", large, 1): doubtful,

		with("Transfer-Encoding: chunked"): doubtful, with("transfer-encoding : chunked"): doubtful, with("Transfer-Encoding:\tx"): doubtful,
		with("Content-Length: 4"): doubtful, with("Content-Length: 5"): doubtful, strings.Replace(check, ": 4", ": +4", 1): doubtful,
		strings.Replace(check, ": 4", ": 04", 1): doubtful, strings.Replace(check, ": 4", ": 4,4", 1): doubtful, strings.Replace(check, ": 4", ": 0x4", 1): doubtful,
		strings.Replace(check, ": 4\r\n\r\nbody", ": 0\r\n\r\n", 1): doubtful, strings.Replace(check, "Content-Length: 4\r\n", "", 1): doubtful,
		strings.Replace(auth, "X-Api-Key: a b", "Content-Length: 4", 1): doubtful, strings.Replace(auth, "X-Api-Key: a b", "Content-Length: 0", 1): doubtful,
		with("Upgrade: h2c"): doubtful, with("Expect: 100-continue"): doubtful, with("Trailer: X"): doubtful, with("TE: trailers"): doubtful,
		with("Connection: close"): doubtful, with("Connection: keep-alive, x"): doubtful, with("Connection: keep-alive\r\nConnection: keep-alive"): doubtful,
		with("Pragma: no-cache"): doubtful, with("X-A: 1\r\n folded"): doubtful, with("X A: 1"): doubtful, with("X-A : 1"): doubtful, with(": 1"): doubtful,
		with("X-A"): doubtful, with("X-A: \x00"): doubtful, with("X-A: a\rb"): doubtful, with("X-A: \x7f"): doubtful, with("X-A: \xc3\xa4"): doubtful,
		with("Host: weir:8080"): doubtful, strings.Replace(check, "Host: weir:8080\r\n", "", 1): doubtful, strings.Replace(check, "weir:8080", "", 1): doubtful,
		strings.Replace(check, "weir:8080", "we/ir", 1): doubtful, strings.ReplaceAll(check, "\r\n", "\n"): partial, strings.Replace(check, "8080\r\n", "8080\n", 1): doubtful,
		strings.Replace(check, "POST", "post", 1): doubtful, strings.Replace(check, "POST", "PUT", 1): doubtful, strings.Replace(check, "POST", "GET", 1): doubtful,
		strings.Replace(check, "1.1", "1.0", 1): doubtful, strings.Replace(check, "1.1", "1.1 ", 1): doubtful, strings.Replace(check, "POST ", "POST  ", 1): doubtful,
		strings.Replace(check, "/v1/check", "/v1/check?redirect=true", 1): doubtful, strings.Replace(check, "/v1/check", "/v1/%63heck", 1): doubtful,
		strings.Replace(check, "/v1/check", "//v1/check", 1): doubtful, strings.Replace(check, "/v1/check", "http://h/v1/check", 1): doubtful,
		strings.Replace(auth, "?domain", "?#domain", 1): doubtful, "GET /auth? HTTP/1.1\r\nHost: h\r\n\r\n": doubtful, "\r\n" + check: doubtful,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": doubtful, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n": doubtful,
	} {
		if _, is := new(question).read([]byte(text), httpapi.Small); is != want {
			t.Errorf("%.200q is %v, want %v", text, is, want)
		}
	}
}

// seeds are what the fuzz begins with: requests of the subset, and of the texts that people smuggle with.
func seeds() []string {
	return []string{
		check, auth, check + auth, auth + check, with("Transfer-Encoding: chunked"), with("Content-Length: 5"), with("X-A: 1\r\n folded"),
		with("Connection: keep-alive"), with("Cookie: a=b; c=d"), with("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		with("Authorization: Bearer x"), with("x-forwarded-for:  1.2.3.4 \t"), strings.Replace(check, "\r\n\r\nbody", "\r\n\r\n", 1) + auth,
		check + with("X-B: 2") + check + strings.Replace(auth, "a b", "c", 1) + strings.Replace(auth, "GET", "HEAD", 1),
	}
}

// FuzzRead: what the subset takes, net/http reads as the same request, and the same bytes behind it. It does not matter
// where the bytes were cut when they came.
func FuzzRead(f *testing.F) {
	for i, seed := range seeds() {
		f.Add([]byte(seed), uint16(i*31))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		q, rest := new(question), text
		for {
			if n := min(int(cut), len(rest)); n < len(rest) {
				if before, is := new(question).read(rest[:n], httpapi.Small); is == whole && before > n {
					t.Fatalf("%d bytes have a request of %d", n, before)
				}
			}
			size, is := q.read(rest, httpapi.Small)
			if is != whole {
				return
			}
			if fresh, again := new(question).read(rest[:size], httpapi.Small); again != whole || fresh != size {
				t.Fatalf("%q was taken after another request, and is %v of %d bytes alone", rest[:size], again, fresh)
			}
			for n := range size {
				if _, is := new(question).read(rest[:n], httpapi.Small); is != partial {
					t.Fatalf("%q is a request, and its first %d bytes are %v", rest[:size], n, is)
				}
			}
			same(t, q, rest[:size], rest[size:])
			rest = rest[size:]
		}
	})
}

// same holds a question to what net/http reads.
func same(t *testing.T, q *question, text, behind []byte) {
	t.Helper()
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(text), bytes.NewReader(behind)), len(text)+len(behind)+16)
	r, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("net/http does not take %q: %v", text, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(rest, behind) {
		t.Fatalf("behind %q net/http sees %q, want %q (%v)", text, rest, behind, err)
	}
	if r.Method != q.method || r.RequestURI != q.target || !reflect.DeepEqual(*r.URL, q.url) || r.Host != q.fields.host ||
		!bytes.Equal(body, q.body) || r.ContentLength != max(int64(q.fields.length), 0) || r.Close || len(r.TransferEncoding) > 0 || r.Trailer != nil {
		t.Fatalf("net/http reads %q as %+v with %q, we as %+v", text, r, body, q)
	}
	if !reflect.DeepEqual(r.Header, q.fields.header) {
		t.Fatalf("net/http reads the fields %v, we %v", r.Header, q.fields.header)
	}
}
