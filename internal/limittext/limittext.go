// Package limittext remembers limits by their text, for programs that read the same ones in message
// after message: a client, the daemon that lends it its store, and nodes.
package limittext

import (
	"strings"
	"sync"

	"github.com/weir-limit/weir"
)

// Max is how many texts are remembered. When there is one more, all are forgotten, and
// read anew.
const Max = 1 << 12

// Cache is the limits of texts that were read. The zero Cache remembers none, and is
// ready. Its methods may be called from many goroutines.
type Cache struct {
	mu    sync.RWMutex
	known map[string]*weir.Limit
}

// Get is the limit of text: the same one each time, while it is remembered. It fails as
// weir.ParseLimit does, and does not remember that. It keeps nothing of what text is a
// part of.
func (c *Cache) Get(text string) (*weir.Limit, error) {
	c.mu.RLock()
	known := c.known[text]
	c.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	limit, err := weir.ParseLimit(text)
	if err != nil {
		return nil, err
	}
	return c.remember(strings.Clone(text), limit), nil
}

// remember is the limit of text that others shall get, too.
func (c *Cache) remember(text string, limit *weir.Limit) *weir.Limit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[text]; known != nil {
		return known // another goroutine was faster
	}
	if c.known == nil || len(c.known) >= Max {
		c.known = map[string]*weir.Limit{}
	}
	c.known[text] = limit
	return limit
}

// Len is how many texts are remembered, 0…Max.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.known)
}
