package main

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// topKey is what was pressed: a character, or the name of a key.
type topKey string

// The keys that are no characters.
const (
	keyUp        topKey = "up"
	keyDown      topKey = "down"
	keyPageUp    topKey = "page up"
	keyPageDown  topKey = "page down"
	keyHome      topKey = "home"
	keyEnd       topKey = "end"
	keyEnter     topKey = "enter"
	keyEscape    topKey = "escape"
	keyBackspace topKey = "backspace"
	keyClear     topKey = "^U"
	keyQuit      topKey = "^C"
)

// topHelp is what keys do, for people.
var topHelp = [][2]string{
	{"q  ^C", "quit"},
	{"space", "pause, and go on"},
	{"s", "sort by the next column: denied lately, denied each second, passed each second, name"},
	{"/", "show only what has a text in its rule, limit or client; enter keeps it, escape drops it"},
	{"↑ ↓  k j", "choose a rule; page up, page down, home and end go further"},
	{"enter", "show only the chosen rule, with all clients that the daemon knows; escape goes back"},
	{"c", "leave out the clients, and show them again"},
	{"?  h", "this help"},
}

// sequences are what terminals send for keys that are no characters (ECMA-48, and xterm).
var sequences = map[string]topKey{
	"\x1b[A": keyUp, "\x1bOA": keyUp, "\x1b[B": keyDown, "\x1bOB": keyDown,
	"\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown,
	"\x1b[H": keyHome, "\x1bOH": keyHome, "\x1b[1~": keyHome, "\x1b[F": keyEnd, "\x1bOF": keyEnd, "\x1b[4~": keyEnd,
	"\r": keyEnter, "\n": keyEnter, "\x7f": keyBackspace, "\b": keyBackspace, "\x15": keyClear, "\x03": keyQuit, "\x04": keyQuit,
}

// keysOf are the keys of what a terminal has sent at once. Others are left out.
func keysOf(sent []byte) []topKey {
	var keys []topKey
	for len(sent) > 0 {
		n := sequenceLength(sent)
		text := string(sent[:n])
		sent = sent[n:]
		r, _ := utf8.DecodeRuneInString(text)
		switch key, known := sequences[text]; {
		case known:
			keys = append(keys, key)
		case text == "\x1b":
			keys = append(keys, keyEscape)
		case unicode.IsPrint(r) && r != utf8.RuneError:
			keys = append(keys, topKey(text))
		}
	}
	return keys
}

// sequenceLength is how many bytes stand for the first key.
func sequenceLength(sent []byte) int {
	if sent[0] != '\x1b' || len(sent) == 1 {
		_, n := utf8.DecodeRune(sent)
		return n
	}
	switch sent[1] {
	case 'O':
		return min(3, len(sent))
	case '[':
		for i := 2; i < len(sent); i++ {
			if sent[i] >= '@' && sent[i] <= '~' {
				return i + 1
			}
		}
		return len(sent)
	}
	return 1
}

// readKeys sends what is pressed, until the terminal is gone, or done is closed.
func readKeys(from io.Reader, done <-chan struct{}) <-chan topKey {
	keys := make(chan topKey)
	go func() {
		defer close(keys)
		sent := make([]byte, 256)
		for {
			n, err := from.Read(sent)
			for _, key := range keysOf(sent[:n]) {
				select {
				case keys <- key:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// maxFilter is how many bytes the text of a filter may have. More are not taken.
const maxFilter = 64

// press does what a key says. quit is whether that was the last one; asks is whether the daemon is to be asked anew.
func (v *topView) press(key topKey) (quit, asks bool) {
	switch {
	case key == keyQuit:
		return true, false
	case v.typing:
		v.edit(key)
		return false, false
	case v.helping:
		v.helping = false
		return key == "q", false
	}
	rules := v.shown()
	switch key {
	case "q":
		return true, false
	case " ":
		v.paused = !v.paused
		return false, !v.paused
	case "s":
		v.sort = (v.sort + 1) % topSort(len(topSorts))
		v.chosen = 0
	case "/":
		v.typing = true
	case "?", "h":
		v.helping = true
	case "c":
		v.clientless = !v.clientless
	case keyEnter:
		if v.only == (topRule{}) && v.chosen < len(rules) {
			v.only = topRule{rules[v.chosen].Domain, rules[v.chosen].Rule}
			return false, true
		}
	case keyEscape:
		v.filter, v.chosen = "", 0
		if v.only != (topRule{}) {
			v.only = topRule{}
			return false, true
		}
	default:
		v.choose(key, len(rules))
	}
	return false, false
}

// edit is press while the text of a filter is typed.
func (v *topView) edit(key topKey) {
	v.chosen = 0
	switch key {
	case keyEnter:
		v.typing = false
	case keyEscape:
		v.typing, v.filter = false, ""
	case keyClear:
		v.filter = ""
	case keyBackspace:
		_, n := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-n]
	case keyUp, keyDown, keyPageUp, keyPageDown, keyHome, keyEnd:
	default:
		if len(v.filter)+len(key) <= maxFilter {
			v.filter += string(key)
		}
	}
}

// topPage is how many rules page up and page down go.
const topPage = 10

// choose chooses another one of so many rules.
func (v *topView) choose(key topKey, rules int) {
	switch key {
	case keyUp, "k":
		v.chosen--
	case keyDown, "j":
		v.chosen++
	case keyPageUp:
		v.chosen -= topPage
	case keyPageDown:
		v.chosen += topPage
	case keyHome:
		v.chosen = 0
	case keyEnd:
		v.chosen = rules
	default: // other keys choose none
	}
	v.chosen = max(min(v.chosen, rules-1), 0)
}

// fits is whether a text has the filter's in it, whatever the case.
func (v *topView) fits(text string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(v.filter))
}
