//go:build !unix

package postgrestest

import (
	"os"
	"os/exec"
	"syscall"
)

func handOver(string) error { return nil }

func asOther() *syscall.SysProcAttr { return nil }

// The signals of Freeze, which this system lacks.
var (
	stopped = os.Interrupt
	resumed = os.Interrupt
)

// killAll ends a process; those that it began see that it is gone.
func killAll(c *exec.Cmd) {
	_ = c.Process.Kill() // it may be gone
}
