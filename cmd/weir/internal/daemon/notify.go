package daemon

import (
	"context"
	"net"
	"time"
)

// notifyTimeout is how long who started the daemon may be too busy to be told;
// then it starts, or stops, all the same.
const notifyTimeout = time.Second

// notify tells systemd, or the other program that started the daemon, how it fares: sd_notify (3)
// has the words. Nobody wants to know where there is no socket.
func (d *Daemon) notify(state string) {
	if d.config.NotifySocket == "" {
		return
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(context.Background(), "unixgram", d.config.NotifySocket)
	if err == nil {
		_ = c.SetWriteDeadline(time.Now().Add(notifyTimeout)) // it is open
		_, err = c.Write([]byte(state))
		_ = c.Close() // a datagram has left, or it has not
	}
	if err != nil {
		d.config.Log.Warn("the service manager could not be told the state of the daemon", "state", state, "error", err)
	}
}
