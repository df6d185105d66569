package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	plain = `192.0.2.1 - - [04/May/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 1 "-" "curl"`
	other = `{"ip":"192.0.2.2","time":1777888800,"request":"GET /a HTTP/1.1","status":200}`
)

// readAll lists the addresses of a log's lines and counts the skipped ones.
func readAll(r *Reader) (addresses []string, skipped int64, err error) {
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return addresses, r.Skipped, nil
		}
		if err != nil {
			return addresses, r.Skipped, err
		}
		addresses = append(addresses, string(l.Value(RemoteAddress)))
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	longLine := strings.Replace(plain, "curl", long, 1)
	justFits := strings.Replace(plain, "curl", long[len(plain)-len("curl")+1:], 1)
	one, two := []string{"192.0.2.1"}, []string{"192.0.2.2"}
	for _, c := range []struct {
		name, log string
		format    Format
		want      []string
		skipped   int64
	}{
		{"empty", "", Auto, nil, 0},
		{"one line", plain + "\n", Auto, one, 0},
		{"no end of line", plain, Auto, one, 0},
		{"byte order mark, returns", "\ufeff" + plain + "\r\n" + other + "\r\n", Auto, one, 1},
		{"empty lines are skipped", "\n" + plain + "\n\n", Auto, one, 2},
		{"the first readable line says the format", "#\n" + other + "\n" + plain + "\n{}\n", Auto, two, 3},
		{"the other way round", "{}\n" + plain + "\n" + other + "\n", Auto, one, 2},
		{"format given", plain + "\n" + other, JSON, two, 1},
		{"longest line", justFits + "\n" + plain, Auto, slices.Repeat(one, 2), 0},
		{"too long a line", plain + "\n" + longLine + "\n" + plain + "\n", Auto, slices.Repeat(one, 2), 1},
		{"too long a line first", longLine + "\n" + plain + "\n", Auto, one, 1},
		{"too long a line last", plain + "\n" + longLine, Auto, one, 1},
		{"very long line", plain + "\n" + long + long + long + "\n" + plain, Auto, slices.Repeat(one, 2), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, log := range []io.Reader{strings.NewReader(c.log), zipped(t, c.log), zstandard(t, c.log), iotest.HalfReader(strings.NewReader(c.log))} {
				got, skipped, err := readAll(NewReader(log, c.format, ""))
				if err != nil || skipped != c.skipped || !slices.Equal(got, c.want) {
					t.Errorf("%T: got %v, %d skipped, %v; want %v, %d", log, got, skipped, err, c.want, c.skipped)
				}
			}
		})
	}
}

func zipped(t *testing.T, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func zstandard(t *testing.T, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestReaderNamesDamage(t *testing.T) {
	log := "\n" + plain + "\n#\n192.0.2.1 - - [x] \"GET / HTTP/1.1\" 200 1\n" + plain[:strings.Index(plain, " 200")] + "\n" +
		strings.Repeat("x", MaxLine+1) + "\n" + other + "\n" + plain + "\n"
	r := NewReader(strings.NewReader(log), Auto, "")
	if _, _, err := readAll(r); err != nil {
		t.Fatal(err)
	}
	want := []Damaged{{1, Empty}, {3, NoAddress}, {4, NoTime}, {5, NoStatus}, {6, TooLong}}
	if diff := cmp.Diff(want, r.Damaged); diff != "" || r.Skipped != 6 {
		t.Errorf("%d skipped, (-want +got):\n%s", r.Skipped, diff)
	}
}

// endless is text that comes again and again.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestReaderGivesUpWhatIsNoLog(t *testing.T) {
	if testing.Short() {
		t.Skip("reads some hundred megabytes")
	}
	bomb := func(compress func(io.Writer) io.WriteCloser) io.Reader {
		var b bytes.Buffer
		z := compress(&b)
		if _, err := io.CopyN(z, endless(strings.Repeat("\x00", 1<<16)), MaxBarren+10*MaxLine); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	for _, c := range []struct {
		name string
		log  io.Reader
	}{
		{"endless line", endless(strings.Repeat("x", 1<<16))},
		{"endless damage", io.MultiReader(strings.NewReader(plain+"\n"), endless(strings.Repeat("no line of a log\n", 1<<12)))},
		{"bomb of gzip", bomb(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })},
		{"bomb of zstd", bomb(func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		})},
	} {
		_, _, err := readAll(NewReader(c.log, Auto, ""))
		if _, input := errors.AsType[*InputError](err); !input || !strings.Contains(err.Error(), "256 MiB") {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

func TestCosts(t *testing.T) {
	const object = `{"ip":"192.0.2.2","time":1777888800,"request":"GET /a HTTP/1.1","status":200,"headers":{"tokens":"9"},`
	for _, c := range []struct {
		name, line, field string
		want              int64 // −1: none
	}{
		{"bytes", plain, "bytes", 1},
		{"no body", strings.Replace(plain, " 1 ", " - ", 1), "bytes", 0},
		{"no bytes", strings.TrimSuffix(plain, ` 1 "-" "curl"`), "bytes", -1},
		{"most", strings.Replace(plain, " 1 ", " 1073741824 ", 1), "bytes", 1 << 30},
		{"too much", strings.Replace(plain, " 1 ", " 1073741825 ", 1), "bytes", -1},
		{"far too much", strings.Replace(plain, " 1 ", " 99999999999999999999999 ", 1), "bytes", -1},
		{"below nothing", strings.Replace(plain, " 1 ", " -1 ", 1), "bytes", -1},
		{"no other field", plain, "tokens", -1},
		{"number", object + `"tokens":12}`, "tokens", 12},
		{"text", object + `"tokens":"12"}`, "tokens", 12},
		{"fraction", object + `"tokens":1.5}`, "tokens", -1},
		{"null", object + `"tokens":null}`, "tokens", -1},
		{"of the client", object + `"x":1}`, "tokens", -1},
		{"bytes by another name", object + `"body_bytes_sent":7}`, "bytes", 7},
	} {
		l, err := NewReader(strings.NewReader(c.line), Auto, c.field).Next()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, ok := l.Cost()
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestReaderFails(t *testing.T) {
	whole, err := io.ReadAll(zipped(t, plain+"\n"+plain+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := io.ReadAll(zstandard(t, plain+"\n"+plain+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("the disk is on fire")
	for _, c := range []struct {
		name string
		log  io.Reader
		want error
	}{
		{"compressed, cut short", bytes.NewReader(whole[:len(whole)-9]), io.ErrUnexpectedEOF},
		{"compressed by zstd, cut short", bytes.NewReader(frame[:len(frame)-9]), io.ErrUnexpectedEOF},
		{"compressed by zstd, damaged", bytes.NewReader(append(frame[:len(frame)-4:len(frame)-4], 0, 0, 0, 0)), zstd.ErrCRCMismatch},
		{"read error in what is compressed", io.MultiReader(bytes.NewReader(whole[:len(whole)-9]), iotest.ErrReader(bad)), bad},
		{"compressed, damaged", strings.NewReader("\x1f\x8bnot compressed at all"), gzip.ErrHeader},
		{"read error", io.MultiReader(strings.NewReader(plain+"\n"), iotest.ErrReader(bad)), bad},
		{"read error in a long line", io.MultiReader(strings.NewReader(strings.Repeat("x", 2*MaxLine)), iotest.ErrReader(bad)), bad},
		{"read error at once", iotest.ErrReader(bad), bad},
	} {
		if _, _, err := readAll(NewReader(c.log, Auto, "")); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReaderKeepsLines(t *testing.T) {
	r := NewReader(strings.NewReader(plain+"\n"+plain+"\n"), Auto, "")
	l, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	want := want("remote_address=192.0.2.1|status=200|method=GET|path=/a|user_agent=curl")
	if diff := cmp.Diff(want, offered(l)); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkReader(b *testing.B) {
	var log bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&log, `203.0.113.%d - - [17/May/2015:10:%02d:%02d +0000] "GET /presentations/%d/images/kibana-search.png HTTP/1.1" 200 %d `+
			`"http://example.com/presentations/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`+"\n",
			i%250, i/200%60, i%60, i%70, i)
	}
	b.SetBytes(int64(log.Len()) / 10_000)
	b.ReportAllocs()
	lines := 0
	var r *Reader
	for b.Loop() {
		if lines%10_000 == 0 {
			r = NewReader(bytes.NewReader(log.Bytes()), Auto, "")
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
		lines++
	}
}
