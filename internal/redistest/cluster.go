package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// slots is how many a Redis Cluster has.
const slots = 16384

// Ask is what a server answers to a command, as text: of a list its parts, a line
// each, and of an error its text behind a minus.
func (s *Server) Ask(t testing.TB, words ...string) string {
	t.Helper()
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(t.Context(), "tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // a broken connection answers nothing
	command := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write(command); err != nil {
		t.Fatal(err)
	}
	answer, err := read(bufio.NewReader(c))
	if err != nil {
		t.Fatal(words, err)
	}
	return answer
}

func read(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	n, _ := strconv.Atoi(text) // of what has a number
	switch {
	case kind == '$' && n >= 0:
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	case kind == '*':
		var parts []string
		for range n {
			part, err := read(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, "\n"), nil
	case kind == '-':
		return "-" + text, nil
	}
	return text, nil
}

// StartCluster starts a Redis Cluster of three primaries, each with so many
// replicas, and waits until all know it. The primaries are the first three.
func StartCluster(t testing.TB, replicas int) []*Server {
	t.Helper()
	const primaries = 3
	servers := make([]*Server, primaries*(1+replicas))
	bus := make([]string, len(servers))
	for i := range servers {
		_, bus[i], _ = net.SplitHostPort(porttest.Free(t)) // it has one
		servers[i] = Start(
			t, "cluster-enabled", "yes", "cluster-port", bus[i], "cluster-node-timeout", "1000",
			"cluster-replica-validity-factor", "0", "repl-diskless-sync-delay", "0",
		)
	}
	for i, s := range servers {
		_, port, _ := net.SplitHostPort(s.Addr)
		servers[0].Ask(t, "CLUSTER", "MEET", "127.0.0.1", port, bus[i])
		if i < primaries {
			first, last := i*slots/primaries, (i+1)*slots/primaries-1
			s.Ask(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		}
	}
	await(t, "all know each other", func() bool {
		for _, s := range servers {
			if !strings.Contains(s.Ask(t, "CLUSTER", "INFO"), fmt.Sprintf("cluster_known_nodes:%d\r", len(servers))) {
				return false
			}
		}
		return true
	})
	for i, s := range servers[primaries:] {
		s.Ask(t, "CLUSTER", "REPLICATE", servers[i%primaries].Ask(t, "CLUSTER", "MYID"))
	}
	await(t, "the cluster is whole", func() bool {
		for i, s := range servers {
			whole := strings.Contains(s.Ask(t, "CLUSTER", "INFO"), "cluster_state:ok")
			if i >= primaries {
				whole = whole && strings.Contains(s.Ask(t, "INFO", "replication"), "master_link_status:up")
			}
			if !whole {
				return false
			}
		}
		return true
	})
	return servers
}

// StartSentinel starts a sentinel that watches a primary, with a replica, by this
// name, and waits until it knows both.
func StartSentinel(t testing.TB, name string) (sentinel, primary, replica *Server) {
	t.Helper()
	primary = Start(t, "repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica = Start(t, "replicaof", host+" "+port)
	sentinel = &Server{Addr: porttest.Free(t)}
	_, own, _ := net.SplitHostPort(sentinel.Addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 300\nsentinel failover-timeout %s 2000\n",
		own, t.TempDir(), name, host, port, name, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel.command = exec.CommandContext(t.Context(), "redis-server", file, "--sentinel")
	sentinel.command.Stdout, sentinel.command.Stderr = &sentinel.log, &sentinel.log
	if err := sentinel.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sentinel.Kill)
	sentinel.wait(t)
	await(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.Ask(t, "SENTINEL", "REPLICAS", name), "master-link-status\nok")
	})
	return sentinel, primary, replica
}

func await(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !yes(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s: ", what)
		}
	}
}
