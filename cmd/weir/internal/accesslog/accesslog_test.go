package accesslog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// offered is what a line offers, by field name, and its time.
func offered(l *Line) map[string]string {
	m := map[string]string{"time": l.Time.Time().Format(time.RFC3339Nano)}
	for f := range Field(FieldCount) {
		if v := l.Value(f); len(v) > 0 {
			m[f.String()] = string(v)
		}
	}
	return m
}

// want reads "name=value|name=value"; a time that is not named is that of the
// lines of these tests.
func want(text string) map[string]string {
	m := map[string]string{"time": "2026-05-04T10:00:00Z"}
	for part := range strings.SplitSeq(text, "|") {
		name, value, _ := strings.Cut(part, "=")
		m[name] = value
	}
	return m
}

func testLines(t *testing.T, f Format, cases []struct{ name, line, want string }) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var l Line
			ok := l.Parse([]byte(c.line), f) == Whole
			if !ok || c.want == "" {
				if ok != (c.want != "") {
					t.Fatalf("Parse(%s) = %v, %v", c.line, ok, offered(&l))
				}
				return
			}
			if diff := cmp.Diff(want(c.want), offered(&l)); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", c.line, diff)
			}
		})
	}
}

func TestCombined(t *testing.T) {
	const head, tail = `192.0.2.1 - - [04/May/2026:10:00:00 +0000] `, ` 200 12 "-" "-"`
	const get = "remote_address=192.0.2.1|status=200|method=GET|path="
	testLines(t, Combined, []struct{ name, line, want string }{
		{"whole", head + `"GET /a HTTP/1.1" 200 12 "http://example.com/" "curl/8"`, get + "/a|referer=http://example.com/|user_agent=curl/8"},
		{"absent", head + `"GET /a HTTP/1.1"` + tail, get + "/a"},
		{"empty agent", head + `"GET /a HTTP/1.1" 200 12 "" ""`, get + "/a"},
		{"no size", head + `"GET /a HTTP/1.1" 200`, get + "/a"},
		{"no agent", head + `"GET /a HTTP/1.1" 200 - "http://example.com/"`, get + "/a|referer=http://example.com/"},
		{"agent cut short", head + `"GET /a HTTP/1.1" 200 - "-" "Mozilla/5.0 (`, get + "/a"},
		{"more after it", head + `"GET /a HTTP/1.1" 200 - "-" "x" "192.0.2.9" 0.004`, get + "/a|user_agent=x"},
		{"query", head + `"GET /a/b?c=/d?e HTTP/1.1"` + tail, get + "/a/b"},
		{"fragment", head + `"GET /a#b HTTP/1.1"` + tail, get + "/a"},
		{"percent signs", head + `"GET /a%20b%2Fc HTTP/1.1"` + tail, get + "/a%20b%2Fc"},
		{"blank in target", head + `"GET /a b HTTP/1.1"` + tail, get + "/a b"},
		{"two slashes", head + `"GET //a://b HTTP/1.1"` + tail, get + "//a://b"},
		{"HTTP/0.9", head + `"GET /a"` + tail, get + "/a"},
		{"absolute target", head + `"GET http://example.com:81/a?b HTTP/1.1"` + tail, get + "/a|host=example.com:81"},
		{"absolute target without path", head + `"GET http://example.com?b HTTP/1.1"` + tail, get + "/|host=example.com"},
		{"connect", head + `"CONNECT example.com:443 HTTP/1.1"` + tail, "remote_address=192.0.2.1|status=200|method=CONNECT|host=example.com:443"},
		{"options", head + `"OPTIONS * HTTP/1.1"` + tail, "remote_address=192.0.2.1|status=200|method=OPTIONS|path=*"},
		{"apache's escapes", head + `"GET /\"a\"\\\x41\xff HTTP/1.1" 200 1 "\t" "\"q\""`, get + "/\"a\"\\A\xff|referer=\t|user_agent=\"q\""},
		{"nginx's escapes", head + `"GET /a HTTP/1.1" 200 1 "-" "say \x22hi\x22\x5C"`, get + "/a|user_agent=say \"hi\"\\"},
		{"no escapes", head + `"GET /a\y\x4\xg0 HTTP/1.1"` + tail, get + `/a\y\x4\xg0`},
		{"escape at the end", head + `"GET /a HTTP/1.1" 200 1 "-" "a\`, get + "/a"},

		{"user", `192.0.2.1 id ann [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|user=ann"},
		{"user with blanks", `192.0.2.1 - ann [x] lee [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|user=ann [x] lee"},
		{"user with a number in brackets", `192.0.2.1 - ann [12] [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|user=ann [12]"},
		{"no user", `192.0.2.1 - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a"},
		{"no ident", `192.0.2.1 [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a"},
		{"zone", `192.0.2.1 - - [04/May/2026:12:30:00.5 +0230] "GET /a HTTP/1.1"` + tail, get + "/a|time=2026-05-04T10:00:00.5Z"},
		{"ISO time", `192.0.2.1 - - [2026-05-04T10:00:00+00:00] "GET /a HTTP/1.1"` + tail, get + "/a"},

		{"IPv6", `2001:db8::1 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|remote_address=2001:db8::1"},
		{"host name", `in24.example.com - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|remote_address=in24.example.com"},
		{"port", `192.0.2.1:80 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a"},
		{"IPv6 and port", `[2001:db8::1]:80 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|remote_address=2001:db8::1"},
		{"brackets", `[2001:db8::1] - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, get + "/a|remote_address=2001:db8::1"},

		{"empty", "", ""},
		{"garbage", "the quick brown fox", ""},
		{"no address", `- - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, ""},
		{"virtual host first", `example.com:80 192.0.2.1 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, ""},
		{"bad address", `2001:db8::1::2 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, ""},
		{"no time", `192.0.2.1 - - "GET /a HTTP/1.1"` + tail, ""},
		{"no such day", `192.0.2.1 - - [31/Jun/2026:10:00:00 +0000] "GET /a HTTP/1.1"` + tail, ""},
		{"no request", head + `"-" 408 0 "-" "-"`, ""},
		{"no target", head + `"GET" 400 0 "-" "-"`, ""},
		{"absent target", head + `"GET - HTTP/1.1" 400 0`, ""},
		{"other protocol", head + `"\x16\x03\x01\x02 \x01" 400 0`, ""},
		{"request cut short", head + `"GET /a HT`, ""},
		{"request without quotes", head + `GET /a HTTP/1.1` + tail, ""},
		{"no status", head + `"GET /a HTTP/1.1"`, ""},
		{"absent status", head + `"GET /a HTTP/1.1" - 0`, ""},
		{"bad status", head + `"GET /a HTTP/1.1" 2oo 0`, ""},
		{"long status", head + `"GET /a HTTP/1.1" 2000 0`, ""},
		{"status at once", head + `"GET /a HTTP/1.1"200 0`, ""},
	})
}

func TestCommon(t *testing.T) {
	testLines(t, Common, []struct{ name, line, want string }{
		{"later fields are not read", `192.0.2.1 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 1 "r" "a"`, "remote_address=192.0.2.1|status=200|method=GET|path=/a"},
		{"JSON", `{"remote_addr":"192.0.2.1","ts":1777888800,"request":"GET /a HTTP/1.1","status":200}`, ""},
	})
}

func TestJSON(t *testing.T) {
	const get = "remote_address=192.0.2.1|status=200|method=GET|path=/a"
	testLines(t, JSON, []struct{ name, line, want string }{
		{
			"nginx", `{"time_local":"04/May/2026:10:00:00 +0000","remote_addr":"192.0.2.1","remote_user":"-","request":"GET /a?b HTTP/1.1",` +
				`"status":"200","body_bytes_sent":"12","http_referer":"http://example.com/","http_user_agent":"curl \"8\"","http_host":"example.com","request_time":"0.004"}`,
			get + `|referer=http://example.com/|user_agent=curl "8"|host=example.com`,
		},
		{
			"Caddy", `{"level":"info","ts":1777888800.1234567,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","remote_port":"41342",` +
				`"client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b=c","headers":{"User-Agent":["curl/8","x"],"Accept":[],"ip":["192.0.2.9"],` +
				`"Referer":["http://example.com/"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"ann","duration":0.000929675,"size":10900,"status":200,"resp_headers":{}}`,
			get + "|time=2026-05-04T10:00:00.123456Z|host=example.com|user=ann|user_agent=curl/8|referer=http://example.com/",
		},
		{
			"Envoy", `{"start_time":"2026-05-04T10:00:00.000Z","method":"GET","path":"/a?b","protocol":"HTTP/1.1","response_code":0,"authority":"example.com",` +
				`"user_agent":null,"downstream_remote_address":"192.0.2.1:4711","bytes_sent":1.5e3}`,
			get + "|status=0|host=example.com",
		},
		{"hosts", `{"ip":"192.0.2.1","time":1777888800,"request":"GET http://a.example.com/a HTTP/1.1","status":200,"host":"b.example.com"}`, get + "|host=b.example.com"},
		{"blanks", " { \"ip\" :\t\"192.0.2.1\" , \"timestamp\" : 1777888800 , \"request\" : \"GET /a HTTP/1.1\" , \"status\" : 200 } ", get},
		{"ranks", `{"ip":"192.0.2.9","remote_addr":"192.0.2.1","client_ip":"192.0.2.8","ts":0,"time":1777888800,"request":"PUT /b HTTP/1.1","method":"GET","uri":"/c","path":"/a","status":200}`, get},
		{"last of equals", `{"ip":"192.0.2.9","ip":"192.0.2.1","time":1777888800,"request":"GET /a HTTP/1.1","status":200}`, get},
		{"null says nothing", `{"remote_addr":null,"ip":"192.0.2.1","time":1777888800,"request":"GET /a HTTP/1.1","method":null,"status":200}`, get},
		{"escapes", `{"ip":"192.0.2.1","time":1777888800,"request":"GET \/a\u0041\u00e9\ud83d\ude00\ud800\n HTTP/1.1","status":200}`, "remote_address=192.0.2.1|status=200|method=GET|path=/aAé😀\ufffd\n"},
		{"IPv6 and port", `{"ip":"[2001:db8::1]:443","time":1777888800,"method":"GET","path":"/a","status":200}`, get + "|remote_address=2001:db8::1"},

		{"no address", `{"time":1777888800,"method":"GET","path":"/a","status":200}`, ""},
		{"no time", `{"ip":"192.0.2.1","method":"GET","path":"/a","status":200}`, ""},
		{"no target", `{"ip":"192.0.2.1","time":1777888800,"method":"GET","status":200}`, ""},
		{"no status", `{"ip":"192.0.2.1","time":1777888800,"method":"GET","path":"/a"}`, ""},
		{"status is no number", `{"ip":"192.0.2.1","time":1777888800,"method":"GET","path":"/a","status":{"code":200}}`, ""},
		{"cut short", `{"ip":"192.0.2.1","time":1777888800,"method":"GET","path":"/a","status":200,"user_ag`, ""},
		{"two objects", `{"ip":"192.0.2.1","time":1777888800,"method":"GET","path":"/a","status":200}{}`, ""},
		{"array", `[]`, ""},
		{"too deep", `{"a":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `,"ip":"192.0.2.1","time":1777888800,"method":"GET","path":"/a","status":200}`, ""},
		{"common", `192.0.2.1 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 1`, ""},
	})
}

func TestTimes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"17/May/2015:10:05:03 +0000", "2015-05-17T10:05:03Z"},
		{"17/May/2015:10:05:03 -0730", "2015-05-17T17:35:03Z"},
		{"29/Feb/2000:23:59:60 +0000", "2000-03-01T00:00:00Z"},
		{"17/May/2015:10:05:03", "2015-05-17T10:05:03Z"},
		{"17/May/2015:10:05:03.0000019 +0000", "2015-05-17T10:05:03.000001Z"},
		{"2015-05-17T10:05:03Z", "2015-05-17T10:05:03Z"},
		{"2015-05-17t10:05:03.12z", "2015-05-17T10:05:03.12Z"},
		{"2015-05-17 10:05:03,123", "2015-05-17T10:05:03.123Z"},
		{"2015/05/17 10:05:03.999999999 +02:00", "2015-05-17T08:05:03.999999Z"},
		{"1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"},
		{"1431857103", "2015-05-17T10:05:03Z"},
		{"1431857103.1234567", "2015-05-17T10:05:03.123456Z"},
		{"1431857103123", "2015-05-17T10:05:03.123Z"},
		{"1431857103123.4567", "2015-05-17T10:05:03.123456Z"},
		{"1431857103123456", "2015-05-17T10:05:03.123456Z"},
		{"1431857103123456789", "2015-05-17T10:05:03.123456Z"},
		{"1.431857103123456789e9", "2015-05-17T10:05:03.123456Z"},
		{"14318571031234e-4", "2015-05-17T10:05:03.1234Z"},
		{"10000000000", "2286-11-20T17:46:40Z"},
		{"99999999999", "5138-11-16T09:46:39Z"},
		{"100000000000", "1973-03-03T09:46:40Z"},
		{"99999999999999", "5138-11-16T09:46:39.999Z"},
		{"100000000000000", "1973-03-03T09:46:40Z"},
		{"99999999999999999", "5138-11-16T09:46:39.999999Z"},
		{"100000000000000000", "1973-03-03T09:46:40Z"},
		{"99999999999999999999", "5138-11-16T09:46:39.999999Z"},
		{"0", "1970-01-01T00:00:00Z"},
		{"0.5", "1970-01-01T00:00:00.5Z"},
		{"0.0000015", "1970-01-01T00:00:00.000001Z"},
		{"0000000000000000000000001", "1970-01-01T00:00:01Z"},
		{"9007199254.740993", "2255-06-05T23:47:34.740993Z"}, // as a float it would end in 2

		{"", ""},
		{"-", ""},
		{"-1", ""},
		{"1.", ""},
		{".5", ""},
		{"1.2.3", ""},
		{"1e", ""},
		{"1e+", ""},
		{"1e100", ""},
		{"1e30", ""},
		{"123456789012345678901", ""},
		{"0x10", ""},
		{"30/Feb/2015:10:05:03 +0000", ""},
		{"29/Feb/1900:10:05:03 +0000", ""},
		{"00/May/2015:10:05:03 +0000", ""},
		{"17/may/2015:10:05:03 +0000", "2015-05-17T10:05:03Z"},
		{"17/May/2015:24:00:00 +0000", ""},
		{"17/May/2015:10:60:00 +0000", ""},
		{"17/May/2015:10:05:61 +0000", ""},
		{"17/May/2015:10:05", ""},
		{"17/May/2015:10:05:03 +2400", ""},
		{"17/May/2015:10:05:03 +0060", ""},
		{"17/May/2015:10:05:03 CEST", ""},
		{"17/M", ""},
		{"2015-13-17T10:05:03Z", ""},
		{"2015-05-17T10:05:03.Z", ""},
		{"2015-05-17T10:05:03Z ", ""},
		{"2015-05-17", ""},
	} {
		at, ok := parseTime([]byte(c.text))
		got := ""
		if ok {
			got = at.Time().Format(time.RFC3339Nano)
		}
		if got != c.want {
			t.Errorf("parseTime(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFieldNames(t *testing.T) {
	for f := range Field(FieldCount) {
		if got, ok := FieldOf(f.String()); !ok || got != f {
			t.Errorf("FieldOf(%q) = %v, %v", f, got, ok)
		}
	}
	if f, ok := FieldOf("generic_key"); ok {
		t.Errorf("FieldOf(generic_key) = %v", f)
	}
	for _, name := range formatNames {
		if f, err := ParseFormat(name); err != nil || f.String() != name {
			t.Errorf("ParseFormat(%q) = %v, %v", name, f, err)
		}
	}
	if _, err := ParseFormat("w3c"); err == nil {
		t.Error("ParseFormat(w3c) is no error")
	}
}

// FuzzParse holds every format to: no panic, no value but from the line's own
// bytes or of the same length at most, and JSON that is JSON.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`192.0.2.1 - ann [04/May/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 12 "http://example.com/" "curl\x20\"8\""`,
		`[2001:db8::1]:80 - - [04/May/2026:10:00:00.5 -0330] "CONNECT example.com:443 HTTP/1.1" 0`,
		`{"ip":"192.0.2.1","time":1.431857103123e9,"request":"GET \/a\ud83d\ude00 HTTP/1.1","status":200,"x":[1,{"y":null}]}`,
		`{"ts":1777888800.5,"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/","headers":{"User-Agent":["x"]}},"status":"200"}`,
		`{"start_time":"2026-05-04T10:00:00,5+02:00","method":"GET","path":"http://example.com","response_code":0,"downstream_remote_address":"192.0.2.1:1"}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for format := range Format(len(formatNames)) {
			var l Line
			if l.Parse([]byte(line), format) != Whole {
				continue
			}
			for f, v := range offered(&l) {
				if f != "time" && f != "path" && len(v) > len(line) {
					t.Errorf("%v: %s is %q, longer than the line %q", format, f, v, line)
				}
			}
			for _, f := range []Field{RemoteAddress, Method, Status} {
				if len(l.Value(f)) == 0 {
					t.Errorf("%v: line %q counts without a %v", format, line, f)
				}
			}
			if format == JSON && !json.Valid([]byte(line)) {
				t.Errorf("accepted %q, which is no JSON", line)
			}
		}
		object := json.Valid([]byte(line)) && formatOf([]byte(line)) == JSON
		if ok := (&draft{in: new(scanner)}).gather([]byte(line), members); ok != object {
			t.Errorf("gather says %v of %q, encoding/json %v", ok, line, object)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct {
		name, line string
	}{
		{"combined", `203.0.113.17 - - [17/May/2015:10:05:03 +0000] "GET /presentations/logstash-monitorama-2013/images/kibana-search.png HTTP/1.1" 200 203023 "http://semicomplete.com/presentations/logstash-monitorama-2013/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`},
		{"json", `{"time":"2026-05-04T10:00:00+00:00","remote_addr":"192.0.2.1","request":"GET /a?b HTTP/1.1","status":200,"body_bytes_sent":12,"http_referer":"http://example.com/","http_user_agent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36","http_host":"example.com"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.line)))
			b.ReportAllocs()
			var l Line
			buf := make([]byte, len(c.line))
			for b.Loop() {
				copy(buf, c.line)
				if l.Parse(buf, Auto) != Whole {
					b.Fatal("unreadable")
				}
			}
		})
	}
}
