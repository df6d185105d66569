package httplimit

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata; read the diff")

var kinds = []struct {
	name string
	of   Fields
}{
	{"Draft10", 0},
	{"Draft7", Draft7},
	{"Draft6", Draft6},
	{"Envoy03", Envoy03},
	{"XRateLimit", XRateLimit},
	{"Draft10|XRateLimit", Draft10 | XRateLimit},
	{"NoFields", NoFields},
}

// stories are rules, and the costs of requests that are a second apart.
var stories = []struct {
	name  string
	rules []Rule
	costs []int64
}{
	{"a bucket", []Rule{{Name: "api", Limit: weir.MustParseLimit("10/min burst 2")}}, []int64{1, 1, 1, 3}},
	{"a window", []Rule{{Name: "day", Limit: weir.MustParseLimit("2/day fixed-window")}}, []int64{1, 1, 1}},
	{"permits", []Rule{{Name: "streams", Limit: weir.MustParseLimit("0 concurrent")}}, []int64{0, 1}},
	{"several", []Rule{
		{Name: "burst", Limit: weir.MustParseLimit("3/s")},
		{Name: "tokens", Limit: weir.MustParseLimit("1000/h fixed-window"), Unit: "tokens", Cost: cost},
		{Name: "streams", Limit: weir.MustParseLimit("5 concurrent")},
	}, []int64{400, 600, 1, 2000}},
	{"large", []Rule{{Name: "a/b=c*~._-", Limit: weir.MustParseLimit("4294967295/year fixed-window"), Cost: cost}}, []int64{1, weir.MaxCount + 1}},
}

func cost(r *http.Request) int64 { return r.ContentLength }

// TestFields compares the fields of all kinds with testdata/fields.txt.
func TestFields(t *testing.T) {
	var b strings.Builder
	for _, k := range kinds {
		for _, s := range stories {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(12 * time.Hour) // to noon
				all := slices.Clone(s.rules)
				if len(all) == 1 {
					all[0].Cost = cost
				}
				h := middlewareOf(t, all, Options{Fields: k.of})(ok)
				for _, cost := range s.costs {
					r := asked(http.MethodGet, "/")
					r.ContentLength = cost
					w := do(h, r)
					fmt.Fprintf(&b, "%s, %s, cost %d: %d\n", k.name, s.name, cost, w.Code)
					for _, name := range slices.Sorted(maps.Keys(w.Header())) {
						if strings.Contains(name, "Rate") || name == "Retry-After" {
							fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(w.Header()[name], ", "))
						}
					}
					b.WriteByte('\n')
					time.Sleep(time.Second)
				}
			})
		}
	}
	const name = "testdata/fields.txt"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("-want +got; if it is meant: go test -update\n%s", d)
	}
}

// TestLongFields: fields that get too long leave out rules, whole.
func TestLongFields(t *testing.T) {
	var all []Rule
	for i := range 500 {
		all = append(all, Rule{Name: fmt.Sprintf("%s/%d", strings.Repeat("n", 110), i), Limit: weir.MustParseLimit("5/s")})
	}
	for _, k := range kinds {
		for name, values := range get(middlewareOf(t, all, Options{Fields: k.of})(ok)).Header() {
			if len(values[0]) > fields.MaxField || strings.HasSuffix(values[0], ",") || strings.HasSuffix(values[0], `"`) && k.of != Envoy03 {
				t.Errorf("%s: %s has %d bytes and ends with %q", k.name, name, len(values[0]), values[0][len(values[0])-20:])
			}
		}
	}
}

// TestDenials compares what the denied read with testdata/denials.txt.
func TestDenials(t *testing.T) {
	var b strings.Builder
	denials := []*Denial{
		{Status: 429, RetryAfter: 1500 * time.Millisecond, Rules: []string{"api", "day"}},
		{Status: 429, RetryAfter: time.Second, Rules: []string{"streams"}},
		{Status: 429, Never: true, Rules: []string{"tokens"}},
		{Status: 503, RetryAfter: time.Second},
		{Status: 400},
		{Status: 403},
	}
	for _, d := range denials {
		for _, accept := range []string{"*/*", "text/html", "text/plain"} {
			m := &middleware{}
			w := httptest.NewRecorder()
			r := asked(http.MethodGet, "/")
			r.Header.Set("Accept", accept)
			m.answer(w, r, d)
			fmt.Fprintf(&b, "%+v\n%d\n", *d, w.Code)
			for _, name := range slices.Sorted(maps.Keys(w.Header())) {
				fmt.Fprintf(&b, "%s: %s\n", name, w.Header().Get(name))
			}
			fmt.Fprintf(&b, "\n%s\n", w.Body)
		}
	}
	const name = "testdata/denials.txt"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("-want +got; if it is meant: go test -update\n%s", d)
	}
}

func TestAccept(t *testing.T) {
	for accept, want := range map[string]string{
		"":                 "application/problem+json",
		"*/*":              "application/problem+json",
		"application/json": "application/problem+json",
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": "text/html", // a browser
		"TEXT/HTML":                               "text/html",
		"text/*":                                  "text/html",
		"text/plain, text/html;q=0.5":             "text/plain",
		"text/html;q=0, text/*":                   "text/plain",
		"text/html;q=0, */*;q=0.1":                "application/problem+json",
		"image/png":                               "application/problem+json",
		"text/html;q=x":                           "application/problem+json",
		"text/html;q=2, text/plain;q=0.1":         "text/plain",
		"text/html; charset=utf-8 ; q=0.3":        "text/html",
		";;;,,,q=":                                "application/problem+json",
		"application/problem+json;q=0.1,text/*":   "text/html",
		"application/*;q=0.9, text/html;q=0.8":    "application/problem+json",
		"text/html;q=0.9, application/json;q=1.0": "application/problem+json",
	} {
		var lines []string
		if accept != "" {
			lines = []string{accept}
		}
		if got := prefers(lines, "application/problem+json", "text/html", "text/plain"); got != want {
			t.Errorf("%q: %s, want %s", accept, got, want)
		}
	}
}

// TestAnswer: an app that answers by itself has all fields set for it.
func TestAnswer(t *testing.T) {
	h := limited(t, "1/h", Options{Answer: func(w http.ResponseWriter, _ *http.Request, d *Denial) {
		w.WriteHeader(d.Status)
		_, _ = fmt.Fprint(w, "no ", d.Rules)
	}})
	get(h)
	w := get(h)
	if w.Code != 429 || w.Body.String() != "no [api]" || w.Header().Get("Retry-After") != "3600" || w.Header().Get("Cache-Control") != "no-store" ||
		w.Header().Get("RateLimit") == "" || w.Header().Get("Content-Type") == "application/problem+json" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
