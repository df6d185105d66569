package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// inner is what an attacker hides in another request: it asks as somebody else.
const inner = "GET /auth?domain=edge&e=remote_address%3D203.0.113.9 HTTP/1.1\r\nHost: weir\r\nX-Hidden: "

// outer is a check with some lines in its head, and what follows it.
func outer(lines, rest string) string {
	return "POST /v1/check HTTP/1.1\r\nHost: weir\r\n" + lines + "\r\n" + rest
}

const question = `{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`

// smuggled are texts that two readers of HTTP/1.1 have been known to take apart in two ways.
func smuggled() map[string]string {
	size := fmt.Sprintf("Content-Length: %d\r\n", len(question))
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(question), question)
	hidden := inner + "1\r\n\r\n"
	all := map[string]string{
		"nothing is hidden":               outer(size, question),
		"two that follow each other":      outer(size, question) + hidden,
		"CL.TE":                           outer(size+"Transfer-Encoding: chunked\r\n", "0\r\n\r\n"+inner),
		"TE.CL":                           outer("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)),
		"CL.CL, the larger last":          outer("Content-Length: 0\r\n"+size, question+hidden),
		"CL.CL, the larger first":         outer(size+"Content-Length: 0\r\n", hidden+question),
		"CL twice, the same":              outer(size+size, question+hidden),
		"a list of lengths":               outer(fmt.Sprintf("Content-Length: %d, %d\r\n", len(question), len(question)), question+hidden),
		"a length of 0 before a body":     outer("Content-Length: 0\r\n", hidden),
		"no length before a body":         outer("", hidden),
		"GET with a body":                 inner + "1\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"HEAD with a body":                strings.Replace(inner, "GET", "HEAD", 1) + "1\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"Expect":                          outer(size+"Expect: 100-continue\r\n", question+hidden),
		"Expect, spelled wrongly":         outer(size+"Expect: 100-continuE, x\r\n", question+hidden),
		"Upgrade":                         outer(size+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", question+hidden),
		"Connection names the length":     outer(size+"Connection: Content-Length\r\n", question+hidden),
		"an extension of a chunk":         outer("Transfer-Encoding: chunked\r\n", "0;"+strings.Repeat("a", 100)+"\n"+hidden),
		"a chunk whose size is too large": outer("Transfer-Encoding: chunked\r\n", "10000000000000000\r\n"+hidden),
		"a chunk that ends by LF":         outer("Transfer-Encoding: chunked\r\n", "0\n\n"+hidden),
		"a trailer":                       outer("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\nContent-Length: 100\r\n\r\n"+hidden),
		"chunks, and nothing is hidden":   outer("Transfer-Encoding: chunked\r\n", chunks+hidden),
		"lines that end by LF":            strings.ReplaceAll(outer(size, ""), "\r\n", "\n") + question + hidden,
		"another Host":                    outer("Host: elsewhere\r\n"+size, question+hidden),
		"a whole URL":                     strings.Replace(outer(size, question), "/v1/check", "http://elsewhere/v1/check", 1) + hidden,
		"HTTP/1.0":                        strings.Replace(outer(size+"Connection: keep-alive\r\n", question), "1.1", "1.0", 1) + hidden,
		"lines before the request":        "\r\n\r\n" + outer(size, question) + hidden,
	}
	for name, line := range map[string]string{
		"a space before the colon": "Transfer-Encoding : chunked", "a folded line": "Transfer-Encoding:\r\n chunked", "a tab": "Transfer-Encoding:\tchunked",
		"another case": "tRANSFER-eNCODING: CHUNKED", "xchunked": "Transfer-Encoding: xchunked", "two codings": "Transfer-Encoding: chunked, identity",
		"identity": "Transfer-Encoding: identity", "a form feed": "Transfer-Encoding: \x0cchunked", "in a value": "X: x\nTransfer-Encoding: chunked",
		"a bare CR": "X: x\rTransfer-Encoding: chunked", "a NUL": "Transfer-Encoding: chunked\x00", "quotes": `Transfer-Encoding: "chunked"`,
		"a byte before the name": "\x00Transfer-Encoding: chunked", "an underscore": "Transfer_Encoding: chunked",
	} {
		all["TE with "+name] = outer(size+line+"\r\n", "0\r\n\r\n"+inner+strings.Repeat("x", len(question)))
	}
	for name, value := range map[string]string{"a sign": "+%d", "a zero": "0%d", "a space inside": "%d 0", "hexadecimal": "0x%x", "a minus": "-%d", "a vertical tab": "\x0b%d"} {
		all["CL with "+name] = outer("Content-Length: "+fmt.Sprintf(value, len(question))+"\r\n", question+hidden)
	}
	all["CL with a space before the colon"] = outer(fmt.Sprintf("Content-Length : %d\r\n", len(question)), question+hidden)
	all["CL folded"] = outer(fmt.Sprintf("Content-Length:\r\n %d\r\n", len(question)), question+hidden)
	return all
}

// TestSmuggling: however a request is written, through a proxy or not, weir answers as many as its client gets answers
// to, and the next client on the same connection of the proxy gets the answer to its own.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	for name, front := range map[string]func(t *testing.T, weir string) string{
		"alone":             func(_ *testing.T, weir string) string { return weir },
		"nginx":             func(t *testing.T, weir string) string { return passOnNginx(t, weir, "on") },
		"nginx, unbuffered": func(t *testing.T, weir string) string { return passOnNginx(t, weir, "off") },
		"HAProxy":           func(t *testing.T, weir string) string { return passOnHAProxy(t, weir, "") },
		"HAProxy, credulous": func(t *testing.T, weir string) string {
			return passOnHAProxy(t, weir, "option accept-invalid-http-request")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := edge(t)
			at := front(t, d.http)
			for what, text := range smuggled() {
				before := d.calls(t)
				got := answersOf(t, at, text)
				victim := answersOf(t, at, outer(fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n", len(question)), question))
				if len(victim) != 1 || !strings.Contains(victim[0], `"decisions"`) {
					t.Errorf("%s: the next client gets %q", what, victim)
				}
				if calls := d.calls(t) - before; calls != len(got)+len(victim) {
					t.Errorf("%s: weir answered %d calls, the clients have %d answers of it:\n%q\n%q", what, calls, len(got)+len(victim), text, got)
				}
			}
		})
	}
}

// answersOf sends a text, and reads the answers of weir that come back, until there are no more.
func answersOf(t *testing.T, at, text string) (bodies []string) {
	t.Helper()
	conn := connect(t, at)
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
	}
	in := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(700 * time.Millisecond)) // longer than any answer takes
		method := http.MethodGet
		if strings.HasPrefix(text, http.MethodHead) && len(bodies) == 0 {
			method = http.MethodHead
		}
		r, err := http.ReadResponse(in, &http.Request{Method: method}) //nolint:bodyclose // it is read, and the connection is closed
		if err != nil {
			return bodies
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("half an answer: %q, %v", body, err)
		}
		if r.Header.Get("Cache-Control") == "no-store" { // else it is the proxy's own, or net/http's before there is a call
			bodies = append(bodies, string(body))
		}
	}
}

// calls is how many calls the HTTP listener has answered.
func (d *daemon) calls(t *testing.T) int {
	t.Helper()
	total := 0.0
	for line := range strings.Lines(newClient(t).ask(http.MethodGet, "http://"+d.admin+"/metrics", "").body) {
		if strings.HasPrefix(line, `weir_calls_total{`) && strings.Contains(line, `listener="http"`) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
				t.Error(err)
			}
			total += n
		}
	}
	return int(total)
}

// passOnNginx is nginx that passes all on to weir, by one connection that it keeps.
func passOnNginx(t *testing.T, weir, buffers string) string {
	t.Helper()
	at := porttest.Free(t)
	nginx := nginxCommand(t, t.TempDir(), `	ignore_invalid_headers off;
	underscores_in_headers on;
	upstream weir { server `+weir+`; keepalive 1; }
	server {
		listen `+at+`;
		location / {
			proxy_pass http://weir;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_request_buffering `+buffers+`;
		}
	}`)
	start(t, nginx).listening(t, at)
	return at
}

// passOnHAProxy is HAProxy that passes all on to weir, by connections that clients share.
func passOnHAProxy(t *testing.T, weir, option string) string {
	t.Helper()
	path, at := program(t, "haproxy"), porttest.Free(t)
	config := write(t, filepath.Join(t.TempDir(), "haproxy.cfg"), `global
	nbthread 1
defaults
	mode http
	timeout connect 5s
	timeout client 5s
	timeout server 5s
	http-reuse always
frontend all
	bind `+at+`
	`+option+`
	default_backend weir
backend weir
	server weir `+weir+` pool-max-conn 1
`)
	start(t, command(t, path, "-db", "-f", config)).listening(t, at)
	return at
}
