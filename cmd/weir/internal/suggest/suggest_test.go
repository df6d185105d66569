package suggest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/replay"
	"github.com/weir-limit/weir/rules"
)

var byAddress = []accesslog.Field{accesslog.RemoteAddress}

// write writes a log with a request for each pair of second and client.
func write(t *rapid.T, dir string, requests [][2]int) string {
	var b strings.Builder
	for _, r := range requests {
		fmt.Fprintf(&b, "192.0.2.%d - - [04/May/2026:%02d:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 1\n", r[1], 10+r[0]/3600, r[0]/60%60, r[0]%60)
	}
	name := filepath.Join(dir, "access.log")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPromiseIsKept holds each suggestion to its meaning: of its part of the
// clients nobody is denied, and the file that is printed, with that limit, does in a
// replay what was said.
func TestPromiseIsKept(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var requests [][2]int
		second := 0
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			second += rapid.SampledFrom([]int{0, 0, 0, 1, 2, 7, 61}).Draw(t, "step")
			requests = append(requests, [2]int{second, rapid.IntRange(1, 6).Draw(t, "client")})
		}
		o := Options{Log: write(t, dir, requests), By: byAddress, Per: rapid.SampledFrom([]Window{Second, Minute, Hour}).Draw(t, "per")}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range r.Suggestions {
			if most := s.Clients * (100 - marks[i].percent) / 100; s.ClientsDenied > most || (s.ClientsDenied == 0) != (s.RequestsDenied == 0) {
				t.Fatalf("%+v: of %d clients at most %d may be denied", s, s.Clients, most)
			}
			text := strings.Replace(r.Rules(), r.Suggestions[chosen].Limit, s.Limit, 1)
			set, err := rules.Parse("suggested.yaml", []byte(text))
			if err != nil || len(set.Warnings()) > 0 {
				t.Fatalf("%v, %v in\n%s", err, set.Warnings(), text)
			}
			log, err := os.Open(o.Log)
			if err != nil {
				t.Fatal(err)
			}
			report, err := replay.Log(t.Context(), replay.Question{Rules: set}, accesslog.NewReader(log, accesslog.Auto, ""))
			if err := errors.Join(err, log.Close()); err != nil {
				t.Fatal(err)
			}
			got := report.Rules[0]
			if !got.Shadow || got.Limit != s.Limit || got.KeysDenied != s.ClientsDenied || got.Keys != s.Clients || got.Denied != s.RequestsDenied || got.Asked != int64(len(requests)) {
				t.Fatalf("replay finds %+v, promised %+v", got, s)
			}
		}
	})
}

func TestPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPeaks(Second)
		var all [3][]weir.Instant
		at := weir.Instant(0)
		for range rapid.IntRange(1, 100).Draw(t, "n") {
			at += weir.Instant(rapid.SampledFrom([]int64{0, 1, 300_000, 999_999, 1_000_000}).Draw(t, "step"))
			c := rapid.IntRange(0, 2).Draw(t, "client")
			all[c] = append(all[c], at)
			if err := p.count(at, fmt.Sprint(c)); err != nil {
				t.Fatal(err)
			}
		}
		for c, times := range all {
			most := int64(0)
			for i := range times {
				n := int64(0)
				for _, o := range times[i:] {
					if o < times[i]+1_000_000 {
						n++
					}
				}
				most = max(most, n)
			}
			if n, ok := p.numbers[fmt.Sprint(c)]; ok != (most > 0) || ok && p.all[n].most != most {
				t.Fatalf("client %d asked at %v, at most %d", c, times, most)
			}
		}
	})
}

func TestManyClientsAreSampled(t *testing.T) {
	p := newPeaks(Minute)
	p.most = 1000
	for round := range 3 {
		for c := range 20_000 {
			// Every tenth client asks three times, the others once.
			if round > 0 && c%10 != 0 {
				continue
			}
			if err := p.count(weir.Instant(round), fmt.Sprint("client ", c)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(p.numbers); n > 1000 || n < 400 || len(p.all) != n {
		t.Errorf("%d clients kept, %d of them counted", n, len(p.all))
	}
	three, once := 0, 0
	for i := range p.all {
		switch p.all[i].most {
		case 3:
			three++
		case 1:
			once++
		}
	}
	if all := three + once; all != len(p.all) || math.Abs(float64(three)/float64(all)-0.1) > 0.04 {
		t.Errorf("%d asked three times, %d once, of %d", three, once, len(p.all))
	}
	if err := p.count(1e12, "client 0"); err != nil || len(p.events) > 1 {
		t.Errorf("%d events left, %v", len(p.events), err)
	}
}

func TestTooManyInAWindow(t *testing.T) {
	p := newPeaks(Hour)
	p.limit = 3
	for i := range 4 {
		err := p.count(weir.Instant(i), "a")
		if _, input := errors.AsType[*accesslog.InputError](err); input != (i == 3) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func TestRoomy(t *testing.T) {
	for n, want := range map[int64]int64{1: 2, 2: 3, 4: 5, 10: 13, 80: 100, 81: 110, 100: 130, 1000: 1300, 801: 1100, 1 << 40: weir.MaxCount} {
		if got := roomy(n); got != want {
			t.Errorf("roomy(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestParseBy(t *testing.T) {
	got, err := ParseBy("path,remote_address")
	if diff := cmp.Diff([]accesslog.Field{accesslog.Path, accesslog.RemoteAddress}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, list := range []string{"", "ip", "path,", "path,path", "path, user"} {
		if _, err := ParseBy(list); err == nil {
			t.Errorf("%q is no error", list)
		}
	}
}

func TestKeysAreToldApart(t *testing.T) {
	if keyOf([]string{"a 1", "b"}) == keyOf([]string{"a", "1 b"}) || keyOf([]string{"1 a", ""}) == keyOf([]string{"1", " a"}) {
		t.Error("two clients have one key")
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "binary": "\x00\x01\x02\n\x7fELF", "good": "192.0.2.1 - - [04/May/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		log string
		by  accesslog.Field
		ok  bool
	}{
		{"empty", accesslog.RemoteAddress, false},
		{"binary", accesslog.RemoteAddress, false},
		{"nowhere", accesslog.RemoteAddress, false},
		{".", accesslog.RemoteAddress, false},
		{"good", accesslog.User, false},
		{"good", accesslog.RemoteAddress, true},
	} {
		r, err := Run(t.Context(), Options{Log: filepath.Join(dir, c.log), By: []accesslog.Field{c.by}})
		if _, input := errors.AsType[*accesslog.InputError](err); input == c.ok || err != nil && c.ok {
			t.Errorf("%s by %v: %v", c.log, c.by, err)
		}
		if err == nil {
			var out bytes.Buffer
			if err := r.WriteText(&out); err != nil || !strings.Contains(out.String(), "limits: [2/min]") {
				t.Errorf("%v, %s", err, out.String())
			}
		}
	}
}
