package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func unblockCommand() *cobra.Command {
	var addr address
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "unblock DOMAIN KEY=VALUE… --reason TEXT",
		Short: "Have all nodes forget what a client has used",
		Long: `Have all nodes of a rule database forget what a client has used, of all limits of the
rule that its requests meet. DOMAIN and KEY=VALUE… are those of its requests. The limits
stay as they are: weir exception set gives the client another one for a time. It takes
the role publish, and the audit has the reason. weir top --all-nodes shows which clients
are limited now.`,
		Example: `  weir unblock shop user=4711 --reason "a test ran wild"`,
		Args:    wanted("DOMAIN", "KEY=VALUE", more),
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the daemon answers")
	needReason(cmd, &reason)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		entries, err := entriesOf(args[1:])
		if err != nil {
			return err
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		answer, err := api.post(cmd.Context(), ruleCall{path: []string{"limited", "unblock"}}, map[string]any{"domain": args[0], "entries": entries, "reason": reason})
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(answer.body)
			return err
		}
		var done struct{ Text string }
		if err := answer.into(&done); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Escape(done.Text))
		return err
	})
	return cmd
}
