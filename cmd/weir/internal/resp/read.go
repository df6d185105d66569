package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"time"
)

// protocolError says that bytes are no command. Where one ends is then not
// known, so the connection is closed.
type protocolError struct {
	text  string
	bound Bound // that was reached; "" for none
}

func (e *protocolError) Error() string { return e.text }

// read reads the words of the next command. They are good until the next read; they stand in the buffer of what was
// read, or one after the other in room.
// An empty line and an empty array have none.
func (c *conn) read() error {
	if cap(c.room) > keptBuffer {
		c.room = nil
	}
	c.room, c.ends, c.words = c.room[:0], c.ends[:0], c.words[:0]
	c.inside = false
	if c.readHere() {
		return nil
	}
	first, err := c.in.ReadByte()
	if err != nil {
		return err
	}
	c.inside, c.begun = true, time.Time{}
	if first == '*' {
		err = c.readArray()
	} else if err = c.in.UnreadByte(); err == nil {
		err = c.readLine()
	}
	c.release()
	from := 0
	for _, end := range c.ends {
		c.words = append(c.words, c.room[from:end:end])
		from = end
	}
	return err
}

// readHere reads a command where it stands in the buffer, as an array of few words that has come as a whole, as clients
// send them. It takes nothing else, and then nothing at all.
func (c *conn) readHere() bool {
	b, err := c.in.Peek(c.in.Buffered())
	if err != nil || len(b) < 4 || b[0] != '*' || b[1] < '1' || b[1] > '9' || b[2] != '\r' || b[3] != '\n' {
		return false
	}
	at := 4
	for range b[1] - '0' {
		n, size := bulkHere(b[at:])
		if size == 0 {
			c.words = c.words[:0]
			return false
		}
		end := at + size - len("\r\n")
		c.words = append(c.words, b[end-n:end:end])
		at += size
	}
	_, err = c.in.Discard(at)
	return err == nil
}

// bulkHere is how long the word at the beginning of b is, and what stands for it; 0 if that is not there as a whole, or
// is a long word, or none.
func bulkHere(b []byte) (n, size int) {
	if len(b) == 0 || b[0] != '$' {
		return 0, 0
	}
	at := 1
	for ; at < len(b) && at < 4 && b[at] >= '0' && b[at] <= '9'; at++ {
		n = n*10 + int(b[at]-'0')
	}
	size = at + 2 + n + 2
	if at == 1 || at > 2 && b[1] == '0' || size > len(b) || b[at] != '\r' || b[at+1] != '\n' || b[size-2] != '\r' || b[size-1] != '\n' {
		return 0, 0
	}
	return n, size
}

// line reads to the end of a line, which it takes off.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, &protocolError{fmt.Sprintf("a line is over %d bytes", readBuffer), BoundLine}
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readArray reads an array of words after its first byte.
func (c *conn) readArray() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if less, ok := bytes.CutPrefix(line, []byte("-")); ok {
		if n, ok := length(less); ok && n > 0 {
			return nil // a null array has no words, and Redis waits for the next command
		}
	}
	n, ok := length(line)
	switch {
	case !ok:
		return &protocolError{text: "invalid multibulk length"}
	case c.stranger && n > strangerWords:
		return &protocolError{"unauthenticated multibulk length", BoundWords}
	case n > maxWords:
		return &protocolError{fmt.Sprintf("invalid multibulk length: a command may have %d words", maxWords), BoundWords}
	}
	for range n {
		if err := c.readBulk(); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) readBulk() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if len(line) == 0 {
		return &protocolError{text: "expected '$', got an empty line"}
	}
	if line[0] != '$' {
		return &protocolError{text: fmt.Sprintf("expected '$', got %q", line[0])}
	}
	n, ok := length(line[1:])
	switch {
	case !ok:
		return &protocolError{text: "invalid bulk length"}
	case c.stranger && n > strangerBulk:
		return &protocolError{"unauthenticated bulk length", BoundBulk}
	case n > maxBulk:
		return &protocolError{fmt.Sprintf("invalid bulk length: a word may have %d bytes", maxBulk), BoundBulk}
	case len(c.room)+n > maxRequest:
		return &protocolError{fmt.Sprintf("a command may have %d bytes", maxRequest), BoundRequest}
	}
	for n > 0 {
		// Only for what is there is memory used, not for what is announced.
		if _, err := c.in.Peek(1); err != nil {
			return err
		}
		part, err := c.in.Peek(min(n, c.in.Buffered()))
		if err != nil {
			return err
		}
		c.room = append(c.room, part...)
		if _, err := c.in.Discard(len(part)); err != nil {
			return err
		}
		n -= len(part)
	}
	c.ends = append(c.ends, len(c.room))
	end, err := c.in.Peek(2)
	if err != nil {
		return err
	}
	if end[0] != '\r' || end[1] != '\n' {
		return &protocolError{text: "a word is longer than it was said to be"}
	}
	_, err = c.in.Discard(2)
	return err
}

// length reads a number that is not negative. Beyond all bounds it is just large.
func length(digits []byte) (n int, ok bool) {
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = min(n*10+int(d-'0'), 1<<40)
	}
	return n, true
}

// readLine reads a command that was typed by hand: words between spaces, in
// 'single' or "double" quotes where they have spaces of their own.
func (c *conn) readLine() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	for {
		line = bytes.TrimLeft(line, " \t\r\v\f\x00")
		if len(line) == 0 {
			return nil
		}
		if len(c.ends) == maxWords {
			return &protocolError{fmt.Sprintf("a command may have %d words", maxWords), BoundWords}
		}
		var ok bool
		if line, ok = c.word(line); !ok {
			return &protocolError{text: "unbalanced quotes in request"}
		}
		c.ends = append(c.ends, len(c.room))
	}
}

// word takes the first word off a line.
func (c *conn) word(line []byte) (rest []byte, ok bool) {
	for i := range line {
		switch b := line[i]; {
		case space(b):
			return line[i:], true
		case b == '"' || b == '\'':
			n, ok := c.quoted(line[i:])
			if !ok || i+n < len(line) && !space(line[i+n]) {
				return nil, false
			}
			return line[i+n:], true
		default:
			c.room = append(c.room, b)
		}
	}
	return nil, true
}

func space(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' || b == 0 }

// quoted reads what is in quotes, and says how long it is with them.
func (c *conn) quoted(text []byte) (n int, ok bool) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		b := text[i]
		switch {
		case b == quote:
			return i + 1, true
		case b == '\\' && quote == '"' && i+3 < len(text) && text[i+1] == 'x' && hex(text[i+2]) >= 0 && hex(text[i+3]) >= 0:
			b = byte(hex(text[i+2])<<4 | hex(text[i+3]))
			i += 3
		case b == '\\' && quote == '"' && i+1 < len(text):
			i++
			b = escaped(text[i])
		case b == '\\' && quote == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			b = '\''
		}
		c.room = append(c.room, b)
	}
	return 0, false
}

func escaped(b byte) byte {
	switch b {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return b
}

func hex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
