package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/internal/daemon"
	"github.com/weir-limit/weir/redisstore"
)

// doctorPatience is how long an examination may take.
const doctorPatience = time.Minute

func doctorCommand() *cobra.Command {
	var url string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor --store URL",
		Short: "Examine the servers of a store, and tell what is unwise",
		Long: `Examine the servers of a store: their version, role and mode, how long they take,
whether their scripts run, how far their clock is from this machine's, memory and
what happens when it is short, what is written to disk, and whether all keys of
Weir expire. What is unwise comes last, each with what to do.

It connects as weir serve does, sends 200 PINGs and 200 takes of 20 keys that
expire within a second, and changes nothing else.

It exits 0 when there are warnings at most, 1 when a fault keeps the store from
its work, 3 when nobody answers.`,
		Example: `  weir doctor --store redis://127.0.0.1:6379
  weir doctor --store 'rediss://weir:'"$PASSWORD"'@redis.example:6379?ca=ca.pem' --json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&url, "store", "", "`URL` of the store")
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
		ctx, cancel := context.WithTimeout(cmd.Context(), doctorPatience)
		defer cancel()
		e, err := redisstore.Examine(ctx, url)
		if err != nil {
			return err
		}
		if err := printExamination(cmd.OutOrStdout(), e, asJSON); err != nil {
			return err
		}
		for _, f := range e.Findings {
			if f.Fault {
				return &failure{code: exitNo}
			}
		}
		return nil
	})
	return cmd
}

func printExamination(to io.Writer, e *redisstore.Examination, asJSON bool) error {
	text := examinationText(e)
	if asJSON {
		line, err := json.Marshal(examinationOf(e))
		if err != nil {
			return err
		}
		text = string(line) + "\n"
	}
	_, err := io.WriteString(to, text)
	return err
}

func examinationText(e *redisstore.Examination) string {
	var b strings.Builder
	secured := "without TLS"
	if e.TLS {
		secured = "TLS"
	}
	fmt.Fprintf(&b, "Redis, %s, %s\n", e.Kind, secured)
	fmt.Fprintf(&b, "  PING   %s\n", latency(e.Ping))
	if e.Take.Median > 0 {
		fmt.Fprintf(&b, "  takes  %s; scripts run\n", latency(e.Take))
	}
	fmt.Fprintf(&b, "  clock  %v from this machine's\n", e.Skew.Round(10*time.Microsecond))
	for _, n := range e.Nodes {
		b.WriteString(n.Address + "\n")
		if n.Version != "" {
			fmt.Fprintf(&b, "  %s, %s, %d replicas\n", n.Version, n.Role, n.Replicas)
			fmt.Fprintf(&b, "  memory %s of %s, %s\n", megabytes(n.Used), bound(n.Max), n.Policy)
			fmt.Fprintf(&b, "  disk   AOF %s, RDB %s\n", known(n.AOF), known(n.RDB))
		}
		if n.Role != "replica" {
			fmt.Fprintf(&b, "  keys   %d of Weir's looked at, %d without an end\n", n.Keys, n.Immortal)
		}
	}
	for _, f := range e.Findings {
		severity, at := "warning", ""
		if f.Fault {
			severity = "fault"
		}
		if f.Node != "" {
			at = f.Node + ": "
		}
		fmt.Fprintf(&b, "%s: %s%s; %s\n", severity, at, f.Text, f.Remedy)
	}
	if len(e.Findings) == 0 {
		b.WriteString("nothing is unwise\n")
	}
	return b.String()
}

func latency(l redisstore.Latency) string {
	return fmt.Sprintf("%v median, %v for 99 of 100", l.Median.Round(time.Microsecond), l.P99.Round(time.Microsecond))
}

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
	Kind     string            `json:"kind"`
	TLS      bool              `json:"tls"`
	Scripts  bool              `json:"scripts"`
	Ping     examinedLatency   `json:"ping"`
	Take     *examinedLatency  `json:"take,omitempty"` // none when takes fail
	Skew     float64           `json:"skew_seconds"`
	Nodes    []examinedNode    `json:"nodes"`
	Findings []examinedFinding `json:"findings"`
}

type examinedLatency struct {
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
}

type examinedNode struct {
	Address  string `json:"address"`
	Version  string `json:"version"`
	Role     string `json:"role"`
	Mode     string `json:"mode"`
	Used     int64  `json:"used_bytes"`
	Max      int64  `json:"max_bytes"`
	Policy   string `json:"maxmemory_policy"`
	AOF      string `json:"aof"`
	RDB      string `json:"rdb"`
	Replicas int    `json:"replicas"`
	Keys     int    `json:"keys_sampled"`
	Immortal int    `json:"keys_without_ttl"`
}

type examinedFinding struct {
	Severity string `json:"severity"` // fault or warning
	Node     string `json:"node"`     // empty: all
	Text     string `json:"text"`
	Remedy   string `json:"remedy"`
}

func examinationOf(e *redisstore.Examination) examined {
	times := func(l redisstore.Latency) examinedLatency {
		return examinedLatency{l.Median.Seconds(), l.P99.Seconds()}
	}
	x := examined{
		Kind: e.Kind, TLS: e.TLS, Scripts: e.Take.Median > 0, Ping: times(e.Ping), Skew: e.Skew.Seconds(),
		Nodes: []examinedNode{}, Findings: []examinedFinding{},
	}
	if x.Scripts {
		x.Take = new(times(e.Take))
	}
	for _, n := range e.Nodes {
		x.Nodes = append(x.Nodes, examinedNode(n))
	}
	for _, f := range e.Findings {
		severity := "warning"
		if f.Fault {
			severity = "fault"
		}
		x.Findings = append(x.Findings, examinedFinding{severity, f.Node, f.Text, f.Remedy})
	}
	return x
}
