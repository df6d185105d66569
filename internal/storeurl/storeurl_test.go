package storeurl

import (
	"fmt"
	"strings"
	"testing"
)

func TestHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"redis-1.example_net:6379": "redis-1.example_net 6379",
		"127.0.0.1:1":              "127.0.0.1 1",
		"[::1]:65535":              "::1 65535",
		"[fe80::1%eth0]:1":         "fe80::1%eth0 1",
		"host":                     "! no host:port",
		"::1":                      "! in brackets",
		":6379":                    "! names no host",
		"a b:1":                    "! a host is an IP address",
		"a/b:1":                    "! a host is an IP address",
		"[a:b]:1":                  "! a host is an IP address",
		"ä:1":                      "! a host is an IP address",
		"h:x":                      `! "x" is no port number`,
		"h:":                       `! "" is no port number`,
		"h:0":                      `! "0" is no port number`,
		"h:-1":                     `! "-1" is no port number`,
		"h:65536":                  `! "65536" is no port number`,
	} {
		host, port, err := HostPort(text)
		fault, wrong := strings.CutPrefix(want, "! ")
		if wrong != (err != nil) || wrong && !strings.Contains(err.Error(), fault) || !wrong && host+" "+port != want {
			t.Errorf("%q: %q, %q, %v; want %s", text, host, port, err, want)
		}
	}
}

func TestSocket(t *testing.T) {
	if err := Socket("/run/a socket"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"", "run/s", "./s"} {
		if err := Socket(path); err == nil || !strings.Contains(err.Error(), "begins with a slash") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for query, want := range map[string]string{
		"":           "map[]",
		"a=1&b=x%20": "map[a:1 b:x ]",
		"c=1":        `! unknown option "c"; the options are a, b`,
		"a=1&a=1":    "! option a is given 2 times",
		"a=":         "! option a has no value",
		"a":          "! option a has no value",
		"a=%zz":      "! can't be read",
		"a=1;b=2":    "! can't be read",
	} {
		got, err := Options(query, "a", "b")
		fault, wrong := strings.CutPrefix(want, "! ")
		if wrong != (err != nil) || wrong && !strings.Contains(err.Error(), fault) || !wrong && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", query, got, err, want)
		}
	}
}
