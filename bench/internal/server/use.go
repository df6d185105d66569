package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Use measures, until what it returns is called, how many processors p uses, and
// how many are used by neither p nor this process: what they use, p can't. Where
// the system does not tell, they are 0.
func Use(p *Process) func() (own, others float64) {
	start, ours, mine, all := time.Now(), p.used(), self(), machine()
	return func() (own, others float64) {
		took := time.Since(start)
		own = (p.used() - ours).Seconds() / took.Seconds()
		rest := machine() - all - (p.used() - ours) - (self() - mine)
		return own, max(rest.Seconds()/took.Seconds(), 0)
	}
}

func (p *Process) used() time.Duration {
	d, _ := p.CPU() // 0 where the system does not tell
	return d
}

// self is the time that this process has used.
func self() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it is ours
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machine is the time that all have used, and that the machine below took away.
func machine() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	_, _ = fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal)
	return time.Duration(user+nice+system+irq+softirq+steal) * tickLength
}
