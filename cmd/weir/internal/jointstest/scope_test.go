package jointstest

import (
	"os"
	"testing"
)

// scope is a test that ends with a story: what is started for it ends then, and not with
// the test, which plays thousands.
type scope struct {
	testing.TB

	cleanups []func()
}

// Cleanup keeps f for the end of the story.
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// TempDir is a folder that is gone after the story.
func (s *scope) TempDir() string {
	s.Helper()
	dir, err := os.MkdirTemp("", "joints")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left is temporary
	return dir
}

func (s *scope) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}
