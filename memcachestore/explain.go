package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/weir-limit/weir/internal/record"
)

// errNoCAS is a failure of the server: no count can be kept there.
var errNoCAS = errors.New("it numbers no writes")

// remedies say what to do about failures, by what a server says.
//
// The first that matches counts, so what is particular stands before what is general.
var remedies = [...]struct{ says, remedy string }{
	{"Too many open connections", "raise memcached's -c"},
	{"out of memory", "raise memcached's -m, and start it without -M: without eviction it drops the counts that it can't write"},
	{"too large", "raise memcached's -I to 1m, or give the descriptor fewer limits"},
	{"would take more than", "give the descriptor fewer limits"},
	{"numbers no writes", "start memcached without -C"},
	{"another program's", "give Weir a prefix of its own, or a memcached"},
	{"CLIENT_ERROR unauthenticated", "start memcached without -Y, and let only trusted programs reach it"},
	{"1.6 or later is needed", "upgrade it"},
	{"the server says", "is it memcached, 1.6 or later?"},
}

// remedy is what to do about an error.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "is memcached running there?"
	case errors.Is(err, syscall.EMFILE):
		return "this process has too many open files; raise ulimit -n"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "it is overloaded, frozen, or cut off by a firewall"
	}
	for _, r := range remedies {
		if strings.Contains(err.Error(), r.says) {
			return r.remedy
		}
	}
	return ""
}

// said is what a server says of an item.
//
// A CountError speaks of one item, and the server is well. All else is a failure of the server,
// which the edge counts.
func said(text string) error {
	if strings.Contains(text, "too large") || strings.Contains(text, "no count") {
		return &record.CountError{Err: errors.New(text)}
	}
	return errors.New(text)
}

// explain adds to a failure, by which nothing was decided, whose it is and what
// to do about it. It names no key, for keys are personal and errors are logged.
func (sv *server) explain(err error) error {
	if r := remedy(err); r != "" {
		return fmt.Errorf("memcachestore: %s: nothing was decided: %w; %s", sv.addr, err, r)
	}
	return fmt.Errorf("memcachestore: %s: nothing was decided: %w", sv.addr, err)
}

// explainWrite is explain for a write. Where the answer was lost, a caller has to know that what it
// asked may have been done: it must not ask again as if it had not, unless it asks for Once.
func (sv *server) explainWrite(err error) error {
	if errors.Is(err, errLost) {
		return fmt.Errorf("memcachestore: %s: what was sent may have been a charge: %w", sv.addr, err)
	}
	return sv.explain(err)
}
