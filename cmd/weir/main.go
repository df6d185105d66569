// Weir decides who may send how much, and when to come back: a daemon, and the
// tools around its rules.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
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
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == ratelimitName {
		args = append([]string{ratelimitName}, args...)
	}
	code := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
