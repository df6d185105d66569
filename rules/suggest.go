package rules

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/weir-limit/weir/internal/editdistance"
)

// didYouMean tells what to write instead of word: the closest of the known
// words, or all of them when none is close. It ends a message:
//
//	fallback "opne": did you mean open?
//	fallback "never": write one of local, open, closed
func didYouMean(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "write one of " + strings.Join(known, ", ")
}

// orDidYouMean is a question for the closest of the known words, to follow a sentence; empty
// when none is close.
func orDidYouMean(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return "; did you mean " + near + "?"
	}
	return ""
}

// maxSlip is how many bytes a word may have of which slips are looked for: the work of comparing two
// words is the product of their lengths, and words of requests come from clients.
const maxSlip = 256

// far is how many slips make two words different ones: more than two are no slip.
const far = 3

// nearest is the known word that is closest to word, if one is close: at most two letters are
// different, missing or too many, and the known word is longer than that. Else every word of
// two letters would be close to every other.
func nearest(word string, known []string) (near string, ok bool) {
	if len(word) > maxSlip {
		return "", false
	}
	least := far
	wrote := letters(word)
	for _, k := range known {
		if d := editdistance.Between(wrote, letters(k), least); d < least {
			near, least = k, d
		}
	}
	return near, near != "" && least < len(near)
}

// letters leaves out what people write differently: case, and - or _. So share-threshold is as near to
// share_threshold as can be.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_- ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, word)
}
