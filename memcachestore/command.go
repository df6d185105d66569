package memcachestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// verb is what a command does. The protocol is memcached's meta commands, of
// version 1.6 and later (protocol.txt, "Meta Commands"). A look and the swap after it are
//
//	mg weir:demo:alice v c O7       give the value and its cas number
//	VA 61 c207 O7                   61 bytes follow, of write 207; EN: there is none
//	ms weir:demo:alice 61 C207 T63 c O8
//	HD c208 O8                      written as 208; EX: there was another write, NF: it is gone
//
// O is a mark that the answer has, too. An answer with another one is that of another command, as from a server or a
// proxy that answers twice. EN of older servers has none: an item that is not there is added, and the server
// refuses that if it is.
//
// The older commands do not tell the number of the new write. With it a process that writes an item
// again need not look before.
//
// No command is sent twice. A swap that was done is refused the second time, and its answer would
// say that another process had written.
type verb uint8

const (
	verbGet     verb = iota // the value and its cas number
	verbAdd                 // write a value where there is none
	verbSwap                // write a value in place of the one with this cas number
	verbSet                 // write a value in any case
	verbVersion             // of the server; the value is its text
	verbStats               // of the server; the value is lines "name value"
)

// command is one request to a server.
type command struct {
	verb  verb
	key   string // of the form that name makes: without spaces, 250 bytes at most
	value []byte // of add, swap and set
	cas   uint64 // of swap: the write that it stands on; never 0, which is no write
	// ttl is made by the function ttl, which knows how memcached counts time.
	ttl  int64  // as memcached reads it: seconds, or when they are more than 30 days, Unix time
	mark uint32 // drawn by newCall
}

// append appends the command as it goes over the wire.
//
// T is set anew by each write, so an item that is used lives on. The last c asks for the number of
// the write.
func (c *command) append(b []byte) []byte {
	switch c.verb {
	case verbGet:
		b = append(b, "mg "...)
		b = append(b, c.key...)
		b = append(b, " v c O"...)
		b = strconv.AppendUint(b, uint64(c.mark), 10)
		return append(b, "\r\n"...)
	case verbVersion:
		return append(b, "version\r\n"...)
	case verbStats:
		return append(b, "stats\r\n"...)
	case verbAdd, verbSwap, verbSet:
	}
	b = append(b, "ms "...)
	b = append(b, c.key...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(c.value)), 10)
	switch c.verb {
	case verbAdd:
		b = append(b, " ME"...)
	case verbSwap:
		b = append(b, " C"...)
		b = strconv.AppendUint(b, c.cas, 10)
	case verbGet, verbSet, verbVersion, verbStats:
	}
	b = append(b, " T"...)
	b = strconv.AppendInt(b, c.ttl, 10)
	b = append(b, " c O"...)
	b = strconv.AppendUint(b, uint64(c.mark), 10)
	b = append(b, "\r\n"...)
	b = append(b, c.value...)
	return append(b, "\r\n"...)
}

// outcome is what a server says to a command.
//
// An outcome is the server's word on one command. It is not an error: the connection is sound, and
// the next answer is where it should be.
type outcome uint8

const (
	outcomeDone   outcome = iota // written, or read
	outcomeNone                  // there is no such item
	outcomeOther                 // the item is not what the command expects
	outcomeFailed                // the server could not; text says why
)

// answer is a server's answer to one command.
//
// The zero answer is one of a write that was done and not numbered. So answers mean something only
// for a call that did not fail.
type answer struct {
	outcome outcome
	value   []byte // of get, version and stats; the receiver may keep it
	cas     uint64 // of get, and of a write that was done; 0: the server numbers no writes
	text    string // of outcomeFailed: why
}

// The bounds of an answer.
const (
	// maxLine is also the size of the connection's read buffer: a line is read in place, and one
	// that does not fit is no answer of memcached.
	maxLine  = 16 << 10 // of a line; more breaks the connection
	maxSkip  = 8 << 20  // of a value too large to be a count, read and thrown away; more breaks the connection
	maxStats = 1 << 10  // lines of statistics; more breaks the connection
)

// readAnswer reads the answer to c. An error means that the connection is of no more use, for
// nobody knows where in its stream the next answer begins. A server's own error (SERVER_ERROR) is
// an answer, in its place, and the connection goes on.
//
// ERROR and CLIENT_ERROR are errors in this sense. They say that the server did not understand us.
// It may then read a value as commands, and what it answers next would be answers to these.
func readAnswer(r *bufio.Reader, c *command) (answer, error) {
	// The line is a piece of the reader's buffer. The parts that are kept are copied, or parsed
	// before anything else is read.
	line, err := readLine(r)
	if err != nil {
		return answer{}, err
	}
	if text, ok := bytes.CutPrefix(line, []byte("SERVER_ERROR ")); ok {
		return answer{outcome: outcomeFailed, text: string(text)}, nil
	}
	switch c.verb {
	case verbVersion:
		if text, ok := bytes.CutPrefix(line, []byte("VERSION ")); ok {
			return answer{value: bytes.Clone(text)}, nil
		}
	case verbStats:
		return readStats(r, line)
	case verbGet:
		return readValue(r, line, c.mark)
	case verbAdd, verbSwap, verbSet:
		return readStored(line, c.mark)
	}
	return answer{}, unexpected(line)
}

// unexpected is the error for a line that answers nothing we asked.
func unexpected(line []byte) error {
	if len(line) > 80 {
		line = line[:80]
	}
	return fmt.Errorf("the server says %q", line)
}

// readLine is the next line without its end. It is good until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("the server sends a line of more than %d bytes", maxLine)
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, unexpected(line)
	}
	return text, nil
}

// readStored reads the answer to a write. NS is said to an add where there is an item, EX to a
// swap of another number, NF to a swap of an item that is gone. All three mean to the lane that it
// has to look again.
func readStored(line []byte, mark uint32) (answer, error) {
	code, rest, _ := bytes.Cut(line, []byte(" "))
	a := answer{}
	switch string(code) {
	case "HD":
	case "NS", "EX":
		a.outcome = outcomeOther
	case "NF":
		a.outcome = outcomeNone
	default:
		return a, unexpected(line)
	}
	cas, err := casOf(rest, mark)
	if a.outcome == outcomeDone {
		a.cas = cas
	}
	return a, err
}

// readValue reads the answer to a get. A value too large to be a count is skipped, so that another
// program's item costs its own descriptor and not all that share the connection.
func readValue(r *bufio.Reader, line []byte, mark uint32) (answer, error) {
	if none, ok := bytes.CutPrefix(line, []byte("EN")); ok && (len(none) == 0 || none[0] == ' ') {
		_, err := casOf(none, mark)
		return answer{outcome: outcomeNone}, err
	}
	rest, ok := bytes.CutPrefix(line, []byte("VA "))
	if !ok {
		return answer{}, unexpected(line)
	}
	size, flags, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.ParseUint(string(size), 10, 31)
	if err != nil || n > maxSkip {
		return answer{}, unexpected(line)
	}
	a := answer{}
	if a.cas, err = casOf(flags, mark); err != nil {
		return a, err
	}
	if n > maxValue {
		a.outcome, a.text = outcomeFailed, fmt.Sprintf("it holds %d bytes that are no count: is it another program's?", n)
		_, err = r.Discard(int(n))
	} else {
		a.value = make([]byte, n)
		_, err = io.ReadFull(r, a.value)
	}
	if err != nil {
		return a, err
	}
	if end, err := readLine(r); err != nil || len(end) > 0 {
		return a, errors.Join(fmt.Errorf("a value does not end after its %d bytes", n), err)
	}
	return a, nil
}

// casOf finds the cas number among the flags of an answer; 0 when it has none. A server that was
// started with -C numbers no writes: nothing can be swapped there, and look says so. It is an error if the flags have
// another mark than the command.
func casOf(flags []byte, mark uint32) (cas uint64, err error) {
	for flag := range bytes.FieldsSeq(flags) {
		switch flag[0] {
		case 'c':
			if cas, err = strconv.ParseUint(string(flag[1:]), 10, 64); err != nil {
				return 0, unexpected(flags)
			}
		case 'O':
			if n, err := strconv.ParseUint(string(flag[1:]), 10, 32); err != nil || uint32(n) != mark {
				return 0, errStrange
			}
		}
	}
	return cas, nil
}

// errStrange is an answer to another command. The next ones would be taken for those of the commands after them, so
// the connection is of no more use.
var errStrange = errors.New("the server answers what was not asked; if a proxy stands before it, see the proxy's log")

func readStats(r *bufio.Reader, line []byte) (answer, error) {
	var lines []byte
	for range maxStats {
		if string(line) == "END" {
			return answer{value: lines}, nil
		}
		text, ok := bytes.CutPrefix(line, []byte("STAT "))
		if !ok {
			return answer{}, unexpected(line)
		}
		lines = append(append(lines, text...), '\n')
		var err error
		if line, err = readLine(r); err != nil {
			return answer{}, err
		}
	}
	return answer{}, fmt.Errorf("the server sends more than %d lines of statistics", maxStats)
}
