package daemon

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
)

// TestClosing: what was opened last is closed first, once, and a part that fails keeps no
// other open.
func TestClosing(t *testing.T) {
	log, logger := newLog()
	c := closing{log: logger}
	var closed []string
	bad := errors.New("a fault of the second")
	for _, one := range []struct {
		name string
		err  error
	}{{"first", nil}, {"second", bad}, {"third", errors.New("a fault of the third")}} {
		c.push("the "+one.name+" failed", func(context.Context) error {
			closed = append(closed, one.name)
			return one.err
		})
	}
	err := c.close(t.Context())
	if want := []string{"third", "second", "first"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "of the third") {
		t.Errorf("not both faults: %v", err)
	}
	if said := log.until(t, "the second failed"); !strings.Contains(said, "the third failed") {
		t.Errorf("the log says %s", said)
	}
	if err := c.close(t.Context()); err != nil || len(closed) != 3 {
		t.Errorf("closed again: %v, %v", closed, err)
	}
}

// TestOpenHalfWay: a daemon that can't join its cluster closes all that it has opened
// before, the last first: its listeners, the rule database, the store.
func TestOpenHalfWay(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d, err := New(Config{
		Store: "cluster:", Cluster: taken.Addr().String(), Data: t.TempDir(),
		HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", RESP: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	var closed []string
	for i := range d.closing.open { // by New
		one := d.closing.open[i]
		d.closing.open[i].close = func(ctx context.Context) error {
			closed = append(closed, one.failed)
			o := d.opened.Load()
			for _, l := range []*listen.Listener{o.httpAt, o.grpcAt, o.adminAt, o.respAt} {
				var dialer net.Dialer
				if c, err := dialer.DialContext(ctx, "tcp", l.Addr().String()); err == nil {
					t.Errorf("%s: a listener is open still: %v", one.failed, c.Close())
				}
			}
			return one.close(ctx)
		}
	}
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("at an address that is in use it joins a cluster: %v", err)
	}
	if len(closed) != 3 || !strings.Contains(closed[0], "audit") || !strings.Contains(closed[1], "rule database") || !strings.Contains(closed[2], "store") || len(d.closing.open) != 0 {
		t.Errorf("closed %q, and %d parts are open", closed, len(d.closing.open))
	}
}
