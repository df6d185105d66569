package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "counts")
	says := func(text string, then error) func(io.Writer) error {
		return func(to io.Writer) error {
			_, err := io.WriteString(to, text)
			return errors.Join(err, then)
		}
	}
	if err := Write(file, says("old", nil)); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	if err := Write(file, says("ne", full)); !errors.Is(err, full) {
		t.Error("half a file:", err)
	}
	if text, err := os.ReadFile(file); string(text) != "old" {
		t.Errorf("after half a file: %q, %v", text, err)
	}
	if err := Write(file, says("new", nil)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := os.Mkdir(filepath.Join(folder, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(folder, "taken"), says("new", nil)); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(folder); len(left) != 2 {
		t.Error(left, err)
	}
}

func TestRemoveAbandoned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	old := time.Now().Add(-2 * abandoned)
	for _, name := range []string{file + ".tmp-1", file + ".tmp-2", file + "2.tmp-1"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != file+".tmp-2" { // which is being written
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	RemoveAbandoned(file)
	left, err := filepath.Glob(file + "*")
	if err != nil || len(left) != 2 || left[0] != file+".tmp-2" || left[1] != file+"2.tmp-1" {
		t.Error(left, err)
	}
}
