package rules

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir/internal/editdistance"
)

// didYouMean tells what to write instead of word: the closest of the known
// words, or all of them when none is close. It ends a message:
//
//	fallback "opne": did you mean open?
//	fallback "never": write one of local, open, closed
func didYouMean(word string, known []string) string {
	if near, ok := editdistance.Nearest(word, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "write one of " + strings.Join(known, ", ")
}

// orDidYouMean is a question for the closest of the known words, to follow a sentence; empty
// when none is close.
func orDidYouMean(word string, known []string) string {
	if near, ok := editdistance.Nearest(word, known); ok {
		return "; did you mean " + near + "?"
	}
	return ""
}
