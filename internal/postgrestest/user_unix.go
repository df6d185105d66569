//go:build unix

package postgrestest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// other is the user who runs PostgreSQL for root: it refuses root itself.
func other() (*syscall.Credential, error) {
	var failed error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, failed
}

// handOver gives a folder to the user who runs PostgreSQL.
func handOver(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	who, err := other()
	if err != nil {
		return err
	}
	return os.Chown(dir, int(who.Uid), int(who.Gid))
}

// asOther runs a process as that user, in a group of its own.
func asOther() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if who, err := other(); err == nil && os.Getuid() == 0 {
		a.Credential = who
	}
	return a
}

// The signals of Freeze.
const (
	stopped = syscall.SIGSTOP
	resumed = syscall.SIGCONT
)

// killAll ends a process and those that it began.
func killAll(c *exec.Cmd) {
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // it may be gone
}
