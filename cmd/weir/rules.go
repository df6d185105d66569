package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Change rules that a daemon keeps in its database",
		Long: `Change rules that a daemon keeps in its database (weir serve --data DIR): from
files, as a repository with CI does, and one by one, as in an incident. Nothing
is overwritten: each rule has versions, each with its author, time and reason.

All ask the daemon's admin listener, and show it the token of --token-file or of the
environment variable ` + tokenVariable + `; weir token makes tokens. docs/rules-api.md tells
more.`,
		Example: `  weir rules plan rules/
  weir rules apply --reason "checkout needs more" rules/
  weir rules history shop user
  weir rules rollback --reason "too few for the sale" shop user
  weir rules tighten --percent 50 --for 30m --reason "the database is slow" shop`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		rulesPlanCommand(), rulesApplyCommand(),
		rulesListCommand(), rulesInboxCommand(), rulesCommentCommand(), rulesGetCommand(), rulesHistoryCommand(), rulesDiffCommand(),
		rulesDeleteDomainCommand(), rulesDeletionsCommand(), rulesRestoreCommand(),
		rulesPublishCommand(), rulesWithdrawCommand(), rulesDisableCommand(), rulesRollbackCommand(), rulesOpenCommand(), rulesTightenCommand(), rulesEndCommand(),
	)
	return cmd
}

func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "`TEXT` that says why, for readers of the history")
}

// needReason is for commands that change what is active.
func needReason(cmd *cobra.Command, reason *string) {
	reasonFlag(cmd, reason)
	needFlags(cmd, "reason")
}

// needFlags makes flags be given.
func needFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("weir: " + err.Error()) // no such flag
		}
	}
}

func forceFlag(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "change it although much more traffic would be denied; the reason says why")
}

// ruleTarget is which rule a command is about.
type ruleTarget struct{ domain, rule string }

// path is where the API has the rule, or the domain when there is no rule.
func (t ruleTarget) path(more ...string) []string {
	if t.rule == "" {
		return append([]string{"domains", t.domain}, more...)
	}
	return append([]string{"rules", t.domain, t.rule}, more...)
}

func (t ruleTarget) String() string {
	if t.rule == "" {
		return "domain " + terminal.Escape(t.domain)
	}
	return fmt.Sprintf("rule %s of domain %s", ruleName(t.rule), terminal.Escape(t.domain))
}

// target is the rule or domain that arguments name.
func target(args []string) ruleTarget {
	t := ruleTarget{domain: args[0]}
	if len(args) > 1 {
		t.rule = args[1]
	}
	return t
}

// exactTarget is for commands about one rule.
func exactTarget(cmd *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return fmt.Errorf("say which rule: %s DOMAIN RULE, as in shop user, or shop path=/export", cmd.CommandPath())
	}
	return nil
}

// oneDomain is for commands about a domain as a whole.
func oneDomain(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("say which domain: %s DOMAIN", cmd.CommandPath())
	}
	return nil
}

// anyTarget is for commands about a rule or all of a domain.
func anyTarget(cmd *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 || args[0] == "" || len(args) == 2 && args[1] == "" {
		return fmt.Errorf("say which domain, or which of its rules: %s DOMAIN [RULE]", cmd.CommandPath())
	}
	return nil
}
