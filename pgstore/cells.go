package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-limit/weir/internal/cas"
)

// cells are the rows of the table. The version of a row is drawn by the process that writes it: so a row that
// was deleted and made again, or one that a replica has as it was, never has the version of another write.
//
// Goroutines: each line has one, and the sweeper one. All are in own, and Close waits for them.
type cells struct {
	config  *pgconn.Config
	options *options
	sql     statements
	where   string // for errors
	clock   *clock
	gather  gather
	door    door
	pooled  atomic.Bool // a pooler hands connections round: nothing can be prepared

	statements, swept, open atomic.Int64 // for Stats

	ctx    context.Context // until Close
	cancel context.CancelFunc
	own    sync.WaitGroup
}

func newCells(config *pgconn.Config, o *options) *cells {
	c := &cells{config: config, options: o, sql: newStatements(o), where: hostsOf(config), clock: newClock()}
	c.gather.init()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for range o.connections {
		l := &line{cells: c}
		c.own.Go(l.work)
	}
	c.own.Go(c.sweep)
	return c
}

// hostsOf are the servers of a URL, for errors.
func hostsOf(config *pgconn.Config) string {
	one := func(host string, port uint16) string {
		if strings.HasPrefix(host, "/") {
			return host
		}
		return fmt.Sprintf("%s:%d", host, port)
	}
	hosts := []string{one(config.Host, config.Port)}
	for _, f := range config.Fallbacks {
		if h := one(f.Host, f.Port); h != hosts[len(hosts)-1] { // one with TLS, and one without
			hosts = append(hosts, h)
		}
	}
	return strings.Join(hosts, ",")
}

// Look reads rows at one moment.
func (c *cells) Look(_ context.Context, _ string, names []string, out []cas.Cell) error {
	k := &call{kind: kindLook, names: names, cells: make([]cas.Cell, len(names))}
	if err := c.gather.do(k); err != nil {
		return c.explain(err)
	}
	copy(out, k.cells)
	return nil
}

// Swap writes rows at one moment.
func (c *cells) Swap(_ context.Context, _ string, swaps []cas.Swap) (written bool, err error) {
	k := &call{kind: kindSwap, swaps: swaps}
	switch {
	case swaps[0].Any:
		k.kind = kindSet
	case len(swaps) > 1:
		k.kind = kindGroup
	}
	if err := c.gather.do(k); err != nil {
		return false, c.explain(err)
	}
	return k.written, nil
}

// Where is the servers of the URL: which of them was connected to, an operator sees by PostgreSQL's log.
func (c *cells) Where(string) string { return c.where }

// Explain is explain.
func (c *cells) Explain(_ string, err error) error { return c.explain(err) }

// Close ends the connections, and with them the calls on their way.
func (c *cells) Close() {
	c.cancel()
	c.gather.close()
	c.own.Wait()
}

var errClosed = errors.New("the store was closed")
