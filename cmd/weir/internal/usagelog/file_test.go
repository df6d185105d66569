package usagelog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// kept is what the files of a folder have, in the order of their names.
func kept(t *testing.T, dir string) (text string, files int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "usage-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		part, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	return text, len(names)
}

func openFiles(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := OpenFiles(dir, "node one:7946")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestFiles: records are in files of a bounded size, which their owner alone may read.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "usage")
	f := openFiles(t, dir)
	f.most = 100
	var want strings.Builder
	for i := range 20 {
		line := fmt.Sprintf("%040d\n", i)
		if err := f.Append(t.Context(), Batch{Lines: []byte(line)}); err != nil {
			t.Fatal(err)
		}
		want.WriteString(line)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, files := kept(t, dir)
	if got != want.String() || files != 10 {
		t.Errorf("%d files with %q", files, got)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(name, "usage-node_one_7946-") {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if len(names) != files {
		t.Errorf("there is more in the folder: %q", names)
	}
}

// TestMoved: a batch for a file that was taken away while it was written comes again, in another.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir)
	batch := Batch{Lines: []byte("one\n")}
	if err := f.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.file.Name(), filepath.Join(dir, "taken")); err != nil {
		t.Fatal(err)
	}
	batch.Lines = []byte("two\n")
	if err := f.Append(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "was moved or removed") {
		t.Errorf("the file is gone: %v", err)
	}
	if err := f.Append(t.Context(), batch); err != nil {
		t.Error(err)
	}
	if got, _ := kept(t, dir); got != "two\n" {
		t.Errorf("%q", got)
	}
}

// TestFullDisk: what does not fit is no record, and when there is room again all is there once.
func TestFullDisk(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	full := before
	full.Cur = 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }()
	dir := t.TempDir()
	f := openFiles(t, dir)
	for i, want := range []error{nil, syscall.EFBIG, syscall.EFBIG} {
		if err := f.Append(t.Context(), Batch{Lines: []byte("six 67\n")}); !errors.Is(err, want) {
			t.Fatalf("batch %d: %v, want %v", i, err, want)
		}
	}
	if got, _ := kept(t, dir); got != "six 67\n" {
		t.Errorf("half a batch is left: %q", got)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(t.Context(), Batch{Lines: []byte("again\n")}); err != nil {
		t.Fatal(err)
	}
	if got, _ := kept(t, dir); got != "six 67\nagain\n" {
		t.Errorf("%q", got)
	}
}

// TestNoFolder: a folder that can't be written to is refused at the start.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "deeper"), "/proc/usage"} {
		if _, err := OpenFiles(dir, "n"); err == nil {
			t.Errorf("%s was opened", dir)
		}
	}
}
