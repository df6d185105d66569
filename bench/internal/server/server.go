// Package server starts the servers that are measured, each a process of its
// own, and reads how much of a processor they used.
package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Process is a server that is ready.
type Process struct {
	Addresses map[string]string // of its doors, by name
	cmd       *exec.Cmd
	stdout    io.Reader
}

// Start runs a server and waits until it prints its line "… ready
// NAME=HOST:PORT …". All get the same collector: GOGC=400, as weir takes for
// itself. Env is added; core ≥ 0 is the one processor that it may use.
func Start(ctx context.Context, core int, env []string, command ...string) (*Process, error) {
	if core >= 0 {
		command = append([]string{"taskset", "-c", strconv.Itoa(core)}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), "GOGC=400", "GOMEMLIMIT=4GiB"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Addresses: map[string]string{}, cmd: cmd, stdout: out}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, " ready ") {
		_ = p.Stop() // the error below says more
		return nil, fmt.Errorf("%s did not become ready: %q %w\n%s", strings.Join(command, " "), line, err, log.String())
	}
	for _, m := range regexp.MustCompile(`(\w+)=(\S+:\d+)`).FindAllStringSubmatch(line, -1) {
		p.Addresses[m[1]] = m[2]
	}
	return p, nil
}

// Stop tells the process to end, and waits.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	return p.cmd.Wait()
}

// tickLength is what /proc counts in; Linux says 100 a second to all programs.
const tickLength = 10 * time.Millisecond

// CPU is the time that the process has used, its own and the kernel's for it.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s: unknown form", text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tickLength, err
}
