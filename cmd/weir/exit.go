package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
	"github.com/weir-limit/weir/sim"
)

// The exit codes.
const (
	exitYes   = 0 // yes, or done
	exitNo    = 1 // no: errors that lint finds, a denial in check
	exitUsage = 2 // usage, or bad input
	exitFail  = 3 // could not
)

// failure ends a command with an exit code. Without an error there is nothing
// more to say.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef is the failure for arguments that can't be meant.
func usagef(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// does makes a command's work out of f, whose errors get their exit code.
func does(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := noEmptyFlag(cmd)
		if err == nil {
			err = f(cmd, args)
		}
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[*failure](err); ok {
			return f
		}
		return &failure{codeOf(err), err}
	}
}

// exitCode is the exit code of an error that may be a failure.
func exitCode(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return codeOf(err)
}

// noEmptyFlag refuses flags that were given and say nothing: a variable that was
// not set should not turn into a default.
func noEmptyFlag(cmd *cobra.Command) error {
	var empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			empty = append(empty, "--"+f.Name)
		}
	})
	if len(empty) > 0 {
		return usagef("%s is empty; give it a value or leave it out", strings.Join(empty, ", "))
	}
	return nil
}

func codeOf(err error) int {
	switch {
	case is[*source.FetchError](err):
		return exitFail
	case is[*credentials.Error](err), is[*daemon.ConfigError](err), is[*rules.Error](err), is[*rules.RequestError](err),
		is[*importenv.InputError](err), is[*sim.InputError](err), is[*accesslog.InputError](err):
		return exitUsage
	case is[*net.OpError](err): // nobody listens at a socket's path
		return exitFail
	case errors.Is(err, fs.ErrNotExist): // a path that somebody mistyped
		return exitUsage
	}
	return exitFail
}

// is is whether an error is of a kind.
func is[Kind error](err error) bool {
	_, ok := errors.AsType[Kind](err)
	return ok
}
