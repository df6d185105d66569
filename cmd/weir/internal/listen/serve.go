package listen

import (
	"context"
	"net"
	"sync"
	"time"
)

// The least and the most that Each waits when it can't accept a connection.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// Each has each connection of l served, until leaving says that l was closed on purpose. It fails when l does. Where
// accepting may work again later, as when there are too many open files, it waits; retried hears of that.
func Each(l net.Listener, leaving func() bool, retried func(err error, wait time.Duration), serve func(net.Conn)) error {
	for wait := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
			serve(c)
		case leaving():
			return nil
		case passes(err):
			wait = min(max(2*wait, leastPause), mostPause)
			retried(err, wait)
			time.Sleep(wait)
		default:
			_ = l.Close() // it is broken already
			return err
		}
	}
}

// passes is whether accepting may work again later.
func passes(err error) bool {
	t, ok := err.(interface{ Temporary() bool })
	return ok && t.Temporary()
}

// Finish waits for the end of what runs. When ctx ends first, cut ends it.
func Finish(ctx context.Context, running *sync.WaitGroup, cut func()) error {
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	cut()
	<-done
	return ctx.Err()
}
