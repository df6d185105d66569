package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/redisstore"
)

// doctorPatience is how long an examination may take.
const doctorPatience = time.Minute

func doctorCommand() *cobra.Command {
	var url, command string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor --store URL",
		Short: "Examine the servers of a store, and list unwise settings",
		Long: `Examine the servers of a store: their version, role and mode, how long they take,
whether their scripts run, how far their clock is from this machine's, memory and
what happens when it is short, what is written to disk, and whether all keys of
Weir expire. Unwise settings come last, each with what to do.

It connects as weir serve does, which makes the table of PostgreSQL or the bucket
of NATS where there is none. It sends 200 PINGs and 200 takes of 20 keys that
expire within a second, and changes nothing else. In PostgreSQL the rows of these
keys go with the next sweep of a daemon. Of an event log it tells the
settings and the lag, for which it appends some messages.

It exits 0 when there are warnings at most, 1 when a fault keeps the store from
its work, 3 when no server answers.`,
		Example: `  weir doctor --store redis://127.0.0.1:6379
  weir doctor --store 'rediss://weir:'"$PASSWORD"'@redis.example:6379?ca=ca.pem' --json`,
		Args: noArguments,
	}
	cmd.Flags().StringVar(&url, "store", "", "`URL` of the store")
	storeCompletion(cmd)
	cmd.Flags().StringVar(&command, "store-password-command", "", "`CMD` that prints the password of a store in Redis, as weir serve runs it (default: the password of the URL)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if url == "" {
			return usagef("say which store: weir doctor --store redis://host:port")
		}
		if err := daemon.CheckStore(url); err != nil {
			return err
		}
		if strings.HasPrefix(url, "memory:") {
			return usagef("--store %s: there is no server to examine; give the URL of one, as redis://host:port", url)
		}
		if strings.HasPrefix(url, "cluster:") {
			return usagef("--store %s: the nodes themselves keep the counts; ask one: weir cluster status", url)
		}
		password, err := daemon.StorePassword(url, command)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), doctorPatience)
		defer cancel()
		x, err := examine(ctx, url, password)
		if err != nil {
			return err
		}
		if err := x.print(cmd.OutOrStdout(), asJSON); err != nil {
			return err
		}
		for _, f := range x.Findings {
			if f.Severity == severityFault {
				return &failure{code: exitNo}
			}
		}
		return nil
	})
	return cmd
}

func examine(ctx context.Context, url string, password redisstore.Password) (*examined, error) {
	switch {
	case strings.HasPrefix(url, "memcached"):
		return examineMemcached(ctx, url)
	case strings.HasPrefix(url, "postgres"):
		return examinePostgres(ctx, url)
	case logstore.Is(url):
		return examineLog(ctx, url)
	case strings.HasPrefix(url, "nats:"):
		return examineNATS(ctx, url)
	}
	e, err := redisstore.ExamineWith(ctx, url, password)
	if err != nil {
		return nil, err
	}
	return examinedRedis(e), nil
}

func (x *examined) print(to io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(x)
	}
	terminal.EscapeAll(x)
	_, err := io.WriteString(to, x.text())
	return err
}

func (x *examined) text() string {
	var b strings.Builder
	b.WriteString(x.Server)
	if x.Kind != "" {
		secured := "without TLS"
		if x.TLS {
			secured = "TLS"
		}
		fmt.Fprintf(&b, ", %s, %s", x.Kind, secured)
	}
	b.WriteString("\n")
	x.Ping.print(&b, "PING ")
	x.Take.print(&b, "takes")
	x.Lag.print(&b, "lag  ")
	if x.Skew != nil {
		fmt.Fprintf(&b, "  clock  %v from this machine's\n", seconds(*x.Skew).Round(10*time.Microsecond))
	}
	for i := range x.Nodes {
		x.Nodes[i].print(&b)
	}
	for _, f := range x.Findings {
		at := ""
		if f.Node != "" {
			at = f.Node + ": "
		}
		fmt.Fprintf(&b, "%s: %s%s; %s\n", f.Severity, at, f.Text, f.Remedy)
	}
	if len(x.Findings) == 0 {
		b.WriteString("nothing is unwise\n")
	}
	return b.String()
}

func (l *examinedLatency) print(b *strings.Builder, of string) {
	if l != nil {
		fmt.Fprintf(b, "  %s  %v median, %v for 99 of 100\n", of, seconds(l.Median).Round(time.Microsecond), seconds(l.P99).Round(time.Microsecond))
	}
}

func (n *examinedNode) print(b *strings.Builder) {
	b.WriteString(n.Address + "\n")
	if n.Bucket != nil {
		n.printBucket(b)
		return
	}
	if n.Evictions != nil {
		fmt.Fprintf(b, "  %s\n  memory %s of %s, %d items dropped before their time\n", n.Version, megabytes(n.Used), bound(n.Max), *n.Evictions)
		return
	}
	if p := n.Postgres; p != nil {
		p.print(b, n)
		return
	}
	if n.Version != "" {
		fmt.Fprintf(b, "  %s, %s, %d replicas\n", n.Version, n.Role, n.Replicas)
		fmt.Fprintf(b, "  memory %s of %s, %s\n", megabytes(n.Used), bound(n.Max), n.Policy)
		fmt.Fprintf(b, "  disk   AOF %s, RDB %s\n", known(n.AOF), known(n.RDB))
	}
	if n.Role != "replica" {
		fmt.Fprintf(b, "  keys   %d of Weir's looked at, %d without an end\n", n.Keys, n.Immortal)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func bound(bytes int64) string {
	if bytes == 0 {
		return "no maximum"
	}
	return megabytes(bytes)
}

func known(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// examined is an examination as --json prints it. Times are seconds.
type examined struct {
	Server   string            `json:"server"`
	Kind     string            `json:"kind,omitempty"` // of Redis and PostgreSQL
	TLS      bool              `json:"tls"`
	Ping     *examinedLatency  `json:"ping,omitempty"`
	Take     *examinedLatency  `json:"take,omitempty"` // none when takes fail
	Lag      *examinedLatency  `json:"lag,omitempty"`  // of an event log
	Skew     *float64          `json:"skew_seconds,omitempty"`
	Nodes    []examinedNode    `json:"nodes"`
	Findings []examinedFinding `json:"findings"`
}

type examinedLatency struct {
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
}

type examinedNode struct {
	Address   string `json:"address"`
	Version   string `json:"version"`
	Role      string `json:"role,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Used      int64  `json:"used_bytes"`
	Max       int64  `json:"max_bytes"`
	Policy    string `json:"maxmemory_policy,omitempty"`
	AOF       string `json:"aof,omitempty"`
	RDB       string `json:"rdb,omitempty"`
	Replicas  int    `json:"replicas"`
	Keys      int    `json:"keys_sampled"`
	Immortal  int    `json:"keys_without_ttl"`
	Evictions *int64 `json:"evictions,omitempty"` // of memcached

	Postgres *examinedPostgres `json:"postgres,omitempty"`
	Bucket   *examinedBucket   `json:"bucket,omitempty"` // of NATS
}

// The severities of a finding.
const (
	severityFault   = "fault" // it keeps the store from its work
	severityWarning = "warning"
)

type examinedFinding struct {
	Severity string `json:"severity"`
	Node     string `json:"node"` // empty: all
	Text     string `json:"text"`
	Remedy   string `json:"remedy"`
}

func examinedRedis(e *redisstore.Examination) *examined {
	times := func(l redisstore.Latency) *examinedLatency {
		return &examinedLatency{l.Median.Seconds(), l.P99.Seconds()}
	}
	x := &examined{
		Server: "Redis", Kind: e.Kind, TLS: e.TLS, Ping: times(e.Ping), Skew: new(e.Skew.Seconds()),
		Nodes: []examinedNode{}, Findings: []examinedFinding{},
	}
	if e.Take.Median > 0 {
		x.Take = times(e.Take)
	}
	for _, n := range e.Nodes {
		x.Nodes = append(x.Nodes, examinedNode{
			n.Address, n.Version, n.Role, n.Mode, n.Used, n.Max, n.Policy, n.AOF, n.RDB, n.Replicas, n.Keys, n.Immortal, nil, nil, nil,
		})
	}
	for _, f := range e.Findings {
		severity := severityWarning
		if f.Fault {
			severity = severityFault
		}
		x.Findings = append(x.Findings, examinedFinding{severity, f.Node, f.Text, f.Remedy})
	}
	return x
}
