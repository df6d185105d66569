package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestControlBytes: docs/integrations.md says that a header with one is refused, and that it
// counts as it stands where else a value comes from.
func TestControlBytes(t *testing.T) {
	r := start(t, Config{})
	for _, c := range []string{"\x00", "\x01", "\x7f"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.http)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /auth?domain=demo&h=client_id=X-Key HTTP/1.0\r\nX-Key: ann%s\r\n\r\n", c)
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") && !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
			t.Errorf("a header with %q: %s", c, answer)
		}
		if status, body := get(t, "http://"+r.http+"/auth?domain=demo&e=client_id=ann"+url.QueryEscape(c)); status != http.StatusOK {
			t.Errorf("a query with %q: %d %s", c, status, body)
		}
		if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", strings.Replace(demoCheck, "bob", fmt.Sprintf(`bob\u%04x`, c[0]), 1)); status != http.StatusOK {
			t.Errorf("a body with %q: %d %s", c, status, body)
		}
	}
}
