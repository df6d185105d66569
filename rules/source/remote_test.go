package source_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// exporter is the /v1/export of a daemon, as far as a source sees it.
type exporter struct {
	*httptest.Server

	mu      sync.Mutex
	answer  func(http.ResponseWriter) // instead of the rules
	text    string
	noETag  bool
	answers map[int]int // by status
	again   chan int    // each status
}

func export(t testing.TB, text string) *exporter {
	e := &exporter{text: text, answers: map[int]int{}, again: make(chan int, 10_000)}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	status := http.StatusOK
	defer func() { e.answers[status]++; e.again <- status }()
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(e.text)))
	switch {
	case e.answer != nil:
		status = 0
		e.answer(w)
	case !e.noETag && r.Header.Get("If-None-Match") == etag:
		status = http.StatusNotModified
		w.WriteHeader(status)
	default:
		if !e.noETag {
			w.Header().Set("ETag", etag)
		}
		_, _ = w.Write([]byte(e.text)) // who asks may be gone
	}
}

func (e *exporter) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// asked waits until it was asked n times more.
func (e *exporter) asked(t testing.TB, n int) {
	t.Helper()
	for len(e.again) > 0 {
		<-e.again
	}
	for range n {
		select {
		case <-e.again:
		case <-time.After(patience):
			t.Fatal("nobody asks")
		}
	}
}

func quick(t testing.TB) source.Options {
	return source.Options{
		Poll: 20 * time.Millisecond, Cache: filepath.Join(t.TempDir(), "cache", "copy.yaml"),
		NotCached: func(err error) { t.Error(err) },
	}
}

// TestRemote: new rules come, unchanged ones cost a 304, what is wrong leaves
// the old ones and is told once, and what is well again is told.
func TestRemote(t *testing.T) {
	e := export(t, text("a", "1/s"))
	o := quick(t)
	w := watch(t, e.URL, o)
	e.asked(t, 3)
	e.change(func() {
		if e.answers[http.StatusOK] != 1 {
			t.Errorf("%v: rules that have not changed were sent again", e.answers)
		}
		e.text = "--- # a.yaml\n" + text("a", "2/s") + "--- # b.yaml\n" + text("b", "1/s")
	})
	w.next("a 2/s, b 1/s")
	for _, c := range []struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		{func(w http.ResponseWriter) { w.WriteHeader(500) }, "unreadable: fetch rules: " + e.URL + " answers 500 Internal Server Error"},
		{func(w http.ResponseWriter) { _, _ = w.Write([]byte("domain: [")) }, "refused: " + e.URL + "#1:2:1: error: YAML"},
		{func(w http.ResponseWriter) { _, _ = w.Write([]byte("domain: a\n")) }, "there is no descriptors key, as in a file half written"},
		{func(http.ResponseWriter) {}, "refused: " + e.URL + ":1:1: error: there are no rules"},
		{func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(text("a", "9/s")))
		}, "unreadable: fetch rules: read the answer of " + e.URL + ": unexpected EOF"},
		{func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, "unreadable: fetch rules: Get"},
		{func(w http.ResponseWriter) {
			_, _ = w.Write(bytes.Repeat([]byte("\n"), rules.MaxFileSize+1))
		}, "rules have at most 67108864 bytes, all together"},
	} {
		e.change(func() { e.answer = c.answer })
		w.until(c.want)
		e.asked(t, 2)
		e.change(func() { e.answer = nil })
		w.next("a 2/s, b 1/s")
	}
	e.change(func() { e.noETag = true })
	e.asked(t, 3)
	w.silent("a 2/s, b 1/s")
	e.Close()
	w.until("unreadable: fetch rules: Get")
	w.Reload()
	w.until("unreadable")
}

// TestLastGoodCopy: "so that a host or a Go program fetches its rules and starts
// without the source".
func TestLastGoodCopy(t *testing.T) {
	e := export(t, text("a", "1/s"))
	o := quick(t)
	place := strings.Replace(e.URL, "http://", "http://me:secret@", 1)
	first := watch(t, place, o)
	e.change(func() { e.text = "--- # a.yaml\n" + text("a", "2/s") })
	first.next("a 2/s")
	e.change(func() { e.answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte("domain: [")) } })
	first.until("refused") // what is bad is not kept

	load := func() (*rules.Set, error) {
		s, err := source.Open(place, o)
		must(t, err)
		return s.Load(t.Context())
	}
	set, err := load()
	if set == nil || brief(set, nil) != "a 2/s" || source.Result(err) != "refused" || set.Rules()[0].File != strings.Replace(place, "secret", "xxxxx", 1)+"#a.yaml" {
		t.Fatal(set, err)
	}
	e.change(func() { e.answer = func(w http.ResponseWriter) { w.WriteHeader(503) } })
	set, err = load()
	if set == nil || brief(set, nil) != "a 2/s" || source.Result(err) != "unreadable" || strings.Contains(err.Error(), "secret") {
		t.Fatal(set, err)
	}

	// It begins with the copy, and is told when the daemon is there again, even
	// with the same rules.
	s := watchAnyway(t, place, o)
	e.asked(t, 2)
	e.change(func() { e.answer = nil })
	s.next("a 2/s")
	e.change(func() { e.text = text("a", "3/s") })
	s.next("a 3/s")

	e.Close()
	if set, err := load(); set == nil || brief(set, nil) != "a 3/s" || err == nil || strings.Contains(err.Error(), "secret") {
		t.Fatal(set, err)
	}
	must(t, os.WriteFile(o.Cache, []byte("domain: ["), 0o600))
	set, err = load()
	if _, ok := errors.AsType[*rules.Error](err); set != nil || ok || !strings.Contains(err.Error(), "last good copy, "+o.Cache) {
		t.Fatal("it is the copy that is wrong, not the daemon's rules:", set, err)
	}
	must(t, os.Remove(o.Cache))
	set, err = load()
	if _, ok := errors.AsType[*source.FetchError](err); set != nil || !ok || !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(set, err)
	}
	if left, err := os.ReadDir(filepath.Dir(o.Cache)); err != nil || len(left) != 0 {
		t.Error("temporary files were left", left, err)
	}
}

// watchAnyway is watch for a source that begins with its copy.
func watchAnyway(t testing.TB, place string, o source.Options) *watched {
	t.Helper()
	s, err := source.Open(place, o)
	must(t, err)
	if set, err := s.Load(t.Context()); set == nil || err == nil {
		t.Fatal(set, err)
	}
	w := &watched{s, t, make(chan string, 100)}
	w.run()
	return w
}

// TestNotCached: without a place for the copy, the rules are in order all the
// same, and it is told once.
func TestNotCached(t *testing.T) {
	e := export(t, text("a", "1/s"))
	o := quick(t)
	o.Cache = filepath.Join(put(t, "", t.TempDir(), "file"), "copy.yaml")
	var told []error
	o.NotCached = func(err error) { told = append(told, err) } // Watch tells from one goroutine
	w := watch(t, e.URL, o)
	e.change(func() { e.text = text("a", "2/s") })
	w.next("a 2/s")
	if len(told) != 1 || !strings.Contains(told[0].Error(), "keep a copy of the rules") {
		t.Error(told)
	}

	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := source.DefaultCache("x"); err == nil {
		t.Skip("SKIPPED ALOUD: this system has a cache folder without HOME")
	}
	told, o.Cache = nil, ""
	watch(t, e.URL, o)
	if len(told) != 1 {
		t.Error(told)
	}
}

// TestDefaultCache: where documents say that it is, each URL by itself.
func TestDefaultCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	base, err := os.UserCacheDir()
	must(t, err)
	name, err := source.DefaultCache("http://a/v1/export")
	must(t, err)
	other, err := source.DefaultCache("http://b/v1/export")
	must(t, err)
	if want := filepath.Join(base, "weir", "rules", fmt.Sprintf("%x.yaml", sha256.Sum256([]byte("http://a/v1/export")))); name != want || other == name {
		t.Error(name, other)
	}
}

func TestOpen(t *testing.T) {
	for _, place := range []string{"http://", "https:///v1/export", "http://host:port/x", "http://a b/"} {
		if _, err := source.Open(place, source.Options{}); err == nil {
			t.Errorf("%s is taken for a URL", place)
		}
	}
}

// bearer shows a token.
type bearer string

func (b bearer) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(q)
}

// TestTransport: what carries requests may show who asks, and what a daemon says
// that does not believe it is told.
func TestTransport(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer right" {
			_, _ = w.Write([]byte(text("a", "1/s"))) // who asks may be gone
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"title":"Unauthorized","detail":"show a token\n"}`)) // the same
	}))
	defer s.Close()
	for token, says := range map[bearer]string{"right": "", "wrong": `answers 401 Unauthorized: "show a token\n"`} {
		o := quick(t)
		o.Transport = token
		from, err := source.Open(s.URL, o)
		if err != nil {
			t.Fatal(err)
		}
		set, err := from.Load(t.Context())
		if says == "" && (err != nil || len(set.Domains()) != 1) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", token, err)
		}
	}
}

// TestRedirect: the rules are those of the daemon that was named, or of none.
func TestRedirect(t *testing.T) {
	other := export(t, "domain: other\ndescriptors: []\n")
	e := export(t, "")
	for path, want := range map[string]string{
		other.URL: "is another daemon", e.URL: "10 redirects",
	} {
		e.change(func() {
			e.answer = func(w http.ResponseWriter) {
				w.Header().Set("Location", path)
				w.WriteHeader(http.StatusFound)
			}
		})
		src, err := source.Open(e.URL, quick(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := src.Load(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if len(other.answers) != 0 {
		t.Error("another was asked:", other.answers)
	}
}
