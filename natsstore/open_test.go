package natsstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
)

// TestURLs: what can't be meant is refused with what to write, and without a secret.
func TestURLs(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, says := range map[string]string{
		"nats://h":                        "",
		"nats://h:4222,[::1],10.0.0.1:1/": "",
		"nats://u:secret@h?replicas=3&bucket=a_B-9&storage=memory&tls=1": "",
		"nats://secret@h":      "",
		"redis://h":            "the URL does not begin with nats://; write nats://host:port",
		"nats://":              "names no host",
		"nats://h:0":           `"0" is no port number`,
		"nats://u:sec/ret@h":   "there is an @ behind the host",
		"nats://u:%zzsecret@h": "the user and password can't be read",
		"nats://h?bucket=a.b":  "is no name of a bucket",
		"nats://h?bucket=" + strings.Repeat("b", 65): "is no name of a bucket",
		"nats://h?replicas=6":                        `replicas: "6" is not 1…5`,
		"nats://h?storage=disk":                      `storage: "disk" is neither file nor memory`,
		"nats://h?ttl=1":                             `unknown option "ttl"; the options are bucket, replicas`,
		"nats://h?tls=yes":                           "tls=yes means nothing",
		"nats://h?cert=x":                            "cert and key go together",
		"nats://h?ca=/nobody":                        "ca: ",
		"nats://h?creds=/nobody":                     "creds: ",
		"nats://h?nkey=" + empty:                     "nkey: ",
		"nats://h?password-file=" + empty:            "password-file: the first line of",
		"nats://u:secret@h?password-file=" + empty:   "leave one out",
	} {
		_, err := TraitsOf(url)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("a secret in %v", err)
		}
	}
}

// TestTraits: only one replica in memory forgets.
func TestTraits(t *testing.T) {
	for options, forgets := range map[string]bool{
		"": false, "?replicas=3": false, "?storage=memory": true, "?storage=memory&replicas=3": false,
	} {
		if is, err := TraitsOf("nats://h" + options); err != nil || is.Forgets != forgets || !is.Shared || is.Atomic || is.OwnClock || is.Bare {
			t.Errorf("%s: %+v, %v", options, is, err)
		}
	}
}

// TestUnfit: limits that can't be kept are refused with what to take instead.
func TestUnfit(t *testing.T) {
	for text, says := range map[string]string{
		"10/s": "", "10 concurrent": "", "1/year fixed-window": "", "1/365day burst 60": "", "10/min sliding-window 6": "",
		"10/s sliding-log":                  "take sliding-window 60",
		"10/s strict burst 2":               "take a smaller burst",
		"4/min sliding-window conservative": "take sliding-window without it",
		"10/s warm-up 1min":                 "take leaky-queue",
	} {
		if why := unfit(weir.MustParseLimit(text)); (says == "") != (why == "") || !strings.Contains(why, says) {
			t.Errorf("%s: %q, want %q", text, why, says)
		}
	}
}

// TestName: no two counts have one name, none has the mark of a note, and each is a key of a bucket.
func TestName(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []weir.StateKey{
		{},
		{Rule: "a", Key: "b"},
		{Rule: "a#1", Key: "c"},
		{Rule: "a/b#1", Key: ""},
		{Rule: "a.b#1", Key: ""},
		{Rule: "=a", Key: ""},
		{Rule: "a*", Key: ">"},
		{Rule: "a", Key: "b "},
		{Rule: "ab", Key: ""},
		{Rule: strings.Repeat("r", 65)},
		{Rule: strings.Repeat("r", 64)},
		{Rule: "a", Key: strings.Repeat("k", 1<<20)},
		{Rule: "ä"},
		{Rule: "a", Key: "\x00"},
	} {
		n := name(k)
		rule, key, ok := strings.Cut(n, ".")
		if seen[n] || !ok || strings.Contains(n, noteMark) || len(n) > 100 || strings.Contains(key, ".") {
			t.Errorf("%.80q: %s", k, n)
		}
		for _, r := range rule + key {
			if !strings.ContainsRune("=/_-", r) && !isToken(string(r)) {
				t.Errorf("%.80q: %s", k, n)
			}
		}
		seen[n] = true
	}
	if a, b := name(weir.StateKey{Rule: "a#1", Key: "k"}), name(weir.StateKey{Rule: "a#2", Key: "k"}); a != b {
		t.Errorf("limits of one descriptor have the names %s and %s", a, b)
	}
}
