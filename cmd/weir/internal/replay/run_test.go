package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
)

// files writes files into a new folder, by name.
func files(t *testing.T, texts map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestRun(t *testing.T) {
	const rule = "domain: %s\ndescriptors: [{key: path, limits: [1/s]}]"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, line(0, "192.0.2.1", "GET / HTTP/1.1")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	logs := files(t, map[string]string{
		"log": line(0, "192.0.2.1", "GET / HTTP/1.1"), "log.gz": zipped.String(), "none": "a\nb\n", "empty": "",
		"broken.gz": zipped.String()[:30],
	})
	folder := files(t, map[string]string{"a.yaml": fmt.Sprintf(rule, "a"), "b.yaml": fmt.Sprintf(rule, "b")})
	for _, c := range []struct {
		name  string
		o     Options // the log is a name in logs
		want  string  // rules of the report
		input bool    // the input is at fault
		err   error
	}{
		{"all domains", Options{Rules: folder, Log: "log"}, "a/path 1, b/path 1", false, nil},
		{"one domain", Options{Rules: folder, Log: "log", Domain: "b"}, "b/path 1", false, nil},
		{"compressed", Options{Rules: folder, Log: "log.gz", Domain: "b"}, "b/path 1", false, nil},
		{"format given", Options{Rules: folder, Log: "log", Domain: "b", Format: accesslog.Common}, "b/path 1", false, nil},
		{"empty log", Options{Rules: folder, Log: "empty", Domain: "b"}, "b/path 0", false, nil},
		{"no such domain", Options{Rules: folder, Log: "log", Domain: "c"}, "", true, nil},
		{"no such log", Options{Rules: folder, Log: "nowhere"}, "", true, fs.ErrNotExist},
		{"a folder for a log", Options{Rules: folder, Log: "."}, "", true, nil},
		{"no such rules", Options{Rules: "nowhere", Log: "log"}, "", true, nil},
		{"rules at fault", Options{Rules: filepath.Join(logs, "log"), Log: "log"}, "", true, nil},
		{"no line is readable", Options{Rules: folder, Log: "none", Domain: "b"}, "b/path 0", true, nil},
		{"wrong format", Options{Rules: folder, Log: "log", Domain: "b", Format: accesslog.JSON}, "b/path 0", true, nil},
		{"damaged on the way", Options{Rules: folder, Log: "broken.gz"}, "", true, io.ErrUnexpectedEOF},
		{"no such rules to compare with", Options{Rules: folder, Against: "nowhere", Log: "log"}, "", true, nil},
		{"no such cost in the format", Options{Rules: folder, Log: "log", Format: accesslog.Combined, Cost: "tokens"}, "", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Log, c.o.JSON = filepath.Join(logs, c.o.Log), true
			var out bytes.Buffer
			err := Run(t.Context(), c.o, &out)
			_, input := errors.AsType[*accesslog.InputError](err)
			if input != c.input || c.err != nil && !errors.Is(err, c.err) || err != nil && !c.input && c.err == nil {
				t.Fatalf("error %v", err)
			}
			var got []string
			for l := range strings.Lines(out.String()) {
				if name, ok := strings.CutPrefix(l, `{"rule":"`); ok {
					name, asked, _ := strings.Cut(name, `","limit":"1/s","asked":`)
					got = append(got, name+" "+asked[:1])
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %s", s)
			}
		})
	}
}

func TestRunTellsProgress(t *testing.T) {
	info, err := os.Stat("../../../../examples/access.log")
	if err != nil {
		t.Fatal(err)
	}
	var done int64
	progress := func(now, total int64) {
		if now < done || total != info.Size() {
			t.Errorf("%d of %d after %d", now, total, done)
		}
		done = now
	}
	err = Run(t.Context(), Options{Rules: "../../../../examples/rules.yaml", Log: "../../../../examples/access.log", Progress: progress}, io.Discard)
	if err != nil || done != info.Size() {
		t.Errorf("%d of %d bytes done, %v", done, info.Size(), err)
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := Options{Rules: "../../../../examples/rules.yaml", Log: "../../../../examples/access.log"}
	if err := Run(ctx, o, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// Nor does it wait for a log that says nothing.
	silent, end := io.Pipe()
	defer end.Close()
	waiting, leave := context.WithTimeout(t.Context(), time.Millisecond)
	defer leave()
	if err := Run(waiting, Options{Rules: o.Rules, Log: "-", Stdin: silent}, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	full := errors.New("the disk is full")
	for _, o.JSON = range []bool{false, true} {
		if err := Run(t.Context(), o, failing{full}); !errors.Is(err, full) {
			t.Errorf("error %v", err)
		}
	}
}

func TestRunReadsStdin(t *testing.T) {
	plain := line(0, "192.0.2.1", "GET / HTTP/1.1") + line(0, "192.0.2.1", "GET / HTTP/1.1")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	folder := files(t, map[string]string{"rules.yaml": "domain: d\ndescriptors: [{key: path, limits: [1/s]}]"})
	for _, log := range []io.Reader{strings.NewReader(plain), &zipped} {
		var out bytes.Buffer
		o := Options{Rules: folder, Log: "-", Stdin: log, JSON: true}
		if err := Run(t.Context(), o, &out); err != nil || !strings.Contains(out.String(), `"asked":2,"allowed":1,"denied":1,`) {
			t.Errorf("%v, %s", err, out.String())
		}
	}
	o := Options{Rules: folder, Log: "-", Stdin: strings.NewReader("a\nb\n")}
	if err := Run(t.Context(), o, io.Discard); err == nil || err.Error() != "no line of stdin could be read in the format auto" {
		t.Errorf("error %v", err)
	}
}

// failing is a writer that fails.
type failing struct {
	err error
}

func (f failing) Write([]byte) (int, error) { return 0, f.err }
