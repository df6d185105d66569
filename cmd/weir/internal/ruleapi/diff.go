package ruleapi

import "github.com/rogpeppe/go-internal/diff"

// compare tells two texts apart line by line, in the unified form; empty: they
// are the same.
func compare(before, after string) string {
	return string(diff.Diff("before", []byte(before), "after", []byte(after)))
}
