// Package editdistance tells how far two words are apart, to say which one somebody
// may have meant.
package editdistance

import "strings"

// Far is how many slips make two words different ones: more than two are no slip.
const Far = 3

// maxSlip is how many bytes a word may have of which slips are looked for: the work of comparing two
// words is the product of their lengths, and words of requests come from clients.
const maxSlip = 256

// Nearest is the known word that is closest to word, if one is close: at most two letters are
// different, missing or too many, and the known word is longer than that. Else every word of
// two letters would be close to every other. Of those that are as close it is the first.
func Nearest(word string, known []string) (near string, ok bool) {
	least := Far
	for _, k := range known {
		if d := Slips(word, k); d < least {
			near, least = k, d
		}
	}
	return near, near != "" && least < len(near)
}

// Slips is how far two words are apart, at most Far. People write case, and - or _, differently: so
// share-threshold is as near to share_threshold as can be.
func Slips(a, b string) int {
	if len(a) > maxSlip || len(b) > maxSlip {
		return Far
	}
	return Between(letters(a), letters(b), Far)
}

// letters leaves out what people write differently.
func letters(word string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_- ", r) {
			return -1
		}
		return r
	}, word))
}

// Between is how many bytes must be put in, taken out or changed to make b of a
// (Levenshtein's distance); when that is limit or more, it is limit. It takes time in
// proportion to the length of a times that of b.
func Between(a, b string, limit int) int {
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
