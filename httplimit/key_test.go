package httplimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestA4SpellingsOfAPath: a path has one count, however it is written.
func TestA4SpellingsOfAPath(t *testing.T) {
	want := keyOf(Path, asked(http.MethodGet, "/login/form"))
	for _, target := range []string{
		"/login/form/", "//login/form", "/login//form//", "/%6cogin/form", "/login%2Fform", "/x/../login/form",
		"/./login/./form", "/login;jsessionid=1/form;x", "/login/form?again=1", "/%2e%2e/login/form", "/../login/form", "/login/%2e/form",
	} {
		if got := keyOf(Path, asked(http.MethodGet, target)); got != want {
			t.Errorf("%s is %s, want %s", target, got, want)
		}
	}
	for _, target := range []string{"/Login/form", "/login/forms", "/login%20/form", "/"} {
		if got := keyOf(Path, asked(http.MethodGet, target)); got == want {
			t.Errorf("%s is %s too", target, got)
		}
	}
	star := &http.Request{URL: asked(http.MethodOptions, "*").URL}
	if got := keyOf(Path, star); got != "/*" {
		t.Errorf("OPTIONS * is %s", got)
	}
}

// TestA5Identities: keys are bytes. Whoever holds that Ann and ann are one says so
// in a key of their own; nobody is taken for another by accident.
func TestA5Identities(t *testing.T) {
	key := Header("x-user")
	seen := map[string]string{}
	for _, user := range []string{"ann", "Ann", "ann ", "änn", "a\u0308nn", "ａｎｎ", "ann\x00"} {
		r := from("192.0.2.1:1")
		r.Header["X-User"] = []string{user}
		k, err := key(r)
		if other, double := seen[k]; err != nil || double {
			t.Errorf("%q is %q too (%v)", user, other, err)
		}
		seen[k] = user
	}
	folded := Key(func(r *http.Request) (string, error) {
		k, err := key(r)
		return strings.ToLower(k), err
	})
	r := from("192.0.2.1:1")
	r.Header["X-User"] = []string{"ANN"}
	if got := keyOf(folded, r); got != "ann" {
		t.Error(got)
	}
}

// fixed is a key of any text.
func fixed(text string) Key {
	return func(*http.Request) (string, error) { return text, nil }
}

// TestA6SeparatorsInParts: different parts are different keys.
func TestA6SeparatorsInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.StringMatching(`[0-9:;/|,]{0,4}`), rapid.String())
		a, b := rapid.SliceOfN(part, 0, 4).Draw(t, "a"), rapid.SliceOfN(part, 0, 4).Draw(t, "b")
		join := func(parts []string) string {
			var keys []Key
			for _, p := range parts {
				keys = append(keys, fixed(p))
			}
			return keyOf(Join(keys...), nil)
		}
		if (join(a) == join(b)) != slices.Equal(a, b) {
			t.Errorf("%q and %q are %q and %q", a, b, join(a), join(b))
		}
	})
}

// TestFirst: an API key that looks like an address is not that address.
func TestFirst(t *testing.T) {
	key := First(Header("X-Api-Key"), Peer)
	plain := from("192.0.2.1:1")
	posing := from("198.51.100.1:1")
	posing.Header.Set("X-Api-Key", "192.0.2.1")
	if a, b := keyOf(key, plain), keyOf(key, posing); a == b || a == "none" || b == "none" {
		t.Errorf("%q and %q", a, b)
	}
	if got := keyOf(key, from("@")); got != "none" {
		t.Error(got)
	}
	posing.Header.Add("X-Api-Key", "another")
	if got := keyOf(key, posing); got != "refused" {
		t.Errorf("two API keys are %s", got)
	}
}

// TestA7TellingTwice: who sends a key twice is refused, for nobody knows which one
// the handler reads; and an empty one is none.
func TestA7TellingTwice(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{}, "none"},
		{http.Header{"X-Api-Key": {"a"}}, "a"},
		{http.Header{"X-Api-Key": {"a", "b"}}, "refused"},
		{http.Header{"X-Api-Key": {""}}, "none"},
		{http.Header{"Cookie": {"session=a"}}, "a"},
		{http.Header{"Cookie": {"session=a; session=b"}}, "refused"},
		{http.Header{"Cookie": {"session=a", "session=a"}}, "refused"},
		{http.Header{"Cookie": {"session="}}, "none"},
		{http.Header{"Cookie": {"other=a"}}, "none"},
	} {
		key := Header("x-api-key")
		if c.header["Cookie"] != nil {
			key = Cookie("session")
		}
		if got := keyOf(key, &http.Request{Header: c.header}); got != c.want {
			t.Errorf("%v: %s, want %s", c.header, got, c.want)
		}
	}
}

func TestClaim(t *testing.T) {
	type subject struct{}
	key := Claim(func(ctx context.Context) (string, bool) {
		s, ok := ctx.Value(subject{}).(string)
		return s, ok
	})
	for value, want := range map[any]string{"ann": "ann", "": "none", 7: "none"} {
		r := from("192.0.2.1:1")
		if got := keyOf(key, r.WithContext(context.WithValue(t.Context(), subject{}, value))); got != want {
			t.Errorf("%v: %s", value, got)
		}
	}
	if got := keyOf(key, from("192.0.2.1:1")); got != "none" {
		t.Error(got)
	}
}

// TestPattern: a route's requests have one count, around a mux and inside of it.
func TestPattern(t *testing.T) {
	var inside string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) { inside = keyOf(Pattern(nil), r) })
	outside := Pattern(func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	})
	for target, want := range map[string]string{"/users/1": "GET /users/{id}", "/users/2": "GET /users/{id}", "/nowhere": ""} {
		inside = ""
		r := asked(http.MethodGet, target)
		if got := keyOf(outside, r); got != want {
			t.Errorf("%s is %q outside", target, got)
		}
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if inside != want {
			t.Errorf("%s is %q inside", target, inside)
		}
	}
}
