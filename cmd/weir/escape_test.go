package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNothingReachesTheTerminal: a daemon tells what clients have sent, with bytes
// that would colour, ring, and forge a line.
func TestNothingReachesTheTerminal(t *testing.T) {
	const evil = `evil\u001b[2Jx\u0007\nallowed  forged \u009b31m`
	answers := map[string]string{
		"/v1/explain": `{"id":"` + evil + `","at":"` + evil + `","summary":"denied: ` + evil + `","together":true,"decisive":0,"passes":"later",
			"descriptors":[{"entries":[{"key":"k","value":"` + evil + `"}],"summary":"` + evil + `","levels":[{"key":"k","value":"` + evil + `","met":{"key":"` + evil + `","value":"","file":"` + evil + `","line":1},
			"why":"` + evil + `","passed_over":[{"key":"` + evil + `"}],"there":[{"key":"` + evil + `"}]}]}],
			"limits":[{"descriptor":0,"rule":"` + evil + `","file":"` + evil + `","limit":"` + evil + `","words":"` + evil + `","outcome":"denied","notes":["` + evil + `"]}]}`,
		"/v1/check":   `{"allowed":true,"decisive":0,"decisions":[{"rule":"` + evil + `","limit":"` + evil + `","outcome":"allowed","remaining":1}]}`,
		"/v1/cluster": `{"node":"` + evil + `","members":[{"name":"` + evil + `","state":"` + evil + `"}]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text := answers[r.URL.Path]
		if strings.Contains(r.URL.RawQuery, "domain") || text == "" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			text = `{"detail":"` + evil + `"}`
		}
		_, _ = w.Write([]byte(text))
	}))
	defer s.Close()
	for _, args := range [][]string{
		{"explain", "--addr", s.URL, "--id", "0f1e2d3c4b5a6978"},
		{"explain", "--addr", s.URL, "demo", "k=v"},
		{"check", "--addr", s.URL, "demo", "k=v"},
		{"cluster", "status", "--addr", s.URL},
		{"rules", "list", "--addr", s.URL},
		{"token", "list", "--addr", s.URL},
	} {
		var out bytes.Buffer
		run(t.Context(), args, strings.NewReader(""), &out, &out)
		if text := out.String(); strings.ContainsAny(text, "\x1b\x07\u009b") || strings.Contains(text, "\nallowed  forged") || !strings.Contains(text, `\x1b[2J`) {
			t.Errorf("weir %s prints\n%q", strings.Join(args, " "), text)
		}
	}
}

// TestArgumentsDoNotReachTheTerminal: what somebody was made to paste is shown in an error
// as it is, and neither colours, rings, nor turns it around. Lines stay lines.
func TestArgumentsDoNotReachTheTerminal(t *testing.T) {
	const evil = "\x1b[2Jx\a\u202e\u009b31m"
	for _, args := range [][]string{
		{"serve", "--" + evil},
		{"serve", "--http", evil},
		{"serve", "--hash-keys=" + evil},
		{"lint", evil + ".yaml"},
		{"check", "--rules", evil, "demo", "k=v"},
		{evil},
		{"explain", evil},
		{"explain", "--addr", evil, "demo", "k=v"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &out, &out)
		if text := out.String(); code < exitUsage || text == "" || strings.ContainsAny(text, "\x1b\a\u202e\u009b") {
			t.Errorf("weir %q: %d\n%q", args, code, text)
		}
	}
	var out bytes.Buffer
	run(t.Context(), []string{"serv"}, strings.NewReader(""), &out, &out)
	if want := "; did you mean serve?\nsee weir --help\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q, want in it %q", out.String(), want)
	}
}
