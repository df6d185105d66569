package memcachestore

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
)

func parse(text string, v verb) (answer, error) {
	return readAnswer(bufio.NewReaderSize(strings.NewReader(text), maxLine), &command{verb: v})
}

func TestReadAnswer(t *testing.T) {
	for _, c := range []struct {
		text string
		verb verb
		want answer
		bad  string
	}{
		{"EN\r\n", verbGet, answer{outcome: outcomeNone}, ""},
		{"VA 2 c7\r\nab\r\n", verbGet, answer{value: []byte("ab"), cas: 7}, ""},
		{"VA 2 t-1 c7\r\n\r\n\r\n", verbGet, answer{value: []byte("\r\n"), cas: 7}, ""},
		{"VA 0 c18446744073709551615\r\n\r\n", verbGet, answer{value: []byte{}, cas: 1<<64 - 1}, ""},
		{"VA 2 c7\r\nabc\r\n", verbGet, answer{}, "does not end"},
		{"VA 3 c7\r\nab\r\n", verbGet, answer{}, "does not end"},
		{"VA 9 c7\r\nab\r\n", verbGet, answer{}, "unexpected EOF"},
		{"VA -1 c7\r\n", verbGet, answer{}, "the server says"},
		{"VA 99999999999 c7\r\n", verbGet, answer{}, "the server says"},
		{"VA 2 c\r\nab\r\n", verbGet, answer{}, "the server says"},
		{"HD\r\n", verbGet, answer{}, "the server says"},
		{"HD c9\r\n", verbSwap, answer{cas: 9}, ""},
		{"HD\r\n", verbSwap, answer{}, ""},
		{"EX\r\n", verbSwap, answer{outcome: outcomeOther}, ""},
		{"NS\r\n", verbAdd, answer{outcome: outcomeOther}, ""},
		{"NF\r\n", verbSwap, answer{outcome: outcomeNone}, ""},
		{"HD c9 O0\r\n", verbSwap, answer{cas: 9}, ""},
		{"HD c9 O7\r\n", verbSwap, answer{}, "what was not asked"},
		{"EN O0\r\n", verbGet, answer{outcome: outcomeNone}, ""},
		{"EN O7\r\n", verbGet, answer{}, "what was not asked"},
		{"ENO\r\n", verbGet, answer{}, "the server says"},
		{"EX O7\r\n", verbSwap, answer{}, "what was not asked"},
		{"HD O-\r\n", verbSwap, answer{}, "what was not asked"},
		{"VA 2 c7 O7\r\nab\r\n", verbGet, answer{}, "what was not asked"},
		{"EN\r\n", verbSwap, answer{}, "the server says"},
		{"SERVER_ERROR out of memory storing object\r\n", verbAdd, answer{outcome: outcomeFailed, text: "out of memory storing object"}, ""},
		{"CLIENT_ERROR bad data chunk\r\n", verbAdd, answer{}, "CLIENT_ERROR bad data chunk"},
		{"ERROR\r\n", verbAdd, answer{}, "ERROR"},
		{"-ERR unknown command\r\n", verbVersion, answer{}, "-ERR unknown command"},
		{"VERSION 1.6.18\r\n", verbVersion, answer{value: []byte("1.6.18")}, ""},
		{"STAT a 1\r\nSTAT b 2\r\nEND\r\n", verbStats, answer{value: []byte("a 1\nb 2\n")}, ""},
		{"STAT a 1\r\nHD\r\n", verbStats, answer{}, "the server says"},
		{strings.Repeat("STAT a 1\r\n", maxStats+1), verbStats, answer{}, "lines of statistics"},
		{"HD\n", verbSwap, answer{}, "the server says"},
		{"HD", verbSwap, answer{}, "unexpected EOF"},
		{strings.Repeat("x", maxLine+1), verbSwap, answer{}, "a line of more"},
	} {
		got, err := parse(c.text, c.verb)
		switch {
		case c.bad != "":
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%.40q: %+v, %v; want an error with %q", c.text, got, err, c.bad)
			}
		case err != nil || got.outcome != c.want.outcome || !bytes.Equal(got.value, c.want.value) || got.cas != c.want.cas || got.text != c.want.text:
			t.Errorf("%.40q: %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
}

// TestReadForeign: a value too large to be ours is passed over, and what comes
// after it is read.
func TestReadForeign(t *testing.T) {
	text := "VA 1000000 c1\r\n" + strings.Repeat("x", 1_000_000) + "\r\nEN\r\n"
	r := bufio.NewReaderSize(strings.NewReader(text), maxLine)
	a, err := readAnswer(r, &command{verb: verbGet})
	if err != nil || a.outcome != outcomeFailed || !strings.Contains(a.text, "another program's") {
		t.Errorf("a large value: %+v, %v", a, err)
	}
	if a, err = readAnswer(r, &command{verb: verbGet}); err != nil || a.outcome != outcomeNone {
		t.Errorf("the next answer: %+v, %v", a, err)
	}
}

// FuzzReadAnswer: no bytes of a server make the parser panic, take what was not
// sent, or keep more than a count may be.
func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{"VA 2 c7\r\nab\r\n", "EN\r\n", "HD c9\r\n", "SERVER_ERROR x\r\n", "STAT a 1\r\nEND\r\n", "VERSION 1.6.18\r\n", "VA 2 c\r\n"} {
		for v := range verbStats + 1 {
			f.Add([]byte(seed), uint8(v))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, v uint8) {
		a, err := parse(string(text), verb(v)%(verbStats+1))
		if err != nil {
			return
		}
		if len(a.value) > maxValue && verb(v)%(verbStats+1) == verbGet {
			t.Errorf("a value of %d bytes", len(a.value))
		}
		if len(a.value) > 0 && !bytes.Contains(text, a.value) && verb(v)%(verbStats+1) != verbStats {
			t.Errorf("the value %q is not in %q", a.value, text)
		}
	})
}

// TestNames: two items have one name only when they are one, no item has the
// name of a note, and memcached takes all of them.
func TestNames(t *testing.T) {
	s := &Store{prefix: DefaultPrefix}
	text := rapid.OneOf(rapid.StringMatching(`[ab:%|#]{0,4}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }))
	type place struct{ placement, key string }
	of := map[string]place{}
	rapid.Check(t, func(t *rapid.T) {
		k := weir.StateKey{Rule: text.Draw(t, "rule"), Key: text.Draw(t, "key")}
		name, p := s.name(k), place{k.Placement(), k.Key}
		if was, ok := of[name]; ok && was != p {
			t.Fatalf("%q is the name of %q and %q", name, was, p)
		}
		of[name] = p
		note := name + noteMark + strings.Repeat("f", cas.NoteRoom)
		if _, ok := of[note]; ok || len(note) > maxKey || strings.ContainsFunc(note, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Fatalf("a note of %q has the name %q", k, note)
		}
	})
}

func TestOpen(t *testing.T) {
	for url, want := range map[string]string{
		"memcached://a:1,b:2":                            "a:1 b:2",
		"memcached://a":                                  "a:11211",
		"memcached://[::1]:5/":                           "[::1]:5",
		"memcached://[::1]":                              "[::1]:11211",
		"memcached+unix:///run/m.sock":                   "/run/m.sock",
		"memcached+unix://run/m.sock":                    "! begins with a slash",
		"redis://a:1":                                    "! write memcached://host:port",
		"memcached://":                                   "! names no host",
		"memcached://a:1,":                               "! names no host",
		"memcached://a_b-c.d:1":                          "a_b-c.d:1",
		"memcached://a%20b:1":                            "! a host is an IP address",
		"memcached://a:1,a:1":                            "! named twice",
		"memcached://a:x":                                "! is no port number",
		"memcached://a:0":                                "! is no port number",
		"memcached://a:70000":                            "! is no port number",
		"memcached://user:secret@a:1":                    "! not supported",
		"memcached://a:1/db":                             "! more than hosts and ports",
		"memcached://::1":                                "! in brackets",
		"memcached://" + strings.Repeat("a,", 300) + "b": "! there may be 256",
	} {
		s, err := Dial(url, Options{})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, sv := range s.cells.servers {
				got += " " + sv.addr
			}
			got = got[1:]
			_ = s.Close()
		}
		if after, ok := strings.CutPrefix(want, "! "); got != want && (!ok || err == nil || !strings.Contains(got, after)) {
			t.Errorf("%.60s: %s, want %s", url, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: a password in %s", url, got)
		}
	}
	if _, err := Dial("memcached://a:1", Options{Prefix: "a b"}); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("a bad prefix: %v", err)
	}
}

func TestUnfit(t *testing.T) {
	for text, want := range map[string]string{
		"10/s":                               "",
		"10/s sliding-window":                "",
		"10/s sliding-window 5 relaxed":      "",
		"10/s leaky-queue":                   "",
		"10/month fixed-window":              "",
		"10/s sliding-log":                   "take sliding-window 60",
		"10 concurrent":                      "take a Redis store",
		"10/s strict burst 3":                "take a smaller burst",
		"10/s sliding-window 5 conservative": "take sliding-window without it",
		"10/s warm-up 1s":                    "take leaky-queue",
		"1/year leaky-queue":                 "!",
		"1/365day burst 6":                   "5 years",
		"1/365day leaky-queue queue 10":      "5 years",
	} {
		l, err := weir.ParseLimit(text)
		if err != nil {
			if want != "!" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got := unfit(l); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
