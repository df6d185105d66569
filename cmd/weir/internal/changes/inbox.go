package changes

import (
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// Inbox is that of the store, with how many lines of a rule each thing would change.
func Inbox(ctx context.Context, s *rulestore.Store, by rulestore.Actor) (rulestore.Inbox, error) {
	in, err := s.Inbox(ctx, by)
	for _, list := range [][]rulestore.Waiting{in.ForMe, in.ForOthers} {
		for i := range list {
			w := &list[i]
			w.Added, w.Removed = changedLines(w.Before, w.After)
		}
	}
	return in, err
}

// Compare tells two texts apart line by line, in the unified form, from "before" to "after"; empty: they are the same.
func Compare(before, after string) string {
	return string(diff.Diff("before", []byte(before), "after", []byte(after)))
}

// changedLines is how many lines come and go between two texts.
func changedLines(before, after string) (added, removed int64) {
	_, lines, _ := strings.Cut(Compare(before, after), "\n+++ after\n")
	for line := range strings.Lines(lines) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}
