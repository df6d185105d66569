package daemon

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/internal/certtest"
)

// TestProtocols: the HTTP listeners offer HTTP/2 where the Go that built them has its known
// holes mended, and say so where it has not. gRPC is another's, and always there.
func TestProtocols(t *testing.T) {
	for goVersion, two := range map[string]bool{
		"go1.25.14": false, "go1.26": false, "go1.26.8": false, "go1.26.8 X:nodwarf5": false, "go1.26rc1": false,
		"go1.26.9": true, "go1.26.9 X:jsonv2": true, "go1.26.10": true, "go1.27rc1": true, "go1.27.0": true,
		"devel go1.27-1e7ac3b": false, "": false,
	} {
		if got := listen.HasSafeHTTP2(goVersion); got != two {
			t.Errorf("%q: %v", goVersion, got)
		}
	}
	ca := certtest.NewCA(t)
	for goVersion, want := range map[string]string{"go1.26.8": "http/1.1", listen.SafeHTTP2: "h2"} {
		c := safely(t, ca)
		c.goVersion = goVersion
		log, logger := newLog()
		c.Log = logger
		r := start(t, c)
		if said := log.until(t, "msg=ready"); strings.Contains(said, "HTTP/1.1 only") != (want != "h2") {
			t.Errorf("%s: the log says %s", goVersion, said)
		}
		for address, want := range map[string]string{r.http: want, r.admin: want, r.grpc: "h2"} {
			config := &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2", "http/1.1"}}
			nc, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if got := nc.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != want {
				t.Errorf("%s: %s speaks %q, want %q", goVersion, address, got, want)
			}
		}
	}
}

// TestHTTPFloods: where HTTP/2 is spoken, frames that ask nothing end a connection of the
// HTTP listeners; one that asks and sends as much stays.
func TestHTTPFloods(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.goVersion = listen.SafeHTTP2
	r := start(t, c)
	config := &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2"}}
	for i, flood := range []struct{ name, begin, frame string }{
		{"settings", "", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{"empty continuations", "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82", "\x00\x00\x00\x09\x00\x00\x00\x00\x01"},
		{"windows", "", "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
	} {
		nc, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", r.http)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		go func() { _, _ = io.Copy(io.Discard, nc) }()
		_, err = io.WriteString(nc, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+flood.begin)
		for sent := 0; err == nil && sent < 256*listen.MaxTalk; sent += 1000 * len(flood.frame) {
			_, err = io.WriteString(nc, strings.Repeat(flood.frame, 1000))
		}
		if err == nil {
			t.Errorf("%s: all were taken", flood.name)
		}
		told(t, caller(t, config), "https://"+r.admin+"/metrics", fmt.Sprintf(`weir_refused_total{listener="http",reason="flood"} %d`, i+1))
	}
	client := caller(t, config)
	for range 4 * listen.MaxTalk / 100_000 {
		if got, err := send(t, client, "POST", "https://"+r.http+"/v1/check", demoCheck+strings.Repeat(" ", 100_000)); err != nil || got.proto != 2 {
			t.Fatal(got.proto, err)
		}
	}
}

// TestImageHasSafeGo: the image is built by a Go that is named, and has them mended.
func TestImageHasSafeGo(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	froms := regexp.MustCompile(`(?m)^FROM golang:(\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(froms) == 0 || slices.ContainsFunc(froms, func(m []string) bool { return !listen.HasSafeHTTP2("go" + m[1]) }) {
		t.Errorf("%v: name a Go from %s on", froms, listen.SafeHTTP2)
	}
}
