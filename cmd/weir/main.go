// Weir decides who may send how much, and when to come back: a daemon, and the
// tools around its rules.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // zones must work where the machine has no database of them
)

// echo is how long signals count as the first one. timeout(1) and supervisors
// send it to the process and to its group.
const echo = 500 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		time.Sleep(echo)
		stop() // a second signal ends the process at once
	})
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
