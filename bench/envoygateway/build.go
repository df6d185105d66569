package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// built is the programs that are tried.
type built struct{ weir, gateway, ratelimit string }

const gatewayModule = "github.com/envoyproxy/gateway"

// build builds what was not given, into the folder of this program.
func (b *built) build(ctx context.Context, only string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	into := filepath.Dir(self)
	for _, it := range []struct {
		file        *string
		name, dir   string
		what, alone string
		part        string
	}{
		{&b.weir, "weir", "../..", "./cmd/weir", "", ""},
		{&b.gateway, "envoy-gateway", ".", gatewayModule + "/cmd/envoy-gateway", "off", "gateway"},
		{&b.ratelimit, "ratelimit", ".", "github.com/envoyproxy/ratelimit/src/service_cmd", "off", "golden"},
	} {
		if *it.file != "" || it.part != "" && only != "" && only != it.part {
			continue
		}
		*it.file = filepath.Join(into, it.name)
		fmt.Println("build", it.what)
		if _, err := command(ctx, it.dir, it.alone, "go", "build", "-o", *it.file, it.what); err != nil {
			return err
		}
	}
	return nil
}

// command gives what a command printed. work is the workspace; empty: that of the folder.
func command(ctx context.Context, dir, work, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if cmd.Env = os.Environ(); work != "" {
		cmd.Env = append(cmd.Env, "GOWORK="+work)
	}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
