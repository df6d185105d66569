package resp

import "strconv"

// Answers are made in the buffer of the connection, which keeps its first error
// until it is flushed.

// head is the beginning of an answer that has a number: an integer, or how much
// follows.
func (c *conn) head(kind byte, n int64) {
	b := append(c.out.AvailableBuffer(), kind)
	b = strconv.AppendInt(b, n, 10)
	c.out.Write(append(b, '\r', '\n'))
}

func (c *conn) integer(n int64) { c.head(':', n) }

func (c *conn) array(n int) { c.head('*', int64(n)) }

// set is an array of different things. RESP2 knows no sets.
func (c *conn) set(n int) {
	if c.proto == 2 {
		c.array(n)
		return
	}
	c.head('~', int64(n))
}

// pairs is a map. In RESP2 it is an array of keys and values by turns.
func (c *conn) pairs(n int) {
	if c.proto == 2 {
		c.array(2 * n)
		return
	}
	c.head('%', int64(n))
}

func (c *conn) null() {
	if c.proto == 2 {
		c.out.WriteString("$-1\r\n")
		return
	}
	c.out.WriteString("_\r\n")
}

// nullArray is null where RESP2 wants an array.
func (c *conn) nullArray() {
	if c.proto == 2 {
		c.out.WriteString("*-1\r\n")
		return
	}
	c.null()
}

func (c *conn) bulk(text string) {
	c.head('$', int64(len(text)))
	c.out.WriteString(text)
	c.out.WriteString("\r\n")
}

func (c *conn) bulks(texts ...string) {
	for _, text := range texts {
		c.bulk(text)
	}
}

// text is a bulk that is for people, which RESP3 can say.
func (c *conn) text(text string) {
	if c.proto == 2 {
		c.bulk(text)
		return
	}
	c.head('=', int64(len("txt:")+len(text)))
	c.out.WriteString("txt:")
	c.out.WriteString(text)
	c.out.WriteString("\r\n")
}

// simple is a word without line ends.
func (c *conn) simple(word string) {
	c.out.WriteByte('+')
	c.out.WriteString(word)
	c.out.WriteString("\r\n")
}

// fail answers with an error, whose first word is its kind.
func (c *conn) fail(text string) {
	c.failed = true
	c.out.WriteByte('-')
	for i := range len(text) {
		b := max(text[i],
			// a line end would end the answer
			' ')
		c.out.WriteByte(b)
	}
	c.out.WriteString("\r\n")
}
