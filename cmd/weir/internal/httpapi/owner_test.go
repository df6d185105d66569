package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// TestOwner holds redirects to go to the owner and nowhere where there is none, and to be
// asked for in no other words.
func TestOwner(t *testing.T) {
	for _, c := range []struct {
		owner  Owner
		query  string
		status int
		says   string
	}{
		{Owner{Node: "a:1", HTTP: "a:2"}, "?redirect=true", http.StatusTemporaryRedirect, ""},
		{Owner{Node: "a:1", HTTP: "a:2"}, "?redirect=false", http.StatusOK, ""},
		{Owner{Node: "a:1", HTTP: "a:2"}, "", http.StatusOK, ""},
		{Owner{Node: "a:1", HTTP: "a:2", Here: true}, "?redirect=true", http.StatusOK, ""},
		{Owner{None: "each node decides by itself"}, "?redirect=true", http.StatusOK, ""},
		{Owner{Node: "a:1", HTTP: "a:2"}, "?redirect=banana", http.StatusBadRequest, "redirect=true"},
		{Owner{Node: "a:1", HTTP: "a:2"}, "?x=1", http.StatusBadRequest, "redirect=true"},
	} {
		api, err := New(&fakeLimiter{answer: &rules.Answer{Allowed: true}}, Options{Owner: func(*rules.Request) Owner { return c.owner }})
		if err != nil {
			t.Fatal(err)
		}
		w := ask(t, api, "/v1/check"+c.query, `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || (w.Header().Get("Location") != "") != (c.status == http.StatusTemporaryRedirect) {
			t.Errorf("%+v, %q: %d %s to %q", c.owner, c.query, w.Code, w.Body, w.Header().Get("Location"))
		}
	}
}
