package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/table"
	"github.com/weir-limit/weir/sim"
)

func adversaryCommand() *cobra.Command {
	var s simulation
	var plans int
	cmd := &cobra.Command{
		Use:   "adversary",
		Short: "Look for the traffic that makes each limit pass the most in a period",
		Long: `Look for the traffic that breaks the promise of a limit worst: the most events of one
key in any period, wherever it begins. It is shown beside the bound that is proved
for the limit, which nothing can pass.`,
		Example: `  weir simulate adversary
  weir simulate adversary --limit 100/min --all
  weir simulate adversary --limit "10/s sliding-window 4" --json`,
		Args: noArguments,
	}
	f := cmd.Flags()
	limitFlags(f, &s)
	f.Uint64Var(&s.options.Seed, "seed", 1, "`N` that all chance comes from")
	f.IntVar(&plans, "plans", 20_000, "`N` plans to try for each limit")
	f.BoolVar(&s.json, "json", false, "print JSON, a line for each limit")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		limits, err := s.parsed()
		if err != nil {
			return err
		}
		var attacks []*sim.Attack
		for _, l := range limits {
			a, err := sim.Search(cmd.Context(), l, s.options.Seed, plans)
			if err != nil {
				return err
			}
			attacks = append(attacks, a)
		}
		if s.json {
			return printAttacksJSON(cmd.OutOrStdout(), attacks)
		}
		return printAttacks(cmd.OutOrStdout(), attacks)
	})
	return cmd
}

// maxShownRequests is how many requests of an attack the table shows.
const maxShownRequests = 3

func printAttacks(to io.Writer, attacks []*sim.Attack) error {
	var b strings.Builder
	t := table.Table{Rows: [][]string{{"LIMIT", "FOUND", "BOUND", "OF ITS COUNT", "BY"}}, From: 1, To: 4}
	for _, a := range attacks {
		count := a.Limit.Spec().Count
		t.Rows = append(t.Rows, []string{
			a.Limit.String(), fmt.Sprint(a.Found), fmt.Sprint(a.Bound),
			percentOf(sim.Millionths(a.Found * 1_000_000 / count)), traffic(a),
		})
	}
	t.Write(&b)
	_, err := io.WriteString(to, b.String())
	return err
}

// traffic is an attack in words, at times from the beginning of a window.
func traffic(a *sim.Attack) string {
	var parts []string
	for i, r := range a.Requests {
		if i == maxShownRequests && len(a.Requests) > i+1 {
			parts = append(parts, fmt.Sprintf("… %d more", len(a.Requests)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d at %v", r.Cost, (r.At-sim.Start).Duration()))
	}
	return strings.Join(parts, ", ")
}

// attackJSON is the line of an attack. Times are in seconds from the beginning of a
// window.
type attackJSON struct {
	Limit    string        `json:"limit"`
	Count    int64         `json:"count"`
	Found    int64         `json:"found"`
	Bound    int64         `json:"bound"`
	From     json.Number   `json:"from_seconds"`
	Plans    int           `json:"plans"`
	Requests []requestJSON `json:"requests"`
}

type requestJSON struct {
	At   json.Number `json:"at_seconds"`
	Cost int64       `json:"cost"`
}

func printAttacksJSON(to io.Writer, attacks []*sim.Attack) error {
	at := func(i weir.Instant) json.Number {
		return json.Number(sim.Millionths((i - sim.Start).Duration() / time.Microsecond).String())
	}
	e := json.NewEncoder(to)
	for _, a := range attacks {
		j := attackJSON{Limit: a.Limit.String(), Count: a.Limit.Spec().Count, Found: a.Found, Bound: a.Bound, From: at(a.From), Plans: a.Tried}
		for _, r := range a.Requests {
			j.Requests = append(j.Requests, requestJSON{at(r.At), r.Cost})
		}
		if err := e.Encode(j); err != nil {
			return err
		}
	}
	return nil
}
