package rules

import (
	"fmt"
	"strings"
	"unicode"
)

// didYouMean tells what to write instead of word: the closest of the known
// words, or all of them when none is close.
func didYouMean(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "write one of " + strings.Join(known, ", ")
}

// maxSlip is how many bytes a word may have of which slips are looked for.
const maxSlip = 256

// nearest is the known word that is closest to word, if one is close.
func nearest(word string, known []string) (near string, ok bool) {
	if len(word) > maxSlip {
		return "", false
	}
	least := 3 // more than two slips are no slip
	wrote := letters(word)
	for _, k := range known {
		if d := distance(wrote, letters(k), least); d < least {
			near, least = k, d
		}
	}
	return near, near != "" && least < len(near)
}

// letters leaves out what people write differently: case, and - or _.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_- ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, word)
}

// distance is how many letters must be put in, taken out or changed to make b
// of a; when that is limit or more, it is limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
