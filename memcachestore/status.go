package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// Status is what a server says of itself.
type Status struct {
	Addr      string
	Version   string
	Latency   time.Duration // of the call
	Skew      time.Duration // its clock, in whole seconds, less ours in the middle of the call
	Items     int64
	Bytes     int64 // in use
	MaxBytes  int64 // it may use
	Evictions int64 // items dropped before their time, those of other programs too
	Err       error // why it could not be asked
}

// Status asks each server.
func (s *Store) Status(ctx context.Context) []Status {
	servers := s.cells.servers
	all := make([]Status, len(servers))
	var asked sync.WaitGroup
	for i, sv := range servers {
		asked.Go(func() { all[i] = s.cells.status(ctx, sv) })
	}
	asked.Wait()
	return all
}

// Servers are the addresses of the servers, as the URL has them.
func (s *Store) Servers() []string {
	names := make([]string, len(s.cells.servers))
	for i, sv := range s.cells.servers {
		names[i] = sv.addr
	}
	return names
}

// ServerOf is which of Servers has a count.
func (s *Store) ServerOf(k weir.StateKey) int { return pick(s.cells.servers, s.name(k)).server.index }

// Ping asks one of Servers whether it is there.
func (s *Store) Ping(ctx context.Context, server int) error {
	return s.cells.status(ctx, s.cells.servers[server]).Err
}

// status asks a server, as long as ctx lets it. A connection has a time of its own, which may be
// longer: so the goroutine that asks goes on until then, and Close waits for it.
//
// A status of a closed store must not begin a goroutine: Close waits for own, and Go must not be
// called beside Wait.
func (c *cells) status(ctx context.Context, sv *server) Status {
	answer := make(chan Status, 1)
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.own.Go(func() { answer <- c.askStatus(sv) })
	}
	c.mu.Unlock()
	if closed {
		return Status{Addr: sv.addr, Err: fmt.Errorf("memcachestore: %w", errClosed)}
	}
	select {
	case st := <-answer:
		return st
	case <-ctx.Done():
		return Status{Addr: sv.addr, Err: fmt.Errorf("memcachestore: %s does not answer: %w", sv.addr, ctx.Err())}
	}
}

func (c *cells) askStatus(sv *server) Status {
	st := Status{Addr: sv.addr}
	// It goes over the first connection, beside takes. A server that is too busy to answer takes
	// so shows here, too; where it can't be connected to, the line's last error is told.
	conn, err := sv.lines[0].open(c)
	k := newCall(command{verb: verbStats})
	begin := time.Now()
	if err == nil {
		err = conn.do(k)
	}
	st.Latency = time.Since(begin)
	// Without an answer, the reader of the connection may still be writing one.
	if err == nil && k.answers[0].outcome == outcomeFailed {
		err = errors.New(k.answers[0].text)
	}
	if err != nil {
		st.Err = sv.explain(err)
		return st
	}
	for line := range strings.Lines(string(k.answers[0].value)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		// Memcached tells its clock in whole seconds, so Skew is right to about a second. It is
		// for operators: no decision depends on it.
		n, _ := strconv.ParseInt(value, 10, 64) // what is no number is not asked for
		switch name {
		case "version":
			st.Version = value
		case "time":
			st.Skew = time.Unix(n, 0).Sub(begin.Add(st.Latency / 2).Truncate(time.Second))
		case "curr_items":
			st.Items = n
		case "bytes":
			st.Bytes = n
		case "limit_maxbytes":
			st.MaxBytes = n
		case "evictions":
			st.Evictions = n
		}
	}
	return st
}
