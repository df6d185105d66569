package memcachestore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir/internal/cas"
)

// maxValue is how large an item may grow; a take that would make it larger fails. It must stay below
// the server's own bound (memcached -I), for a server that refuses a write drops what it has.
//
// Memcached's own bound is 1 MB unless it was set. Few items come near it: only very many limits, or
// many notes with long first answers.
const maxValue = 256 << 10

// cells are the items of the servers. Each name has one server, and one connection of it: see pick.
// Answers come in the order of commands, so an item is always read before its notes.
//
// The version of a cell is memcached's cas number, and its epoch is the connection over which it
// came: a server that was restarted begins to number its writes anew, and no connection lives on then.
//
// Goroutines: each connection has one that reads, and a status has one while it asks. All are in own.
type cells struct {
	servers []*server     // in the order of the URL; which of them has an item depends on their addresses alone
	epochs  atomic.Uint64 // connections made

	ctx    context.Context // until Close; of connections
	cancel context.CancelFunc
	own    sync.WaitGroup
	mu     sync.Mutex // of closed
	closed bool
}

func newCells(servers []*server) *cells {
	c := &cells{servers: servers}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Look reads items over the connection of at.
func (c *cells) Look(_ context.Context, at string, names []string, out []cas.Cell) error {
	l := pick(c.servers, at)
	conn, err := l.open(c)
	if err != nil {
		return l.server.explain(err)
	}
	commands := make([]command, len(names))
	for i, name := range names {
		commands[i] = command{verb: verbGet, key: name}
	}
	k := newCall(commands...)
	if err := conn.do(k); err != nil {
		return l.server.explain(err)
	}
	for i, a := range k.answers {
		out[i] = cas.Cell{Value: a.value, Version: cas.Version{Number: a.cas, Epoch: conn.epoch}}
		switch {
		case a.outcome == outcomeFailed:
			out[i].Err = said(a.text)
		case a.outcome == outcomeDone && a.cas == 0:
			return l.server.explain(errNoCAS)
		}
	}
	return nil
}

// Swap writes items over the connection of at. One that was there is swapped by its number, and one
// that was not is added: a plain set would write over one that came meanwhile.
func (c *cells) Swap(_ context.Context, at string, swaps []cas.Swap) (written bool, err error) {
	l := pick(c.servers, at)
	conn := l.live()
	commands, anyway := make([]command, 0, len(swaps)), true
	for i := range swaps {
		w := &swaps[i]
		if conn == nil || !w.Any && w.Seen.Epoch != conn.epoch {
			return false, l.server.explain(cas.ErrEpoch)
		}
		to := command{verb: verbAdd, key: w.Name, value: w.Value, cas: w.Seen.Number}
		switch {
		case w.Any:
			to.verb = verbSet
		case w.Seen.Number != 0:
			to.verb = verbSwap
		}
		anyway = anyway && w.Any
		to.ttl, w.Life = ttl(w.Keep)
		commands = append(commands, to)
	}
	k := newCall(commands...)
	if err := conn.do(k); err != nil {
		if anyway { // no charge
			return false, l.server.explain(err)
		}
		return false, l.server.explainWrite(err)
	}
	for i, a := range k.answers {
		switch a.outcome {
		case outcomeDone:
			swaps[i].Version = cas.Version{Number: a.cas, Epoch: conn.epoch}
		case outcomeFailed:
			return false, l.server.explain(said(a.text))
		case outcomeNone, outcomeOther:
			return false, nil
		}
	}
	return true, nil
}

// Where is the address of an item's server.
func (c *cells) Where(at string) string { return pick(c.servers, at).server.addr }

// Explain is explain of an item's server.
func (c *cells) Explain(at string, err error) error { return pick(c.servers, at).server.explain(err) }

// Close ends the connections, and with them the calls on their way. When all lines are closed none
// makes a connection, so no goroutine begins that own would not wait for.
func (c *cells) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	for _, sv := range c.servers {
		for i := range sv.lines {
			sv.lines[i].close()
		}
	}
	c.own.Wait()
}

var errClosed = errors.New("the store was closed")
