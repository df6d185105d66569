package webui

import (
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
)

// diffLine is a line of a difference between two texts.
type diffLine struct{ Class, Text string }

// compare tells two texts apart, line by line; none: they are the same.
func compare(before, after string) (lines []diffLine) {
	text := changes.Compare(before, after)
	class := map[byte]string{'+': "added", '-': "gone", ' ': "same", '@': "place"}
	_, text, _ = strings.Cut(text, "+++ after\n")
	for line := range strings.Lines(text) {
		lines = append(lines, diffLine{class[line[0]], plain(strings.TrimSuffix(line, "\n"))})
	}
	return lines
}
