package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

func workloadsCommand() *cobra.Command {
	var limit string
	cmd := &cobra.Command{
		Use:     "workloads",
		Short:   "List the kinds of traffic, with their words and defaults",
		Example: `  weir simulate workloads --limit 10/s`,
		Args:    noArguments,
	}
	cmd.Flags().StringVar(&limit, "limit", wellKnown[0], "`LIMIT` that the defaults suit")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		l, err := weir.ParseLimit(limit)
		if err != nil {
			return usagef("--limit: %w", err)
		}
		kinds, err := sim.Kinds(l)
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, k := range kinds {
			fmt.Fprintf(&b, "%s\n    %s\n", k.Defaults, k.Says)
		}
		b.WriteString("\n" + sim.Words)
		_, err = io.WriteString(cmd.OutOrStdout(), b.String())
		return err
	})
	return cmd
}
