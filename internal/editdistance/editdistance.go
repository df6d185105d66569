// Package editdistance tells how far two words are apart, to say which one somebody
// may have meant.
package editdistance

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
