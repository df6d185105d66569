package daemon

import (
	"context"
	"errors"
	"log/slog"
)

// closing is the stack of open parts. The part opened last is closed first, for it may need the
// parts opened before it.
type closing struct {
	log  *slog.Logger
	open []part
}

// part is one that is open.
type part struct {
	failed string // what the log says when the part can't be closed in order
	close  func(context.Context) error
}

// push keeps how to close a part that has just been opened.
func (c *closing) push(failed string, close func(context.Context) error) {
	c.open = append(c.open, part{failed, close})
}

// close closes all that is open. A part that fails stops none of the others: its failure is
// logged, and returned with theirs. ctx is how long calls in flight may take.
func (c *closing) close(ctx context.Context) (err error) {
	for len(c.open) > 0 {
		last := c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
		if bad := last.close(ctx); bad != nil {
			c.log.Warn(last.failed, "error", bad) //nolint:sloglint // each push has a constant
			err = errors.Join(err, bad)
		}
	}
	return err
}
