package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
)

// TestLogKilled: daemons that share by an event log are all killed, and start again: nothing is forgotten.
func TestLogKilled(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for kind, url := range map[string]string{
		"kafka": "kafka://" + c.ListenAddrs()[0] + "/weir?", "nats": "nats://" + natstest.Start(t).Addr + "?log=weir&",
	} {
		t.Run(kind, func(t *testing.T) { logKilled(t, url) })
	}
}

func logKilled(t *testing.T, url string) {
	t.Helper()
	binary := build(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("domain: d\ndescriptors:\n  - {key: k, limits: [100/day fixed-window]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() (all []*process) {
		for n := range 3 {
			all = append(all, serve(t, binary, "--rules", file, "--store", fmt.Sprintf("%snode=n%d", url, n)))
		}
		return all
	}
	check := func(p *process, cost int) (passed bool) {
		status, err := post(t, "http://"+p.http+"/v1/check", fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"ann"}],"cost":%d}]}`, cost))
		if err != nil {
			t.Fatal(err)
		}
		return status == http.StatusOK
	}
	all := start()
	for i := range 60 {
		if !check(all[i%3], 1) {
			t.Fatalf("request %d was denied", i)
		}
	}
	soon(t, "all is appended", func() bool {
		for _, p := range all {
			text := body(t, "http://"+p.admin+"/metrics")
			if !strings.Contains(text, "weir_log_waiting_keys 0\n") || !strings.Contains(text, "weir_log_unacknowledged_messages 0\n") {
				return false
			}
		}
		return true
	})
	for _, p := range all {
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // it says that it was killed
	}
	for _, p := range start() {
		if check(p, 41) {
			t.Error("41 passed after 60 of 100, at a daemon that was started again")
		}
	}
}

// soon waits until something is so.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
