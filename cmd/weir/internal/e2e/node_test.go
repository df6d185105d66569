package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNodeClients: the stock Redis clients of Node, by RESP2 and RESP3.
func TestNodeClients(t *testing.T) {
	t.Parallel()
	node := program(t, "node")
	version, err := exec.CommandContext(t.Context(), node, "-p", "parseInt(process.versions.node)").Output()
	if n, _ := strconv.Atoi(strings.TrimSpace(string(version))); err != nil || n < 20 {
		t.Skipf("SKIPPED ALOUD: the clients want Node 20, and here is %s(%v)", version, err)
	}
	modules := nodeModules(t)
	d := edge(t, "--resp", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(d.resp)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, absolute(t, "node/clients.js"), port)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if n := d.metric(t, `weir_calls_total{code="OK",listener="resp",route="weir.check"}`); n != 2*7+2*1000 {
		t.Errorf("%v calls of WEIR.CHECK were counted", n)
	}
}

// nodeModules installs what node/package-lock.json names, into the user's cache
// folder, where it stays until the lock file changes.
func nodeModules(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("SKIPPED ALOUD: there is no place for Node's modules: %v", err)
	}
	sum := sha256.Sum256(lock)
	root := filepath.Join(caches, "weir-e2e")
	dir := filepath.Join(root, hex.EncodeToString(sum[:8]))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if old, err := filepath.Glob(filepath.Join(root, "????????????????")); err == nil {
		for _, name := range old { // those of other lock files
			_ = os.RemoveAll(name)
		}
	}
	if err := install(t, root, dir); err != nil {
		t.Skipf("SKIPPED ALOUD: npm could not install what the Node clients need: %v", err)
	}
	return modules
}

// install makes dir whole or not at all: other tests may do the same meanwhile.
func install(t *testing.T, root, dir string) error {
	npm := program(t, "npm")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(root, "new")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join("node", name))
		if err != nil {
			return err
		}
		write(t, filepath.Join(made, name), string(b))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-timeout=20000", "--fetch-retries=1")
	cmd.Dir = made
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out[max(0, len(out)-500):])))
	}
	if err := os.Rename(made, dir); err != nil {
		if _, other := os.Stat(dir); other != nil {
			return err
		}
	}
	return nil
}
