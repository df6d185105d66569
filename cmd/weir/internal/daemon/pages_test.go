package daemon

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-limit/weir/internal/certtest"
)

// TestPages: the pages are open where the admin listener is, behind the same host and
// origin, and a token of the listener's file signs in.
func TestPages(t *testing.T) {
	open := start(t, Config{})
	if status := knock(t, open, "/ui/", func(*http.Request) {}); status != http.StatusOK {
		t.Error(status)
	}
	closed := start(t, Config{AdminTokenFile: certtest.File(t, "tokens", []byte(oneToken+"\n"))})
	for _, path := range []string{"/", "/ui/", "/ui/sign-in", "/ui/style.css"} {
		if status := knock(t, closed, path, func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusMisdirectedRequest {
			t.Error(path, "as another host:", status)
		}
		if status := knock(t, closed, path, func(r *http.Request) {
			r.Method = http.MethodPost
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}); status != http.StatusForbidden {
			t.Error(path, "from elsewhere:", status)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	for token, want := range map[string]string{otherToken: "is not known", oneToken: "(admin)"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+closed.admin+"/ui/sign-in", strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := browser.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("with %s: %v\n%s", token, err, page)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
