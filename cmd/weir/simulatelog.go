package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/sim"
)

// maxRecorded is how many lines of a log are simulated; each is kept in 24 bytes.
const maxRecorded = 10_000_000

// recording is the requests of a log.
type recording struct {
	fields   []accesslog.Field // that tell clients apart
	requests []sim.Request
	clients  map[string]int32
	skipped  int64
	key      []byte // to be used again
}

// recorded makes a workload of a log, whose clients are told apart by some fields.
// - is stdin.
func recorded(name, by, format string, stdin io.Reader) (*sim.Workload, error) {
	f, err := parseFormat(format)
	if err != nil {
		return nil, err
	}
	r := &recording{clients: map[string]int32{}}
	for field := range strings.SplitSeq(by, ",") {
		known, ok := accesslog.FieldOf(field)
		if !ok {
			return nil, usagef("--by: a log has no field %q; it has remote_address, method, path, host, user, status, user_agent, referer", field)
		}
		r.fields = append(r.fields, known)
	}
	from := stdin
	if name != "-" {
		file, err := accesslog.OpenFile(name, nil)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	if err := r.read(accesslog.NewReader(from, f, "")); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if r.skipped > 0 {
		by += fmt.Sprintf(" (%d lines skipped)", r.skipped)
	}
	slices.SortStableFunc(r.requests, func(a, b sim.Request) int { return cmp.Compare(a.At, b.At) })
	return sim.Recorded(fmt.Sprintf("log %s by %s", name, by), r.requests)
}

func (r *recording) read(log *accesslog.Reader) error {
	for {
		line, err := log.Next()
		if errors.Is(err, io.EOF) {
			r.skipped += log.Skipped
			return nil
		}
		if err != nil {
			return err
		}
		if len(r.requests) == maxRecorded {
			return usagef("more than %d lines; simulate a part of the log", maxRecorded)
		}
		client, err := r.client(line)
		switch {
		case err != nil:
			return err
		case client < 0:
			r.skipped++
		default:
			r.requests = append(r.requests, sim.Request{At: line.Time, Client: client, Cost: 1})
		}
	}
}

// client is the number of the client of a line, in the order in which they come
// first, or −1 for a line that lacks a field.
func (r *recording) client(line *accesslog.Line) (int32, error) {
	r.key = r.key[:0]
	for _, f := range r.fields {
		v := line.Value(f)
		if len(v) == 0 {
			return -1, nil
		}
		r.key = fmt.Appendf(r.key, "%d:%s", len(v), v)
	}
	client, ok := r.clients[string(r.key)]
	if !ok {
		if len(r.clients) == sim.MaxClients {
			return 0, usagef("more than %d clients; tell them apart by fewer fields, or simulate a part of the log", sim.MaxClients)
		}
		client = int32(len(r.clients))
		r.clients[string(r.key)] = client
	}
	return client, nil
}
