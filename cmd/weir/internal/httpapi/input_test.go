package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

const dayRules = `domain: t
descriptors:
  - key: k
    limits: [1000000000/day fixed-window anchored]
`

// ask sends a body to a path of listener and gives the whole answer.
func ask(t testing.TB, door http.Handler, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	door.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	return w
}

func check(parts string) string {
	return `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"v"}]` + parts
}

// TestRefused: "Unknown or duplicate member, wrong type, out of range, trailing
// data: 400", each with the place and what to do instead.
func TestRefused(t *testing.T) {
	door := newDoor(t, dayRules, Options{})
	long := strings.Repeat("x", rules.MaxWord+1)
	for _, c := range []struct{ name, body, says string }{
		{"empty", "", "write an object, not the end"},
		{"not JSON", "hello", "not something that is not JSON"},
		{"byte order mark", "\ufeff" + check("}]}"), "not something that is not JSON"},
		{"null", "null", "not null"},
		{"array", "[]", "not an array"},
		{"string", `"x"`, "not a string"},
		{"number", "1", "not a number"},
		{"boolean", "true", "not a boolean"},
		{"half", `{"domain":"t"`, "write a comma or }, not the end"},
		{"half string", `{"domain":"t`, "a string does not end"},
		{"half escape", `{"domain":"t\`, "escape"},
		{"half unicode", `{"domain":"t\u00`, "escape"},
		{"comma before }", check("}],}"), "the name of a member"},
		{"comma before ]", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"v"},]}]}`, "an object, not something"},
		{"no colon", `{"domain" "t"}`, `a colon after "domain"`},
		{"single quotes", `{'domain':'t'}`, "the name of a member"},
		{"comment", check("}]} // x"), "follows the end"},
		{"trailing object", check("}]}{}"), "follows the end"},
		{"trailing zero byte", check("}]}\x00"), "follows the end"},
		{"trailing comma", check("}]},"), "follows the end"},
		{"form feed", "\f" + check("}]}"), "not something that is not JSON"},

		{"unknown member", check(`}],"Peek":true}`), `unknown member "Peek"`},
		{"upper case", strings.Replace(check("}]}"), "domain", "Domain", 1), `unknown member "Domain"`},
		{"unknown member of a descriptor", check(`,"limit":"1/s"}]}`), `descriptors[0]: unknown member "limit"`},
		{"unknown member of an entry", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"v","":1}]}]}`, `descriptors[0].entries[0]: unknown member ""`},
		{"duplicate member", check(`}],"peek":true,"peek":true}`), `"peek" stands there twice`},
		{"duplicate by escapes", check(`}],"d\u006fmain":"t"}`), `"domain" stands there twice`},
		{"duplicate in a descriptor", check(`,"cost":1,"cost":1}]}`), `descriptors[0]: member "cost" stands there twice`},
		{"duplicate in an entry", `{"domain":"t","descriptors":[{"entries":[{"key":"k","key":"k","value":"v"}]}]}`, `entries[0]: member "key" stands there twice`},
		{"duplicate entries", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"v"}],"entries":[]}]}`, `"entries" stands there twice`},

		{"no domain", `{"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, `"domain" is missing`},
		{"no descriptors", `{"domain":"t"}`, `"descriptors" is missing`},
		{"no entries", `{"domain":"t","descriptors":[{}]}`, `descriptors[0]: member "entries" is missing`},
		{"no key", `{"domain":"t","descriptors":[{"entries":[{"value":"v"}]}]}`, `descriptors[0].entries[0]: member "key" is missing`},
		{"no value", `{"domain":"t","descriptors":[{"entries":[{"key":"v"}]}]}`, `descriptors[0].entries[0]: member "value" is missing`},

		{"domain is a number", `{"domain":1,"descriptors":[]}`, "domain: write a string, not a number"},
		{"domain is null", `{"domain":null}`, "domain: write a string, not null"},
		{"domain is empty", `{"domain":"","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, "domain: is empty"},
		{"descriptors is an object", `{"domain":"t","descriptors":{}}`, "descriptors: write an array, not an object"},
		{"descriptors is null", `{"domain":"t","descriptors":null}`, "descriptors: write an array, not null"},
		{"a descriptor is a string", `{"domain":"t","descriptors":["k"]}`, "descriptors[0]: write an object, not a string"},
		{"an entry is an array", `{"domain":"t","descriptors":[{"entries":[["k","v"]]}]}`, "descriptors[0].entries[0]: write an object, not an array"},
		{"value is a number", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":5}]}]}`, "value: write a string, not a number"},
		{"value is a boolean", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":false}]}]}`, "value: write a string, not a boolean"},
		{"peek is a number", check(`}],"peek":1}`), "peek: write true or false, not a number"},
		{"peek is a string", check(`}],"peek":"true"}`), "peek: write true or false, not a string"},
		{"peek is null", check(`}],"peek":null}`), "peek: write true or false, not null"},
		{"receipt is null", check(`}],"receipt":null}`), "receipt: write true or false, not null"},
		{"peek is trueish", check(`}],"peek":truex}`), "a comma or }"},

		{"cost is a string", check(`,"cost":"5"}]}`), "descriptors[0].cost: write a whole number, not a string"},
		{"cost is null", check(`,"cost":null}]}`), "descriptors[0].cost: write a whole number, not null"},
		{"cost is true", check(`,"cost":true}]}`), "not a boolean"},
		{"cost 1.0", check(`,"cost":1.0}]}`), "digits alone"},
		{"cost 1e3", check(`,"cost":1e3}]}`), "digits alone"},
		{"cost 1E0", check(`,"cost":1E0}]}`), "digits alone"},
		{"cost -0", check(`,"cost":-0}]}`), "without a sign"},
		{"cost -1", check(`,"cost":-1}]}`), "it must be 0…1073741824"},
		{"cost +1", check(`,"cost":+1}]}`), "not something that is not JSON"},
		{"cost 01", check(`,"cost":01}]}`), "digits alone"},
		{"cost 00", check(`,"cost":00}]}`), "digits alone"},
		{"cost NaN", check(`,"cost":NaN}]}`), "not something that is not JSON"},
		{"cost 2^30+1", check(`,"cost":1073741825}]}`), "it must be 0…1073741824"},
		{"cost 2^63-1", check(`,"cost":9223372036854775807}]}`), "it must be 0…1073741824"},
		{"cost 2^63", check(`,"cost":9223372036854775808}]}`), "it must be 0…1073741824"},
		{"cost 2^64+1", check(`,"cost":18446744073709551617}]}`), "it must be 0…1073741824"},
		{"cost of 400 digits", check(`,"cost":` + strings.Repeat("9", 400) + `}]}`), "it must be 0…1073741824"},

		{"no descriptor", `{"domain":"t","descriptors":[]}`, "descriptors: there must be one at least"},
		{"101 descriptors", many(101, 1), "descriptors: there are more than 100"},
		{"10,000 descriptors", many(10_000, 1), "descriptors: there are more than 100"},
		{"no entry", `{"domain":"t","descriptors":[{"entries":[]}]}`, "descriptors[0].entries: there must be one at least"},
		{"17 entries", many(1, 17), "descriptors[0].entries: there are more than 16"},
		{"empty key", `{"domain":"t","descriptors":[{"entries":[{"key":"","value":"v"}]}]}`, "entries[0].key: is empty"},
		{"huge key", `{"domain":"t","descriptors":[{"entries":[{"key":"` + long + `","value":"v"}]}]}`, "key: has 4097 bytes; there may be 4096"},
		{"huge value", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"` + long + `"}]}]}`, "value: has 4097 bytes; there may be 4096"},

		{"not UTF-8", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"` + "\xff" + `"}]}]}`, "not UTF-8"},
		{"not UTF-8 after an escape", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\n` + "\xc3" + `"}]}]}`, "not UTF-8"},
		{"overlong UTF-8", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"` + "\xc0\x80" + `"}]}]}`, "not UTF-8"},
		{"surrogate in UTF-8", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"` + "\xed\xa0\x80" + `"}]}]}`, "not UTF-8"},
		{"half a pair", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\ud800"}]}]}`, "half of a pair"},
		{"second half alone", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\udc00"}]}]}`, "half of a pair"},
		{"two first halves", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\ud800\ud800"}]}]}`, "half of a pair"},
		{"no such escape", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\x41"}]}]}`, "not one of JSON"},
		{"bad digits", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\u+041"}]}]}`, "not one of JSON"},
		{"raw newline", "{\"domain\":\"t\n\"}", "control character 0x0a"},
		{"raw zero after an escape", "{\"domain\":\"\\n\x00\"}", "control character 0x00"},
		{"deep", strings.Repeat(`{"domain":`, 100_000), "domain: write a string, not an object"},
		{"deep arrays", `{"domain":"t","descriptors":` + strings.Repeat("[", 100_000), "descriptors[0]: write an object, not an array"},
	} {
		w := ask(t, door, "/v1/check", c.body)
		var p struct {
			Title  string
			Status int
			Detail string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s: %v in %s", c.name, err, w.Body)
			continue
		}
		if w.Code != http.StatusBadRequest || p.Status != w.Code || p.Title != "Bad Request" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d %+v", c.name, w.Code, p)
		}
		if !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, p.Detail, c.says)
		}
		if len(p.Detail) > 500 {
			t.Errorf("%s: %d bytes of detail", c.name, len(p.Detail))
		}
	}
}

// many is a request of descriptors with entries each.
func many(descriptors, entries int) string {
	entry := strings.TrimSuffix(strings.Repeat(`{"key":"k","value":"v"},`, entries), ",")
	one := `{"entries":[` + entry + `]},`
	return `{"domain":"t","descriptors":[` + strings.TrimSuffix(strings.Repeat(one, descriptors), ",") + `]}`
}

// TestTaken is what is odd and right all the same.
func TestTaken(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"cost 0", check(`,"cost":0}]}`)},
		{"cost 2^30-1", check(`,"cost":1073741823}]}`)},
		{"cost 2^30", check(`,"cost":1073741824}]}`)},
		{"100 descriptors", many(100, 1)},
		{"16 entries", many(1, 16)},
		{"spaces", " \t\r\n" + strings.ReplaceAll(check("}]}"), ":", " \n:\t") + "\r\n "},
		{"members in another order", `{"receipt":false,"peek":false,"descriptors":[{"cost":1,"entries":[{"value":"v","key":"k"}]}],"domain":"t"}`},
		{"longest key", `{"domain":"t","descriptors":[{"entries":[{"key":"` + strings.Repeat("k", rules.MaxWord) + `","value":"v"}]}]}`},
		{"empty value", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":""}]}]}`},
		{"escapes", `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"\"\\\/\b\f\n\r\t\u0000\u00e4\ud83d\ude00\uffff"}]}]}`},
		{"escaped names", `{"\u0064omain":"\u0074","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`},
	} {
		if w := ask(t, newDoor(t, dayRules, Options{}), "/v1/check", c.body); w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: status %d %s", c.name, w.Code, w.Body)
		}
	}
}

// TestBodySize: "over 1 MiB: 413".
func TestBodySize(t *testing.T) {
	door := newDoor(t, dayRules, Options{})
	for _, path := range []string{"/v1/check", "/v1/settle", "/json"} {
		for _, known := range []bool{true, false} {
			for _, c := range []struct{ size, status int }{{1<<20 - 1, 200}, {1 << 20, 200}, {1<<20 + 1, 413}, {3 << 20, 413}} {
				body := check("}]}")
				body += strings.Repeat(" ", c.size-len(body))
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
				if !known {
					r.ContentLength = -1
				}
				want := c.status
				if path == "/v1/settle" && want == 200 {
					want = 400 // it was read, and is no settlement
				}
				w := httptest.NewRecorder()
				door.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("%s with %d bytes, length known %v: status %d, want %d", path, c.size, known, w.Code, want)
				}
			}
		}
	}
}

// TestPackedBody: nothing is unpacked, and the answer says so.
func TestPackedBody(t *testing.T) {
	door := newDoor(t, dayRules, Options{})
	for _, path := range []string{"/v1/check", "/v1/settle", "/json"} {
		for coding, want := range map[string]int{"gzip": 415, "br": 415, "identity, gzip": 415, "identity": 0, "": 0} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("\x1f\x8b"))
			r.Header.Set("Content-Encoding", coding)
			w := httptest.NewRecorder()
			door.ServeHTTP(w, r)
			if want == 0 {
				want = 400 // it was read
			}
			if w.Code != want || want == 415 && (w.Header().Get("Accept-Encoding") != "identity" || !strings.Contains(w.Body.String(), "send it as it is")) {
				t.Errorf("%s with %q: %d %s", path, coding, w.Code, w.Body)
			}
		}
	}
}

// FuzzAuth: no URL makes the listener panic, and each has an answer.
func FuzzAuth(f *testing.F) {
	for _, seed := range []string{"domain=t&e=k=v", "domain=t&e=k=v&e=l=&cost=0&deny=403", "domain=%00&e=%ff=&cost=-1", "e=k&domain=t;x", "%", "cost=9&cost=9&deny=200"} {
		f.Add(seed)
	}
	door := newDoor(f, dayRules, Options{Panicked: func() { f.Error("the listener panicked") }})
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth", http.NoBody)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 400, 401, 403, 429}, w.Code) {
			t.Fatalf("status %d %s", w.Code, w.Body)
		}
	})
}

// FuzzOthers: no body makes /json or what the admin listener answers panic.
func FuzzOthers(f *testing.F) {
	for _, seed := range []string{
		check("}]}"), `{"domain":"t","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"unit":"DAY","requestsPerUnit":9},"hitsAddend":"3"}],"hitsAddend":2}`, "{",
	} {
		f.Add([]byte(seed))
	}
	panicked := func() { f.Error("the listener panicked") }
	door := newDoor(f, dayRules, Options{Panicked: panicked})
	admin := NewAdmin(door.limiter.(*rules.Limiter), readsAll, Options{Panicked: panicked})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, w := range []*httptest.ResponseRecorder{
			ask(t, door, "/json", string(body)), ask(t, admin, "/v1/explain", string(body)), ask(t, admin, "/v1/reset", string(body)),
		} {
			if !json.Valid(w.Body.Bytes()) || !slices.Contains([]int{200, 400, 413, 429}, w.Code) {
				t.Fatalf("status %d %s", w.Code, w.Body)
			}
		}
	})
}

// TestBodyEnds is a client that goes away while it sends.
func TestBodyEnds(t *testing.T) {
	door := newDoor(t, dayRules, Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", io.MultiReader(strings.NewReader(`{"domain":`), broken{}))
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "ended early") {
		t.Errorf("status %d %s", w.Code, w.Body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestSeparators: ("a_b","c") is not ("a","b_c"), nor is any other way to write
// two keys as one.
func TestSeparators(t *testing.T) {
	const two = `domain: t
descriptors:
  - key: a
    descriptors:
      - key: b
        limits: [1/day fixed-window anchored]
`
	door := newDoor(t, two, Options{})
	asked := func(a, b string) string {
		q := rules.Request{Domain: "t", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "a", Value: a}, {Key: "b", Value: b}}, Cost: 1}}}
		return string(AppendCheck(nil, &q))
	}
	values := []string{"", "_", "__", "a", "b", "a_", "_b", "a_b", "/", "a/b", "=", ";", "\x00", "a\x00", "\x00b", "|", ":", ",", "%", "%5F", "ä", "\U0001F600"}
	for _, a := range values {
		for _, b := range values {
			if w := ask(t, door, "/v1/check", asked(a, b)); w.Code != http.StatusOK {
				t.Errorf("(%q, %q) is another's: %s", a, b, w.Body)
			}
			if w := ask(t, door, "/v1/check", asked(a, b)); w.Code != http.StatusTooManyRequests {
				t.Errorf("(%q, %q) is not its own: %s", a, b, w.Body)
			}
		}
	}
}

// FuzzCheck holds the reader to encoding/json: what it takes, the other reads
// as the same; what the other can't read, it refuses. And no body makes a
// daemon of the listener panic.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		check("}]}"), check(`,"cost":17}],"peek":true,"receipt":false}`), many(3, 2), "{}", "[]", `{"domain":"\ud83d\ude00\n"}`, check(`,"cost":1e3}]}`),
	} {
		f.Add([]byte(seed))
	}
	door := newDoor(f, dayRules, Options{Panicked: func() { f.Error("the listener panicked") }})
	f.Fuzz(func(t *testing.T, body []byte) {
		var got rules.Request
		err := readCheck(string(body), &got)
		var want struct {
			Domain      *string
			Descriptors []struct {
				Entries []struct{ Key, Value *string }
				Cost    *int64
			}
			Peek, Receipt bool
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		other := d.Decode(&want)
		if err == nil && other != nil {
			t.Fatalf("%q was taken; encoding/json says %v", body, other)
		}
		if err == nil {
			q := rules.Request{Domain: *want.Domain, Peek: want.Peek, Receipt: want.Receipt}
			for _, d := range want.Descriptors {
				in := rules.Descriptor{Cost: 1}
				if d.Cost != nil {
					in.Cost = *d.Cost
				}
				for _, e := range d.Entries {
					in.Entries = append(in.Entries, rules.Entry{Key: *e.Key, Value: *e.Value})
				}
				q.Descriptors = append(q.Descriptors, in)
			}
			if diff := cmp.Diff(q, got); diff != "" {
				t.Fatal(diff)
			}
			var again rules.Request
			if err := readCheck(string(AppendCheck(nil, &got)), &again); err != nil || !cmp.Equal(got, again) {
				t.Fatalf("%s: %v, %s", AppendCheck(nil, &got), err, cmp.Diff(got, again))
			}
		}
		w := ask(t, door, "/v1/check", string(body))
		if !json.Valid(w.Body.Bytes()) || w.Code == http.StatusInternalServerError {
			t.Fatalf("status %d %s", w.Code, w.Body)
		}
	})
}

// FuzzSettle: no body makes the listener panic, and none is taken for a receipt.
func FuzzSettle(f *testing.F) {
	for _, seed := range []string{`{"receipt":"AQ","used":1}`, `{"receipt":"","used":[1,2],"renew":true}`, `{"used":[`} {
		f.Add([]byte(seed))
	}
	door := newDoor(f, dayRules, Options{Panicked: func() { f.Error("the listener panicked") }})
	f.Fuzz(func(t *testing.T, body []byte) {
		if w := ask(t, door, "/v1/settle", string(body)); w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d %s", w.Code, w.Body)
		}
	})
}

// TestReuse: the memory of one call shows nothing to the next.
func TestReuse(t *testing.T) {
	var q rules.Request
	if err := readCheck(check(`,"cost":7},{"entries":[{"key":"x","value":"y"},{"key":"z","value":""}],"cost":9}],"peek":true,"receipt":true}`), &q); err != nil {
		t.Fatal(err)
	}
	if err := readCheck(check(`},{"entries":[{"key":"a","value":"b"}]}]}`), &q); err != nil {
		t.Fatal(err)
	}
	want := rules.Request{Domain: "t", Descriptors: []rules.Descriptor{
		{Entries: []rules.Entry{{Key: "k", Value: "v"}}, Cost: 1},
		{Entries: []rules.Entry{{Key: "a", Value: "b"}}, Cost: 1},
	}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
}

func TestMaxCostIsTheLimits(t *testing.T) {
	if got, want := fmt.Sprint(weir.MaxCount), "1073741824"; got != want {
		t.Errorf("the contract's largest cost is 2^30, not %s", got)
	}
}
