package plot

import (
	"slices"
	"strings"
)

// width is how wide s is at most, in a font of this size. Fonts differ, so it is
// the width in a broad one.
func width(s string, font px) px {
	var w px
	for _, r := range s {
		w += advance(r)
	}
	return w * font / 100
}

// advance is how wide a letter is, in hundredths of the font's size.
func advance(r rune) px {
	switch {
	case strings.ContainsRune("ijlI|!'.,:; ", r):
		return 33
	case strings.ContainsRune("ftr()[]{}/-", r):
		return 41
	case strings.ContainsRune("mwMW%@—…→", r):
		return 99
	case r >= 'A' && r <= 'Z', r == '+', r == '=', r == '<', r == '>', r == '×', r == '−', r == '≤', r == '≥':
		return 80
	case r >= 0x1100: // the wide scripts begin here
		return 105
	}
	return 65
}

// wrap breaks s into lines no wider than width: at spaces, else after a hyphen,
// else anywhere. It leaves out all beyond so many lines, and "…" says so.
func wrap(s string, most, font px, lines int) []string {
	return breakLines(s, lines, func(line string) bool { return width(line, font) <= most })
}

// wrapColumns is wrap for a font whose letters are equally wide.
func wrapColumns(s string, columns, lines int) []string {
	return breakLines(s, lines, func(line string) bool { return len([]rune(line)) <= columns })
}

func breakLines(s string, lines int, fits func(string) bool) []string {
	var out []string
	rest := []rune(strings.Join(strings.Fields(s), " "))
	for len(rest) > 0 {
		if len(out) == lines {
			last := []rune(out[lines-1])
			for len(last) > 0 && !fits(string(last)+"…") {
				last = last[:len(last)-1]
			}
			out[lines-1] = string(last) + "…"
			break
		}
		n := 1
		for n < len(rest) && fits(string(rest[:n+1])) {
			n++
		}
		n = lineBreak(rest, n)
		out = append(out, strings.TrimSpace(string(rest[:n])))
		rest = []rune(strings.TrimLeft(string(rest[n:]), " "))
	}
	return out
}

// lineBreak is where to break a text of which n letters fit.
func lineBreak(s []rune, n int) int {
	if n == len(s) || s[n] == ' ' {
		return n
	}
	for _, at := range []rune{' ', '-'} {
		for i, r := range slices.Backward(s[:n]) {
			if r == at && i > 0 {
				return i + 1
			}
		}
	}
	return n
}

// cut shortens s to a width, by "…".
func cut(s string, most, font px) string {
	return strings.Join(wrap(s, most, font, 1), "")
}
