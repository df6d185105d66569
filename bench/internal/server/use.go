package server

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Usage is how many processors were used by the server, by this process, and by
// neither: what others use, the server can't. Where the system does not tell,
// it is 0.
type Usage struct{ Server, Own, Others float64 }

// Use measures until what it returns is called.
func Use(p *Process) func() Usage {
	start, server, own, all := time.Now(), p.used(), self(), machine()
	return func() Usage {
		took := time.Since(start).Seconds()
		u := Usage{Server: (p.used() - server).Seconds() / took, Own: (self() - own).Seconds() / took}
		u.Others = max((machine()-all).Seconds()/took-u.Server-u.Own, 0)
		return u
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
