package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func rulesDeleteDomainCommand() *cobra.Command {
	var addr address
	var confirm, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "delete-domain DOMAIN --confirm DOMAIN --reason TEXT",
		Short: "Take a domain away, with all its rules",
		Long: `Take a domain away, with all its rules: its requests are limited no more. --confirm
is its name once more; without it nothing is done, and the daemon tells how many
rules would go. weir rules restore brings the domain back as it was.`,
		Example: `  weir rules delete-domain shop --confirm shop --reason "the shop has closed"`,
		Args:    oneDomain,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().StringVar(&confirm, "confirm", "", "`DOMAIN` once more, to be sure")
	needReason(cmd, &reason)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the daemon answers")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		at := target(args)
		seen, err := api.call(cmd.Context(), ruleCall{method: http.MethodGet, path: at.path()})
		if err != nil {
			return err
		}
		var domain struct{ Rules int }
		if err := seen.into(&domain); err != nil {
			return err
		}
		answer, err := api.call(cmd.Context(), ruleCall{method: http.MethodDelete, path: at.path(), query: url.Values{"confirm": {confirm}, "reason": {reason}}, match: seen.etag})
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(answer.body)
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: taken away, with %s; weir rules restore brings it back\n", at, many(domain.Rules, "rule"))
		return err
	})
	return cmd
}

func rulesRestoreCommand() *cobra.Command {
	var addr address
	var revision int64
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restore DOMAIN --reason TEXT",
		Short: "Bring a domain back as it was when it was taken away",
		Long: `Bring a domain back as it was when it was taken away: its owner, its settings and
all its rules, active, disabled, in shadow and drafts. What open and tighten did
is not brought back. A domain that was made again under this name stays as it is,
and has to be taken away first.`,
		Example: `  weir rules restore --reason "it was the wrong one" shop
  weir rules restore --revision 812 --reason "as it was before" shop`,
		Args: oneDomain,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().Int64Var(&revision, "revision", 0, "`NUMBER` of the deletion, which weir rules deletions lists (default: the last)")
	needReason(cmd, &reason)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the domain as the daemon answers it")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if revision < 0 {
			return usagef("--revision %d: revisions are numbered from 1", revision)
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		at := target(args)
		answer, err := api.post(cmd.Context(), ruleCall{path: at.path("restore")}, map[string]any{"revision": revision, "reason": reason})
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(answer.body)
			return err
		}
		var domain struct {
			Rules    int
			Revision int64
		}
		if err := answer.into(&domain); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: as it was, with %s; revision %d\n", at, many(domain.Rules, "rule"), domain.Revision)
		return err
	})
	return cmd
}

func rulesDeletionsCommand() *cobra.Command {
	var addr address
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "deletions [DOMAIN]",
		Short: "List domains that were taken away and can be restored",
		Long: `List domains that were taken away and can be restored, the last first: the revision
of the deletion, the domain, its team and rules, when, by whom and why.`,
		Example: `  weir rules deletions
  weir rules deletions shop`,
		Args: cobra.MaximumNArgs(1),
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each as the daemon answers it, an object a line")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		query := url.Values{}
		if len(args) > 0 {
			query.Set("domain", args[0])
		}
		return listDeletions(cmd, api, query, cmd.OutOrStdout(), asJSON)
	})
	return cmd
}

// listDeletions prints the deletions that a query finds.
func listDeletions(cmd *cobra.Command, api *ruleAPI, query url.Values, out io.Writer, asJSON bool) error {
	list := newListing(out, true)
	return api.pages(cmd.Context(), ruleCall{method: http.MethodGet, path: []string{"deletions"}, query: query}, "before", func(a *ruleAnswer) error {
		var page struct{ Deletions []json.RawMessage }
		if err := a.into(&page); err != nil {
			return err
		}
		for _, line := range page.Deletions {
			if asJSON {
				if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
					return err
				}
				continue
			}
			var x rulestore.Deletion
			if err := json.Unmarshal(line, &x); err != nil {
				return err
			}
			again := ""
			if x.Again {
				again = "  (there is one of this name again)"
			}
			list.row(strconv.FormatInt(x.Revision, 10), terminal.Escape(x.Domain), terminal.Escape(x.Team), many(int(x.Rules), "rule"),
				x.At.Format(time.RFC3339), terminal.Escape(x.Actor), terminal.Escape(x.Reason)+again)
		}
		return list.flush()
	})
}
