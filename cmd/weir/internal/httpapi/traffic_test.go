package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/rules"
)

func plain(name string) string { return name }

// overriddenUser is rules of which shop/tight is tightened.
func overriddenUser() *rules.Set { return heldSet }

var heldSet = func() *rules.Set {
	const file = "domain: shop\ndescriptors: [{key: tight, limits: [%s]}]\n"
	set, err := rules.Parse("shop.yaml", fmt.Appendf(nil, file, "5/s burst 10"))
	written, bad := rules.Parse("shop.yaml", fmt.Appendf(nil, file, "10/s burst 20"))
	err = errors.Join(err, bad, set.Tell(written, func(string) *rules.Temporary {
		return &rules.Temporary{Percent: 50, Until: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), Author: "ann", Reason: "slow"}
	}))
	if err != nil {
		panic(err)
	}
	return set
}()

// readsAll lets everybody read of all clients.
func readsAll(*http.Request) (*scope.Scope, error) { return scope.All(), nil }

// known is all rules but those that are named none.
func known(f offenders.Filter) bool { return f.Domain != "none" && !strings.HasPrefix(f.Rule, "none") }

func getTraffic(t *testing.T, door http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	door.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// TestTraffic has the answers to the letter.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := offenders.NewBook()
		user := b.Open(offenders.ID{Domain: "shop", Rule: "shop/user"}, weir.MustParseLimit("10/s burst 20"), time.Now())
		b.Open(offenders.ID{Domain: "shop", Rule: "shop#override", Shadow: true}, nil, time.Now()).Pass()
		time.Sleep(time.Second)
		b.Open(offenders.ID{Domain: "shop", Rule: "shop/tight"}, weir.MustParseLimit("5/s burst 10"), time.Now())
		user.Pass()
		for range 3 {
			user.Deny([]byte("a<nn\x00\xff"))
		}
		user.Deny([]byte("bob"))
		time.Sleep(9 * time.Second)
		b.Tick(time.Now(), nil)
		door := NewTraffic(b, plain, overriddenUser, known, readsAll, nil, Options{})
		for path, want := range map[string]string{
			"/v1/top?n=1": `{"at":"2000-01-01T00:00:10Z","rules":[` +
				`{"domain":"shop","rule":"shop/user","limit":"10/s burst 20","shadow":false,"since":"2000-01-01T00:00:00Z","passed":1,"denied":4,` +
				`"clients":{"since":"2000-01-01T00:00:01Z","denied":4,"missed":0,"others_at_most":0,"top":[{"key":"a\u003cnn\u0000\ufffd","denied":3,"error":0}]}},` +
				`{"domain":"shop","rule":"shop#override","shadow":true,"since":"2000-01-01T00:00:00Z","passed":1,"denied":0,` +
				`"clients":{"denied":0,"missed":0,"others_at_most":0,"top":[]}},` +
				`{"domain":"shop","rule":"shop/tight","limit":"5/s burst 10","shadow":false,` +
				`"override":{"percent":50,"until":"2000-01-01T01:00:00Z","author":"ann","reason":"slow","written":"10/s burst 20"},` +
				`"since":"2000-01-01T00:00:01Z","passed":0,"denied":0,"clients":{"denied":0,"missed":0,"others_at_most":0,"top":[]}}],"omitted":0}`,
			"/v1/top?rule=new": `{"at":"2000-01-01T00:00:10Z","rules":[],"omitted":0}`,
			"/v1/series?rule=shop/user&domain=shop": `{"at":"2000-01-01T00:00:10Z","step_seconds":10,"series":[` +
				`{"domain":"shop","rule":"shop/user","limit":"10/s burst 20","shadow":false,"from":"2000-01-01T00:00:00Z",` +
				`"points":[{"to":"2000-01-01T00:00:10Z","passed":1,"denied":4}]}],"omitted":0}`,
		} {
			if w := getTraffic(t, door, path); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
				t.Error(path, w.Code, w.Header())
			} else if d := cmp.Diff(want+"\n", w.Body.String()); d != "" {
				t.Errorf("%s: %s", path, d)
			}
		}
	})
}

// TestTrafficHides: with hashes for names, no answer has a name.
func TestTrafficHides(t *testing.T) {
	b := offenders.NewBook()
	user := b.Open(offenders.ID{Domain: "shop", Rule: "shop/user"}, nil, time.Now())
	user.Deny([]byte("ann-at-home"))
	h := offenders.NewHider()
	w := getTraffic(t, NewTraffic(b, h.Hide, overriddenUser, known, readsAll, nil, Options{}), "/v1/top")
	if body := w.Body.String(); strings.Contains(body, "ann") || !strings.Contains(body, h.Hide("ann-at-home")) {
		t.Error(body)
	}
}

// TestTrafficBounds: more rules than an answer tells of are counted.
func TestTrafficBounds(t *testing.T) {
	b := offenders.NewBook()
	for i := range maxTop + 3 {
		b.Open(offenders.ID{Domain: "shop", Rule: fmt.Sprint(i)}, nil, time.Now())
	}
	door := NewTraffic(b, plain, overriddenUser, known, readsAll, nil, Options{})
	for _, path := range []string{"/v1/top", "/v1/series"} {
		var answer struct {
			Rules, Series []any
			Omitted       int
		}
		if err := json.Unmarshal(getTraffic(t, door, path).Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if len(answer.Rules)+len(answer.Series) != maxTop || answer.Omitted != 3 {
			t.Errorf("%s: %+v", path, answer)
		}
	}
}

func TestTrafficRefuses(t *testing.T) {
	door := NewTraffic(offenders.NewBook(), plain, overriddenUser, known, readsAll, nil, Options{})
	for path, says := range map[string]string{
		"/v1/top?n=":                            "from 0 to 100",
		"/v1/top?n=-1":                          "from 0 to 100",
		"/v1/top?n=101":                         "from 0 to 100",
		"/v1/top?n=99999999999999999999":        "from 0 to 100",
		"/v1/top?n=1&n=2":                       "twice",
		"/v1/top?rule=":                         "rule is empty",
		"/v1/top?domain=&n=1":                   "domain is empty",
		"/v1/top?rules=a":                       `unknown parameter \"rules\"`,
		"/v1/top?%zz":                           "%XX",
		"/v1/series?n=1":                        `unknown parameter \"n\"`,
		"/v1/series?rule=a&rule=b":              "twice",
		"/v1/top?" + strings.Repeat("x", 10000): "unknown parameter",
	} {
		w := getTraffic(t, door, path)
		if w.Code != http.StatusBadRequest || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), says) {
			t.Error(path, w.Code, w.Body)
		}
		if len(w.Body.String()) > 1000 {
			t.Errorf("%d bytes", w.Body.Len())
		}
	}
	for path, says := range map[string]string{
		"/v1/top?domain=none":                 `no domain \"none\" active`,
		"/v1/series?rule=none":                `no rule \"none\" active`,
		"/v1/top?domain=shop&rule=none":       `no rule \"none\" of domain \"shop\" active`,
		"/v1/top?rule=none%00%E2%80%AE\u202e": `\\x00\\u202e`,
	} {
		if w := getTraffic(t, door, path); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), says) {
			t.Error(path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	door.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/top", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Error(w.Code, w.Header())
	}
}
