package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	peer, err := peerModule(into)
	if err != nil {
		return err
	}
	for _, it := range []struct {
		file      *string
		name, dir string
		work      string
		args      []string
		part      string
	}{
		{&b.weir, "weir", "../..", "", []string{"./cmd/weir"}, ""},
		{&b.gateway, "envoy-gateway", ".", "off", []string{gatewayModule + "/cmd/envoy-gateway"}, "gateway"},
		{&b.ratelimit, "ratelimit", "../envoyratelimit", "off", []string{"-mod=mod", "-modfile=" + peer, "github.com/envoyproxy/ratelimit/src/service_cmd"}, "golden"},
	} {
		if *it.file != "" || it.part != "" && only != "" && only != it.part {
			continue
		}
		*it.file = filepath.Join(into, it.name)
		fmt.Println("build", it.name)
		if _, err := command(ctx, it.dir, it.work, "go", append([]string{"build", "-o", *it.file}, it.args...)...); err != nil {
			return err
		}
	}
	return nil
}

// peerModule is the go.mod of bench/envoyratelimit, without the replacement of a version of the configurations that
// knows no months and years. envoyproxy/ratelimit can't be built with what Envoy Gateway requires beside.
func peerModule(into string) (string, error) {
	name := filepath.Join(into, "ratelimit.mod")
	for from, to := range map[string]string{"go.mod": name, "go.sum": strings.TrimSuffix(name, ".mod") + ".sum"} {
		text, err := os.ReadFile(filepath.Join("../envoyratelimit", from))
		if err != nil {
			return "", err
		}
		lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "replace github.com/envoyproxy/go-control-plane/ratelimit ")
		})
		if err := os.WriteFile(to, []byte(strings.Join(lines, "")), 0o600); err != nil {
			return "", err
		}
	}
	return name, nil
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
