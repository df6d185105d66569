// Package here lets a goroutine that must not wait have a decision where that is at hand. Else it gets ErrWaits, nothing has
// been decided or charged, and another goroutine asks again.
package here

import (
	"context"
	"errors"
)

// ErrWaits is returned to a caller that must not wait, by what would have to.
var ErrWaits = errors.New("the decision has to be waited for")

// Context is that of a caller that must not wait. The zero value is of no use: it needs the context around it.
type Context struct{ context.Context }

type key struct{}

// Value says of the context that its caller must not wait.
func (c *Context) Value(of any) any {
	if of == (key{}) {
		return c
	}
	return c.Context.Value(of)
}

// Only is whether the caller must not wait.
func Only(ctx context.Context) bool { return ctx.Value(key{}) != nil }
