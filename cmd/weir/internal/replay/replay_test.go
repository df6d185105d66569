package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// line is a line of a log at 10:00:00 and so many seconds.
func line(second int, address, request string) string {
	return fmt.Sprintf("%s - - [04/May/2026:%02d:%02d:%02d +0000] %q 200 1 \"-\" \"curl\"\n",
		address, 10+second/3600, second/60%60, second%60, request)
}

// play replays a log by rules without their first line, the domain.
func play(t *testing.T, descriptors, log string) *Report {
	t.Helper()
	set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors:\n"+descriptors))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Log(t.Context(), Question{Rules: set}, accesslog.NewReader(strings.NewReader(log), accesslog.Auto, ""))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// summary is a report in a few words: for each rule its name, what it allowed
// of what it was asked, its keys and the keys it denied.
func summary(r *Report) []string {
	var out []string
	for _, r := range r.Rules {
		words := []string{fmt.Sprintf("%s %d/%d keys %d", r.Rule, r.Allowed, r.Asked, r.Keys)}
		for _, k := range r.TopDenied {
			words = append(words, fmt.Sprintf("%s %d", k.Key, k.Denied))
		}
		out = append(out, strings.Join(words, ", "))
	}
	return out
}

func TestWhatIsAsked(t *testing.T) {
	const a, b = "192.0.2.1", "192.0.2.2"
	log := line(0, a, "GET /x HTTP/1.1") + line(0, a, "GET /y HTTP/1.1") + line(0, a, "POST /y?q HTTP/1.1") + line(0, b, "GET /y HTTP/1.1")
	for _, c := range []struct {
		name, rules string
		want        []string
	}{
		{"a key", `  - {key: remote_address, limits: [2/min]}`, []string{"d/remote_address 3/4 keys 2, 192.0.2.1 1"}},
		{
			"rules do not keep each other from being asked",
			"  - {key: method, limits: [1/min]}\n  - {key: remote_address, limits: [1/min]}",
			[]string{"d/method 2/4 keys 2, GET 2", "d/remote_address 2/4 keys 2, 192.0.2.1 2"},
		},
		{
			"limits of one descriptor are charged together",
			"  - {key: method, value: GET, limits: [1/min, 1000/h]}\n  - {key: path, limits: [9/min]}",
			[]string{"d/method=GET#1 1/3 keys 1, GET 2", "d/method=GET#2 3/3 keys 1", "d/path 4/4 keys 2"},
		},
		{
			"a value comes before a pattern, and that before the key alone",
			"  - {key: path, limits: [1/min]}\n  - {key: path, value: /*, limits: [1/min]}\n  - {key: path, value: /x, limits: [1/min]}",
			[]string{"d/path 0/0 keys 0", "d/path=/* 1/3 keys 1, /y 2", "d/path=/x 1/1 keys 1"},
		},
		{
			"a path of keys is asked by itself",
			"  - key: path\n    limits: [9/min]\n    descriptors: [{key: remote_address, limits: [1/min]}]",
			[]string{"d/path 4/4 keys 2", "d/path/remote_address 3/4 keys 3, /y 192.0.2.1 1"},
		},
		{
			"a path of keys begins with its first",
			"  - key: path\n    value: /y\n    descriptors: [{key: method, value: GET, descriptors: [{key: remote_address, limits: [1/min]}]}]",
			[]string{"d/path=/y/method=GET/remote_address 2/2 keys 2"},
		},
		{"values that share a count", "  - {key: path, value: /*, share_threshold: true, limits: [1/min]}", []string{"d/path=/* 1/4 keys 1, /* 3"}},
		{"a pattern of keys", "  - {key: '*th*d', limits: [1/min]}\n  - {key: '*o*o*', limits: [1/min]}", []string{"d/*th*d 2/4 keys 2, method GET 2", "d/*o*o* 0/0 keys 0"}},
		{"a pattern of keys, twice", "  - key: '*th'\n    descriptors: [{key: 'm*', value: GET, limits: [1/min]}]", []string{"d/*th/m*=GET 2/3 keys 2, path /y method 1"}},
		{"no such key", "  - {key: country, limits: [1/min]}", []string{"d/country 0/0 keys 0"}},
		{"a key that the lines lack", "  - {key: user, limits: [1/min]}", []string{"d/user 0/0 keys 0"}},
		{"shadow limits", "  - {key: path, shadow_mode: true, limits: [1/min]}", []string{"d/path 2/4 keys 2, /y 2"}},
		{"what is unlimited", "  - key: path\n    rate_limit: {unlimited: true}", []string{"d/path 4/4 keys 2"}},
		{"what never passes", "  - {key: path, limits: [0/s]}", []string{"d/path 0/4 keys 2"}},
		{"no rules", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summary(play(t, c.rules, log))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLayers: the limits of a line pass together or not at all, be they of one rule
// or of two, and the report says how many lines passed.
func TestLayers(t *testing.T) {
	var log strings.Builder
	for second := range 8 {
		for range 20 {
			log.WriteString(line(second, "192.0.2.1", "GET /x HTTP/1.1"))
		}
	}
	for name, descriptors := range map[string]string{
		"one rule": "  - {key: remote_address, limits: [60/min fixed-window, 10/s fixed-window]}",
		"two":      "  - {key: remote_address, limits: [60/min fixed-window]}\n  - {key: path, limits: [10/s fixed-window]}",
	} {
		t.Run(name, func(t *testing.T) {
			report := play(t, descriptors, log.String())
			if passed := report.Log.Passed; passed == nil || *passed != 60 {
				t.Errorf("passed: %v, want 60", passed)
			}
			var text bytes.Buffer
			if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), "; 60 passed, 100 were kept out\n") {
				t.Errorf("%s%v", &text, err)
			}
		})
	}
}

func TestTimeIsThatOfTheLog(t *testing.T) {
	log := line(60, "192.0.2.1", "GET / HTTP/1.1") + // allowed
		line(0, "192.0.2.1", "GET / HTTP/1.1") + // allowed, first of all
		line(59, "192.0.2.1", "GET / HTTP/1.1") + // denied
		line(600, "192.0.2.1", "GET / HTTP/1.1") + // allowed
		line(479, "192.0.2.1", "GET / HTTP/1.1") + // a second too late: denied at 600
		line(480, "192.0.2.1", "GET / HTTP/1.1") + // allowed
		"garbage\n"
	report := play(t, "  - {key: remote_address, limits: [1/min]}", log)
	var got bytes.Buffer
	if err := report.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	want := `{"rule":"d/remote_address","limit":"1/min","asked":6,"allowed":4,"denied":2,"impossible":0,"keys":1,"first_denied":"2026-05-04T10:00:59Z","top_denied":[{"key":"192.0.2.1","denied":2}]}
{"lines":6,"skipped":1,"late":1,"from":"2026-05-04T10:00:00Z","to":"2026-05-04T10:10:00Z","passed":4}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingToReport(t *testing.T) {
	report := play(t, "  - {key: user, limits: [1/min]}", "")
	var got bytes.Buffer
	if err := report.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	want := `{"rule":"d/user","limit":"1/min","asked":0,"allowed":0,"denied":0,"impossible":0,"keys":0,"first_denied":null,"top_denied":[]}
{"lines":0,"skipped":0,"late":0,"from":null,"to":null,"passed":0}
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMicroseconds(t *testing.T) {
	const log = `{"ip":"192.0.2.1","ts":1777888800.0000015,"request":"GET / HTTP/1.1","status":200}` + "\n" +
		`{"ip":"192.0.2.1","ts":1777888800.25,"request":"GET / HTTP/1.1","status":200}` + "\n"
	report := play(t, "  - {key: remote_address, limits: [1/s]}", log)
	if from, first := report.Log.From.String(), report.Rules[0].FirstDenied.String(); from != "2026-05-04T10:00:00.000001Z" || first != "2026-05-04T10:00:00.25Z" {
		t.Errorf("from %s, first denied %s", from, first)
	}
}

func TestValuesTooLong(t *testing.T) {
	fits, long := "/"+strings.Repeat("a", rules.MaxWord-1), "/"+strings.Repeat("a", rules.MaxWord)
	log := line(0, "192.0.2.1", "GET "+fits+" HTTP/1.1") + line(0, "192.0.2.1", "GET "+fits+" HTTP/1.1") + line(0, "192.0.2.1", "GET "+long+" HTTP/1.1")
	report := play(t, "  - {key: path, limits: [1/min]}\n  - {key: method, limits: [9/min]}", log)
	want := []string{"d/path 1/2 keys 1, " + fits + " 1", "d/method 3/3 keys 1"}
	if diff := cmp.Diff(want, summary(report)); diff != "" || report.Log.TooLong != 1 {
		t.Errorf("%d too long, (-want +got):\n%s", report.Log.TooLong, diff)
	}
}

func TestKeysInWords(t *testing.T) {
	rest := " - - [04/May/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1 "
	log := strings.Repeat("192.0.2.1"+rest+`"a b" "c"`+"\n", 2) + strings.Repeat("192.0.2.1"+rest+`"a" "b c"`+"\n", 2) +
		strings.Repeat("192.0.2.1"+rest+`"\"a" "`+strings.Repeat("c", 70)+"\"\n", 2)
	report := play(t, "  - key: referer\n    descriptors: [{key: user_agent, limits: [1/min]}]", log)
	want := []KeyDenied{{`"\"a" ` + strings.Repeat("c", 70), 1}, {`"a b" c`, 1}, {`a "b c"`, 1}}
	if diff := cmp.Diff(want, report.Rules[0].TopDenied); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkLog(b *testing.B) {
	var log bytes.Buffer
	const n = 20_000
	for i := range n {
		log.WriteString(line(i/20, fmt.Sprintf("192.0.2.%d", i*i%250), fmt.Sprintf("GET /products/%d HTTP/1.1", i%300)))
	}
	for _, c := range []struct{ name, rules string }{
		{"one", "{key: remote_address, limits: [10/min]}"},
		{"five", "{key: remote_address, limits: [10/min, 100/h]}, {key: path, value: /login, limits: [1/s]}, {key: path, value: /products/*, limits: [1/s]}, {key: method, value: POST, limits: [1/s]}"},
	} {
		b.Run(c.name, func(b *testing.B) {
			set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors: ["+c.rules+"]"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Log(b.Context(), Question{Rules: set}, accesslog.NewReader(bytes.NewReader(log.Bytes()), accesslog.Auto, "")); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
