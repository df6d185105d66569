package pgstore

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

func TestURL(t *testing.T) {
	for of, says := range map[string]string{
		"postgres://weir:secret@db:5432/counts":                                      "",
		"postgresql://weir@a:5432,b:5433/counts?target_session_attrs=primary":        "",
		"postgres://weir@/counts?host=/run/postgresql":                               "",
		"postgres://db/counts?table=weir.counts&unlogged=1&connections=2":            "",
		"postgres://db/counts?clock=server&synchronous_commit=off&sslmode=require":   "",
		"postgres://weir:secret@db:99999/counts":                                     "port",
		"redis://db":                                                                 "does not begin with postgres://",
		"postgres://weir:secret@db/counts?table=Weir":                                "no name of a table",
		"postgres://weir:secret@db/counts?table=a.b.c":                               "no name of a table",
		"postgres://weir:secret@db/counts?table=x;drop":                              "options can't be read",
		"postgres://weir:secret@db/counts?table=":                                    "no name of a table",
		"postgres://weir:secret@db/counts?unlogged=yes":                              "write unlogged=1",
		"postgres://weir:secret@db/counts?clock=mine":                                "write clock=server",
		"postgres://weir:secret@db/counts?synchronous_commit=x":                      "write off, local",
		"postgres://weir:secret@db/counts?connections=0":                             "from 1 to 64",
		"postgres://weir:secret@db/counts?connections=65":                            "from 1 to 64",
		"postgres://weir:secret@db/counts?connections=1&connections=2":               "given 2 times",
		"postgres://weir:secret@db/counts?connect_timeout=5":                         "",
		"postgres://weir:secret@db/counts?connect_timeout=soon":                      "connect_timeout",
		"postgres://weir:secret@db/counts?target_session_attrs=standby":              "take no writes",
		"postgres://weir:secret@db/counts?sslmode=maybe":                             "sslmode",
		"postgres://weir:secret@db/counts?sslmode=verify-full&sslrootcert=/no/where": "CA file",
	} {
		err := CheckURL(of)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", of, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password in %v", err)
		}
		if s, err := Dial(of, Options{}); (err == nil) != (says == "") {
			t.Errorf("%s: Dial: %v", of, err)
		} else if err == nil {
			_ = s.Close()
		}
	}
}

func TestTraits(t *testing.T) {
	for of, unfit := range map[string]map[string]bool{
		"postgres://db/x": {
			"10/s": false, "10 concurrent ttl 1min": false, "10/s strict": true, "10/s sliding-log": true,
			"10/s sliding-window conservative": true, "10/s warm-up 10s": true, "10/s leaky-queue": false,
		},
		"postgres://db/x?clock=server": {"10/s strict": true, "10/s sliding-log": true},
		"postgres://db/x?unlogged=1":   {"10/s": false, "10 concurrent ttl 1min": true},
	} {
		traits := TraitsOf(of)
		if traits.Forgets != strings.Contains(of, "unlogged") || !traits.Shared || !traits.Atomic || traits.OwnClock || traits.Bare {
			t.Errorf("%s: %+v", of, traits)
		}
		for text, want := range unfit {
			if why := weir.MustParseLimit(text).Unfit(traits); (why != "") != want {
				t.Errorf("%s: %s: %q", of, text, why)
			}
		}
	}
}

// TestConnectTime: a host has as long to accept a connection as the URL says, and all hosts together enough for that.
func TestConnectTime(t *testing.T) {
	for of, want := range map[string]time.Duration{
		"postgres://db/x":                                      connectTime,
		"postgres://db/x?connect_timeout=7":                    7 * time.Second,
		"postgres://a,b,c/x?connect_timeout=3&sslmode=disable": 3 * time.Second,
	} {
		config, o, err := parseURL(of)
		if err != nil || config.ConnectTimeout != want || o.connecting < want*time.Duration(1+len(config.Fallbacks)) {
			t.Errorf("%s: a host has %v, and all have %v; %v", of, config.ConnectTimeout, o.connecting, err)
		}
	}
}
