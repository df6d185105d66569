package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/size"
)

// sizeFlags are the flags of weir size that are read after they were set.
type sizeFlags struct {
	keys, limit, store, rate, tolerance string
	json                                bool
	need                                size.Need
}

func sizeCommand() *cobra.Command {
	s := sizeFlags{need: size.Need{Unfit: unfit}}
	cmd := &cobra.Command{
		Use:   "size --keys N --limit LIMIT",
		Short: "Tell which design is enough, and what it takes",
		Long: `Tell which design is enough for a need, why the other ones are not, and what it
takes: memory, takes and bytes a second, servers and processors, from measured
constants. Numbers may end in k, M or G. docs/sizing.md tells where they are from.`,
		Example: `  weir size --keys 10M --limit "100/min sliding-window 6" --rate 50k --nodes 4
  weir size --keys 10M --limit 100/min --rate 50k/s --nodes 4 --tolerance 5% --store redis`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&s.keys, "keys", "", "`N` different keys within one period, such as users or addresses")
	f.StringVar(&s.limit, "limit", "", "`LIMIT` of each key, as in a rule")
	f.StringVar(&s.rate, "rate", "1000", "`N` requests a second, of all nodes")
	f.Int64Var(&s.need.Nodes, "nodes", 1, "`N` processes that decide")
	f.Int64Var(&s.need.Limits, "limits-per-request", 1, "`N` limits like this that a request meets")
	f.Int64Var(&s.need.Regions, "regions", 1, "`N` places that are far from each other")
	f.StringVar(&s.tolerance, "tolerance", "0%", "`PERCENT` of the limit that may pass beyond it")
	f.StringVar(&s.store, "store", "", "size this `STORE` whatever is advised: "+theValues)
	choice(cmd, "store", "memory", "redis", "redis+cluster", "memcached", "postgres", "nats", "cluster")
	f.BoolVar(&s.json, "json", false, "print one JSON object")
	needFlags(cmd, "keys", "limit")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if err := s.read(); err != nil {
			return err
		}
		store, err := size.ParseStore(s.store)
		if err != nil {
			return usagef("--store: %w", err)
		}
		report, err := size.NewReport(&s.need, store)
		if err != nil {
			return usagef("%w", err)
		}
		if s.json {
			return report.WriteJSON(cmd.OutOrStdout())
		}
		return report.WriteText(cmd.OutOrStdout())
	})
	return cmd
}

// read makes the need of the flags.
func (s *sizeFlags) read() (err error) {
	n := &s.need
	if n.Limit, err = weir.ParseLimit(s.limit); err != nil {
		return usagef("--limit: %w", err)
	}
	for _, v := range []struct {
		flag, text string
		to         *int64
	}{
		{"keys", s.keys, &n.Keys},
		{"rate", strings.TrimSuffix(s.rate, "/s"), &n.Rate},
		{"tolerance", strings.TrimSuffix(s.tolerance, "%"), &n.Tolerance},
	} {
		if *v.to, err = size.ParseCount(v.text); err != nil {
			return usagef("--%s: %w", v.flag, err)
		}
	}
	for _, v := range []struct {
		flag           string
		n, least, most int64
	}{
		{"keys", n.Keys, 1, size.MaxKeys},
		{"rate", n.Rate, 0, size.MaxRate},
		{"tolerance", n.Tolerance, 0, size.MaxPercent},
		{"nodes", n.Nodes, 1, size.MaxNodes},
		{"limits-per-request", n.Limits, 1, size.MaxLimits},
		{"regions", n.Regions, 1, size.MaxRegions},
	} {
		if v.n < v.least || v.n > v.most {
			return usagef("--%s is %s; it must be %s…%s", v.flag, size.Count(v.n), size.Count(v.least), size.Count(v.most))
		}
	}
	return nil
}

// unfit says why a store can't keep a limit.
func unfit(s size.Store, l *weir.Limit) string {
	url := string(s) + "://127.0.0.1:1" // nobody is asked
	if s == size.Memory {
		url = daemon.DefaultStore
	}
	traits, err := daemon.StoreTraits(url)
	if err != nil {
		return err.Error()
	}
	return l.Unfit(traits)
}
