package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// H1 is one HTTP/1.1 connection.
type H1 struct {
	conn net.Conn
	read *bufio.Reader
}

// DialH1 opens a connection.
func DialH1(address string) (*H1, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &H1{conn, bufio.NewReaderSize(conn, 4<<10)}, nil
}

// Post is the bytes of a POST of body to path.
func Post(path string, body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// GetRequest is the bytes of a GET of path.
func GetRequest(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: weir\r\n\r\n", path)
}

// Ask sends a request and waits for its answer's status. The connection ends
// when closed is true.
func (c *H1) Ask(request []byte) (status int, closed bool, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, true, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.read.ReadSlice('\n')
		if err != nil {
			return 0, true, err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case first && len(line) > 12:
			status, err = strconv.Atoi(string(line[9:12]))
		case len(line) == 0:
			_, err := c.read.Discard(length)
			return status, closed, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, err = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Connection")):
			closed = bytes.EqualFold(value, []byte("close"))
		}
		if err != nil {
			return 0, true, err
		}
	}
}

// Close closes the connection.
func (c *H1) Close() error { return c.conn.Close() }

// ClosedH1 keeps a request in flight on each of so many connections for a time.
func ClosedH1(address string, connections int, requests [][]byte, last time.Duration) (*Result, error) {
	dial := func() (*H1, error) { return DialH1(address) }
	return closed(connections, last, dial, func(c *H1, i int, stop *atomic.Bool) (*Result, error) {
		r := &Result{}
		for next := i * len(requests) / connections; !stop.Load(); next++ {
			start := time.Now()
			status, closed, err := c.Ask(requests[next%len(requests)])
			switch {
			case err != nil:
				return nil, err
			case closed:
				return nil, fmt.Errorf("the server closed a connection; the last answer was %d", status)
			case status == 200 || status == 429:
				r.Answered++
				r.Latencies = append(r.Latencies, time.Since(start))
			default:
				r.Refused++
			}
		}
		return r, nil
	})
}

// Get asks for a path on a new connection, and fails when the answer is not 200
// within a second.
func Get(address, path string) ([]byte, error) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + path)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, errors.New(r.Status)
	}
	return io.ReadAll(r.Body)
}
