package ruleapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// manyRules is a file of the domain shop with n rules.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {key: k%d, limits: [1/s]}\n", i)
	}
	return b.String()
}

// TestHostileFiles: a file that is made to be costly is refused with the reason,
// or taken whole; nothing is lost, and the next call is answered.
func TestHostileFiles(t *testing.T) {
	h := newHouse(t)
	h.shop()
	const head, user = "domain: shop\ndescriptors:\n", "  - {key: user, limits: [1/s]}\n"
	put := func(file string) said {
		etag := h.must(h.admin, "GET", "/v1/domains/shop", "").etag
		return h.ask(h.admin, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", file, "If-Match", etag)
	}
	if s := put(head + user); s.status != http.StatusOK {
		t.Fatal(s.text)
	}
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&aliases, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	for name, c := range map[string]struct {
		file   string
		status int
		says   string
	}{
		"a million rules":             {manyRules(1_000_000), http.StatusRequestEntityTooLarge, "over 8388608 bytes"},
		"a rule too many":             {manyRules(rulestore.MaxRules + 1), http.StatusBadRequest, "there are 10001 rules; a domain may have 10000"},
		"230,000 rules":               {manyRules(230_000), http.StatusBadRequest, "may have 400000, and 10000 rules"},
		"a million empty lines":       {head + strings.Repeat("\n", 1_000_000) + user, http.StatusBadRequest, "may have 400000"},
		"many empty lines":            {head + strings.Repeat("\n", 300_000) + user, http.StatusBadRequest, "stand before the first rule"},
		"many comments":               {head + user + strings.Repeat("  #\n", 300_000) + "  - {key: ip, limits: [1/s]}\n", http.StatusBadRequest, "a rule may have 65536"},
		"a million brackets":          {head + "  - key: " + strings.Repeat("[", 1_000_000), http.StatusBadRequest, ""},
		"a million dashes":            {head + "  " + strings.Repeat("- ", 1_000_000), http.StatusBadRequest, ""},
		"too many levels":             {head + "  - " + strings.Repeat("{key: a, descriptors: [", 100_000), http.StatusBadRequest, ""},
		"a key of 8 MiB":              {head + "  - {key: " + strings.Repeat("k", 8_000_000) + ", limits: [1/s]}\n", http.StatusBadRequest, ""},
		"a limit of 1 MiB":            {head + "  - {key: a, limits: [" + strings.Repeat("1", 1<<20) + "/s]}\n", http.StatusBadRequest, "file"},
		"aliases of aliases":          {aliases.String() + head + "  - {key: *a29, limits: [1/s]}\n", http.StatusBadRequest, ""},
		"two documents":               {head + user + "---\n" + head + user, http.StatusBadRequest, ""},
		"two domains":                 {"domain: stock\n" + head + user, http.StatusBadRequest, ""},
		"bytes of no text":            {head + "  - {key: \"\xff\xfe\", limits: [1/s]}\n", http.StatusBadRequest, ""},
		"UTF-16":                      {"\xff\xfed\x00o\x00m\x00", http.StatusBadRequest, ""},
		"zeros":                       {strings.Repeat("\x00", 100_000), http.StatusBadRequest, ""},
		"nothing":                     {"", http.StatusBadRequest, ""},
		"a rule that replaces itself": {head + "  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}\n", http.StatusBadRequest, "replaces"},
		"a look-alike of a rule":      {head + user + "  - {key: us\u0435r, limits: [1/s]}\n", http.StatusBadRequest, "look alike"},
		"a look-alike of the domain":  {"domain: sh\u043ep\ndescriptors: []\n", http.StatusBadRequest, ""},
		"a look-alike further in":     {head + "  - {key: user, descriptors: [{key: ip, value: \"ﬁle\", limits: [1/s]}]}\n", http.StatusBadRequest, "write \\\"file\\\""},
		"a name of another width":     {head + "  - {key: \"\uff55ser\u200d\", limits: [1/s]}\n", http.StatusBadRequest, "is invisible"},
	} {
		t.Run(name, func(t *testing.T) {
			s := put(c.file)
			if s.status != c.status || !strings.Contains(s.text, c.says) {
				t.Errorf("%d %.500s", s.status, s.text)
			}
			if len(s.text) > 64<<10 {
				t.Errorf("the answer has %d bytes: %.500s", len(s.text), s.text)
			}
			if now := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text; now != head+user {
				t.Errorf("it changed the file: %.500s", now)
			}
		})
	}
}

// TestHostilePaths: whatever stands in a path is a name that is not there, and
// never another thing's path.
func TestHostilePaths(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { hostilePaths(t, newHouse(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { hostilePaths(t, houseAt(t, postgrestest.Start(t).Database(t))) })
}

func hostilePaths(t *testing.T, h *house) {
	t.Helper()
	h.shop()
	h.must(h.admin, "POST", "/v1/rules", `{"domain":"shop","text":"- {key: a?b, limits: [1/s]}","reason":"x"}`)
	for _, name := range []string{"a%FFb", "a?%00b", "%2E%2E", "%2e", "a%2Fb", "%00", "%FF", "%E2%80%AE", "..%2F..%2Fv1%2Ftokens", strings.Repeat("a", 5000), "shop%20", "%73hop%0A", "*", "'%20OR%201=1--", "%25"} {
		for _, path := range []string{"/v1/domains/" + name, "/v1/domains/" + name + "/file", "/v1/rules/shop/" + name, "/v1/rules/" + name + "/user", "/v1/rules/shop/" + name + "/history", "/v1/rules/shop/user/versions/" + name} {
			if s := h.ask(h.admin, "GET", path, ""); s.status != http.StatusNotFound && s.status != http.StatusBadRequest {
				t.Errorf("%.100s: %d %.200s", path, s.status, s.text)
			}
		}
	}
	for _, body := range []string{`{"domain":"sh\u0000op","text":"- {key: b, limits: [1/s]}"}`, `{"domain":"shop","text":"- {key: \"a\ufffdb\", limits: [1/s]}"}`} {
		if s := h.ask(h.admin, "POST", "/v1/rules", body); s.status != http.StatusNotFound && s.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, s.status, s.text)
		}
	}
	for _, query := range []string{"after=x%2F%00", "after=x%00%2F", "search=%27%20OR%201=1--", "team=%FF", "search=" + url.QueryEscape("%_")} {
		if s := h.must(h.admin, "GET", "/v1/rules?"+query, ""); len(s.json["rules"].([]any)) != 0 {
			t.Errorf("%.100s: %s", query, s.text)
		}
	}
}

// TestExpired: a token counts until its time, and no longer.
func TestExpired(t *testing.T) {
	h := newHouse(t)
	by := rulestore.Actor{Name: "ops", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
	ends := time.Now().Add(time.Second)
	_, text, err := h.store.CreateToken(t.Context(), by, rulestore.Token{Actor: "ann", Role: rulestore.Read, Teams: []string{"shop"}, Expires: ends}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	for {
		before := time.Now()
		_, err := h.store.Authenticate(t.Context(), text)
		after := time.Now()
		switch {
		case err != nil && after.Before(ends.Truncate(time.Microsecond)):
			t.Fatal("before its end: ", err)
		case err == nil && !before.Before(ends):
			t.Fatal("behind its end it counts")
		case err == nil:
			continue
		case !rulestore.IsKind(err, rulestore.Unknown) || !strings.Contains(err.Error(), "the token has expired at "):
			t.Error(err)
		}
		return
	}
}

// TestReadOnlyDatabase: a database that takes no changes says so for each, and is
// read as before.
func TestReadOnlyDatabase(t *testing.T) {
	place := postgrestest.Start(t).Database(t)
	first := houseAt(t, place)
	first.shop()
	rule := `{"domain":"shop","text":"` + tenText + `","reason":"x"}`
	etag := first.must(first.admin, "POST", "/v1/rules", rule).etag
	h := houseAt(t, place+"&default_transaction_read_only=on")
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/rules", strings.Replace(rule, "user", "ip", 1)},
		{"PUT", "/v1/rules/shop/user", `{"text":"` + fiveText + `"}`},
		{"DELETE", "/v1/domains/shop?confirm=shop&reason=x", ""},
		{"POST", "/v1/tokens", `{"actor":"ann","role":"read","teams":["shop"],"reason":"x"}`},
		{"PUT", "/v1/domains/shop/file", "domain: shop\ndescriptors: []\n"},
	} {
		if s := h.ask(first.admin, c.method, c.path, c.body, "If-Match", etag); s.status != http.StatusServiceUnavailable || !strings.Contains(s.text, "it is read-only: name the primary server") {
			t.Errorf("%s %s: %d %s", c.method, c.path, s.status, s.text)
		}
	}
	if s := h.must(first.admin, "GET", "/v1/rules/shop/user", ""); s.etag != etag {
		t.Error(s.text)
	}
}
