package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/table"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at a cluster, remove nodes that are gone, and make its key",
		Long: `Look at the daemons that share limits without a server (weir serve --store cluster:),
take out of them what is gone, and make the key that they share. --addr is the admin listener
of any of them.`,
		Example: `  weir cluster status
  weir cluster route --addr http://127.0.0.1:8080 demo client_id=alice`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(clusterStatusCommand(), clusterLeaderCommand(), clusterForgetCommand(), clusterRouteCommand(), clusterKeygenCommand())
	return cmd
}

// adminAt is the admin listener that is asked where nothing is said.
const adminAt = "http://" + daemon.DefaultAdmin

// rateOver is over how long weir cluster status counts messages.
const rateOver = time.Second

func clusterStatusCommand() *cobra.Command {
	var at address
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the members, the silent ones, and what a node does",
		Long: `List the members of the cluster and the silent ones, as one node sees them, how many
keys it decides about and which nodes own them, how much it sends to other nodes in a second, and which
rules may let pass more than their limit on so many nodes.

It exits 1 when a member is silent, when another node has this one's name, when a node
has another cluster key, and when none of --join has been joined.`,
		Example: `  weir cluster status
  weir cluster status --addr https://10.0.0.5:8082 --ca ca.pem --token-file token --json`,
		Args: noArguments,
	}
	at.nodeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what GET /v1/cluster tells")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		first, text, err := askStatus(cmd.Context(), &at)
		if err != nil {
			return err
		}
		if asJSON {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
		} else {
			err = printStatus(cmd, &at, first)
		}
		silent := slices.ContainsFunc(first.Members, func(m membership.Member) bool { return m.State == "silent" })
		if err == nil && (silent || len(first.Members) == 0 || len(first.Apart) > 0) {
			return &failure{code: exitNo}
		}
		return err
	})
	return cmd
}

// nodeFlags adds the flags of commands that ask a node.
func (a *address) nodeFlags(f *pflag.FlagSet) {
	a.flags(f, "the admin listener of a node (default "+adminAt+")")
	a.otherwise = adminAt
}

func askStatus(ctx context.Context, at *address) (s membership.Status, text []byte, err error) {
	if text, err = at.call(ctx, "/v1/cluster", adminDoor, nil, nil); err != nil {
		return s, nil, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	terminal.EscapeAll(&s)
	return s, text, nil
}

// printStatus asks once more, for how much is said in a second.
func printStatus(cmd *cobra.Command, at *address, first membership.Status) error {
	select {
	case <-cmd.Context().Done():
		return cmd.Context().Err()
	case <-time.After(rateOver):
	}
	s, _, err := askStatus(cmd.Context(), at)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), statusText(&first, &s))
	return err
}

// statusText is s for people, with what went to and fro since first.
func statusText(first, s *membership.Status) string {
	var b strings.Builder
	rows := [][]string{{"node", "state", "owns", "http", "version", "started"}}
	for _, m := range s.Members {
		state := m.State
		if m.State == "silent" {
			state = fmt.Sprintf("silent for %.1f s", m.SilentSeconds)
			if m.GivenUpSeconds > 0 {
				state += fmt.Sprintf(", given up in %.0f s", m.GivenUpSeconds)
			}
		}
		rows = append(rows, []string{m.Name, state, fmt.Sprint(m.Keys), m.HTTP, m.Version, m.Started.Format(time.RFC3339)})
	}
	(&table.Table{Rows: rows, From: 2, To: 3}).Write(&b)
	for _, a := range s.Apart {
		fmt.Fprintln(&b, a.String())
	}
	for _, l := range s.Lost {
		lost := "keys that it may have owned count as used up then"
		if l.BackedUp {
			lost += ", but those of slow limits, of which others had backups"
		}
		fmt.Fprintf(&b, "%s left uncleanly at %s: %s\n", l.Node, l.At.Format(time.RFC3339), lost)
	}
	if s.Minority {
		b.WriteString("most members have been silent for long: rules with partition: closed deny here; weir cluster forget NAME if they are gone for good\n")
	}
	switch {
	case len(s.Members) == 0:
		fmt.Fprintf(&b, "another node has the name %s, and this one is no member any more: give it a --cluster of its own, and start it again\n", s.Node)
	case !s.Settled:
		b.WriteString("members have changed, and not all counts are with their owners yet\n")
	}
	for i := range s.Parts {
		fmt.Fprintln(&b, s.Parts[i].String())
	}
	fmt.Fprintf(&b, "\nkeys asked about here %d, with leases %d, owned %d, backups %d; of asked, owned and backups %d at most each\n", s.Keys.Asked, s.Keys.Leases, s.Keys.Owned, s.Keys.Backup, s.Keys.Most)
	fmt.Fprintf(&b, "takes decided by owners %d, unanswered and denied %d, waiting %d\n", s.Takes.Whole, s.Takes.Unanswered, s.Takes.Waiting)
	for _, way := range []struct {
		name        string
		before, now *membership.Traffic
	}{{"in", &first.In, &s.In}, {"out", &first.Out, &s.Out}} {
		fmt.Fprintf(&b, "%-3s a second: %d messages, %d packets, %d bytes\n",
			way.name, way.now.Messages-way.before.Messages, way.now.Packets-way.before.Packets, way.now.Bytes-way.before.Bytes)
		for _, why := range slices.Sorted(maps.Keys(way.now.Dropped)) {
			fmt.Fprintf(&b, "    dropped since the start: %d %s\n", way.now.Dropped[why], why)
		}
	}
	boundsText(&b, &s.Bounds)
	return b.String()
}

// boundsText says what may pass beyond the limits of rules.
func boundsText(b *strings.Builder, bounds *membership.Bounds) {
	fmt.Fprintf(b, "\nrules whose limit is that of all nodes together %d, others %d\n", bounds.Exact, len(bounds.Others)+bounds.Omitted)
	if len(bounds.Others) == 0 {
		return
	}
	var rows [][]string
	for _, r := range bounds.Others {
		rows = append(rows, []string{"    " + r.Rule, r.Limit, r.Bound})
	}
	(&table.Table{Rows: rows}).Write(b)
	if bounds.Omitted > 0 {
		fmt.Fprintf(b, "    and %d more\n", bounds.Omitted)
	}
}

func clusterLeaderCommand() *cobra.Command {
	var at address
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "leader RULE",
		Short: "Tell which node leads a rule",
		Long: `Tell which node leads a rule (sharing: leader), or is its hub (sharing: hub), as one node sees it.
While nodes don't reach each other, each side has a leader, which may let pass as much of the limit
as its side has members: 2 leaders, 3/5 and 2/5.

It exits 1 when there is not exactly one leader for each part of the rule's keys.`,
		Example: "  weir cluster leader shop/ip",
		Args:    wanted("RULE"),
	}
	at.nodeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what GET /v1/cluster/leader tells")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		text, err := at.call(cmd.Context(), "/v1/cluster/leader", adminDoor, url.Values{"rule": args}, nil)
		if err != nil {
			return err
		}
		var l membership.Leaders
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("read the daemon's answer: %w", err)
		}
		terminal.EscapeAll(&l)
		if asJSON {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
		} else {
			_, err = io.WriteString(cmd.OutOrStdout(), leadersText(&l))
		}
		several := slices.ContainsFunc(l.Seats, func(s membership.Seat) bool { return len(s.Leaders) != 1 || s.Leaders[0].Node == "" })
		if err == nil && (several || len(l.Seats) == 0) {
			return &failure{code: exitNo}
		}
		return err
	})
	return cmd
}

// leadersText is l for people: a line for each part of the keys.
func leadersText(l *membership.Leaders) string {
	var b strings.Builder
	for i := range l.Seats {
		if len(l.Seats) > 1 {
			fmt.Fprintf(&b, "keys %d of %d: ", i+1, len(l.Seats))
		}
		fmt.Fprintln(&b, l.Seats[i].String())
	}
	if len(l.Seats) == 0 {
		fmt.Fprintln(&b, (&membership.Seat{}).String())
	}
	return b.String()
}

func clusterForgetCommand() *cobra.Command {
	var at address
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Say that a silent node is gone for good",
		Long: `Say that a silent node is gone for good: the other nodes share its part of the limits at
once, instead of 30 seconds after they stopped to reach it. If it lives and is only cut
off, more passes than the limits let until it is back.`,
		Example: "  weir cluster forget 10.0.0.7:8083",
		Args:    wanted("NAME"),
	}
	at.nodeFlags(cmd.Flags())
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		body, err := toJSON(map[string]string{"name": args[0]})
		if err != nil {
			return err
		}
		if _, err := at.call(cmd.Context(), "/v1/cluster/forget", adminDoor, nil, body); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is no member any more\n", args[0])
		return err
	})
	return cmd
}

func clusterRouteCommand() *cobra.Command {
	var at address
	cmd := &cobra.Command{
		Use:   "route DOMAIN key=value …",
		Short: "Tell which node owns a count",
		Long: `Tell which node owns the count of a request, as the HTTP listener of a node tells
balancers (GET /v1/route).`,
		Example: "  weir cluster route demo client_id=alice",
		Args:    wanted("DOMAIN", "key=value", more),
	}
	at.otherwise = "http://" + daemon.DefaultHTTP
	at.flags(cmd.Flags(), "the HTTP listener of a node (default "+at.otherwise+")")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		q := url.Values{"domain": args[:1], "e": args[1:]}
		answer, err := at.call(cmd.Context(), "/v1/route", "the HTTP listener of a node", q, nil)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", answer)
		return err
	})
	return cmd
}

func clusterKeygenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Print a new key that nodes can share",
		Long: `Print a new key for --cluster-key-file of weir serve, at random. All nodes have the same
file. To change the key without a break, add a new one as the last line on all nodes,
then make it the first on all, then take the old one out.`,
		Example: `  (umask 077; weir cluster keygen >cluster.key)
  weir cluster keygen >>cluster.key`,
		Args: noArguments,
	}
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%x\n", key)
		return err
	})
	return cmd
}
