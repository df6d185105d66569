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

// built is the programs that are compared.
type built struct {
	peer, check string // envoyproxy/ratelimit's server, and its checker of rule files
	weir        string
	ratelimit   string // a link to weir
	redis       string
	version     string // of envoyproxy/ratelimit
}

const peerModule = "github.com/envoyproxy/ratelimit"

// build builds both servers into a folder. source is a checkout of
// envoyproxy/ratelimit; without one it is the version of go.mod.
func build(ctx context.Context, into, source, weir string) (*built, error) {
	b := &built{
		peer: filepath.Join(into, "service_cmd"), check: filepath.Join(into, "config_check_cmd"),
		weir: filepath.Join(into, "weir"), ratelimit: filepath.Join(into, "ratelimit"),
	}
	var err error
	if b.redis, err = exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("envoyproxy/ratelimit needs a Redis: %w; install redis-server", err)
	}
	if _, err = run(ctx, weir, "go", "build", "-o", b.weir, "./cmd/weir"); err != nil {
		return nil, err
	}
	if err := os.Symlink(b.weir, b.ratelimit); err != nil {
		return nil, err
	}
	in, from := ".", peerModule+"/src/"
	if source != "" {
		in, from = source, "./src/"
	}
	if _, err = run(ctx, in, "go", "build", "-o", into, from+"service_cmd", from+"config_check_cmd"); err != nil {
		return nil, fmt.Errorf("envoyproxy/ratelimit can't be built: %w", err)
	}
	b.version, err = version(ctx, source)
	return b, err
}

func version(ctx context.Context, source string) (string, error) {
	if source == "" {
		return run(ctx, ".", "go", "list", "-m", "-f", "{{.Version}}", peerModule)
	}
	text, err := run(ctx, source, "git", "describe", "--always", "--dirty")
	if err != nil {
		return "a checkout", nil //nolint:nilerr // it may come without its history
	}
	return text, nil
}

// run gives what a command printed.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if dir == "." {
		cmd.Env = append(os.Environ(), "GOWORK=off") // this module is not of the product's workspace
	}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// opinion is what a server says to a rule file.
type opinion struct {
	refused bool
	text    string
}

func (o opinion) String() string {
	if !o.refused {
		return "accepted"
	}
	for line := range strings.Lines(o.text) {
		if strings.Contains(line, "error") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return "refused: " + strings.TrimSpace(o.text)
}

// opinions is what both say to one rule file.
func (b *built) opinions(ctx context.Context, text string) (peer, ours opinion, err error) {
	dir, err := os.MkdirTemp("", "rules-")
	if err != nil {
		return peer, ours, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover in the folder for such things
	name := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return peer, ours, err
	}
	if peer, err = opinionOf(ctx, b.check, "-config_dir", dir); err != nil {
		return peer, ours, err
	}
	ours, err = opinionOf(ctx, b.weir, "lint", name)
	return peer, ours, err
}

func opinionOf(ctx context.Context, name string, args ...string) (opinion, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return opinion{true, string(out)}, nil
	}
	return opinion{false, string(out)}, err
}
