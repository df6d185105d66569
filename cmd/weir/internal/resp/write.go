package resp

import (
	"bufio"
	"strconv"
)

// writer writes answers in the version of the protocol that the client has chosen.
type writer struct {
	out    *bufio.Writer // keeps its first error until it is flushed
	proto  int           // 2 or 3
	failed bool          // the command was answered with an error
}

// head is the beginning of an answer that has a number: an integer, or how much
// follows.
func (w *writer) head(kind byte, n int64) {
	b := append(w.out.AvailableBuffer(), kind)
	b = strconv.AppendInt(b, n, 10)
	w.out.Write(append(b, '\r', '\n'))
}

func (w *writer) integer(n int64) { w.head(':', n) }

func (w *writer) array(n int) { w.head('*', int64(n)) }

// set is an array of different things. RESP2 knows no sets.
func (w *writer) set(n int) {
	if w.proto == 2 {
		w.array(n)
		return
	}
	w.head('~', int64(n))
}

// pairs is a map. In RESP2 it is an array of keys and values by turns.
func (w *writer) pairs(n int) {
	if w.proto == 2 {
		w.array(2 * n)
		return
	}
	w.head('%', int64(n))
}

func (w *writer) null() {
	if w.proto == 2 {
		w.out.WriteString("$-1\r\n")
		return
	}
	w.out.WriteString("_\r\n")
}

// nullArray is null where RESP2 wants an array.
func (w *writer) nullArray() {
	if w.proto == 2 {
		w.out.WriteString("*-1\r\n")
		return
	}
	w.null()
}

func (w *writer) bulk(text string) {
	w.head('$', int64(len(text)))
	w.out.WriteString(text)
	w.out.WriteString("\r\n")
}

func (w *writer) bulks(texts ...string) {
	for _, text := range texts {
		w.bulk(text)
	}
}

// text is a bulk that is for people, which RESP3 can say.
func (w *writer) text(text string) {
	if w.proto == 2 {
		w.bulk(text)
		return
	}
	w.head('=', int64(len("txt:")+len(text)))
	w.out.WriteString("txt:")
	w.out.WriteString(text)
	w.out.WriteString("\r\n")
}

// simple is a word without line ends.
func (w *writer) simple(word string) {
	w.out.WriteByte('+')
	w.out.WriteString(word)
	w.out.WriteString("\r\n")
}

// fail answers with an error, whose first word is its kind.
func (w *writer) fail(text string) {
	w.failed = true
	w.out.WriteByte('-')
	for i := range len(text) {
		b := max(text[i],
			// a line end would end the answer
			' ')
		w.out.WriteByte(b)
	}
	w.out.WriteString("\r\n")
}
