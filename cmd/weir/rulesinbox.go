package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func rulesInboxCommand() *cobra.Command {
	var addr address
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "List what waits for you, and what of yours waits for others",
		Long: `List what waits for the holder of the token, and what of the holder's waits for
others, each the oldest first: versions that a second person has to publish, or that
the guard refused, rules that somebody asks to disable, limits that one person opened
or tightened alone, exceptions that one person set alone, and tokens that end soon.`,
		Example: `  weir rules inbox
  weir rules inbox --json | jq .for_me`,
		Args: cobra.NoArgs,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the daemon answers")
	noHeadersFlag(cmd.Flags(), &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		answer, err := api.call(cmd.Context(), ruleCall{method: http.MethodGet, path: []string{"inbox"}})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON {
			_, err := out.Write(answer.body)
			return err
		}
		var in rulestore.Inbox
		if err := answer.into(&in); err != nil {
			return err
		}
		return printInbox(out, cmd.ErrOrStderr(), &in, noHeaders)
	})
	return cmd
}

func printInbox(out, notes io.Writer, in *rulestore.Inbox, noHeaders bool) error {
	list := newListing(out, noHeaders, "FOR", "DOMAIN", "RULE", "WHAT", "WHO", "SINCE", "LINES", "COMMENTS")
	for _, side := range []struct {
		of   string
		list []rulestore.Waiting
	}{{"me", in.ForMe}, {"others", in.ForOthers}} {
		for _, w := range side.list {
			lines := "-"
			if w.Added+w.Removed > 0 {
				lines = fmt.Sprintf("+%d -%d", w.Added, w.Removed)
			}
			list.row(side.of, cmp.Or(terminal.Escape(w.Domain), "-"), cmp.Or(terminal.Escape(w.Rule), "-"), waitingWords(&w), terminal.Escape(w.Actor), w.Since.Format(time.RFC3339), lines, strconv.FormatInt(w.Comments, 10))
		}
	}
	if err := list.flush(); err != nil || !in.More {
		return err
	}
	_, err := fmt.Fprintf(notes, "weir: there is more: a list has the %d things that have waited longest\n", rulestore.MaxInbox)
	return err
}

// waitingWords is what has to be done.
func waitingWords(w *rulestore.Waiting) string {
	switch w.Kind {
	case rulestore.ToPublish:
		words := fmt.Sprintf("publish version %d (%s)", w.Version, w.State)
		if w.Held != "" {
			words += ", held up"
		}
		return words
	case rulestore.ToDisable:
		return fmt.Sprintf("disable version %d", w.Version)
	case rulestore.ToConfirm:
		if w.Exception != "" {
			return "confirm exception " + terminal.Escape(w.Exception) + " until " + w.Until.Format(time.RFC3339)
		}
		return "confirm " + heldWords(w.Percent, w.Until.Format(time.RFC3339))
	case rulestore.ToRenew:
		return "token " + terminal.Escape(w.Token) + " ends " + w.Until.Format(time.RFC3339)
	}
	return terminal.Escape(w.Kind) // of a newer daemon
}

func rulesCommentCommand() *cobra.Command {
	var addr address
	var version int64
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "comment DOMAIN RULE [TEXT]",
		Short: "Say something about a version of a rule, or list what was said",
		Long: `Say something about the version of a rule that is in shadow, or else the draft, or
else the active one, or the one of --version. Without TEXT, list what was said about
it, the oldest first. A comment is a line of the audit: nobody can change it or take
it away.`,
		Example: `  weir rules comment shop user "is 5/s enough for the sale?"
  weir rules comment shop user
  weir rules comment --version 3 shop user`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 || args[0] == "" || args[1] == "" {
				return fmt.Errorf("say of which rule, and what in one argument: %s DOMAIN RULE [TEXT], as in shop user \"why so few?\"", cmd.CommandPath())
			}
			return nil
		},
	}
	f := cmd.Flags()
	addr.rulesFlags(f)
	f.Int64Var(&version, "version", 0, "`NUMBER` of the version (default: the one in shadow, else the draft, else the active one)")
	f.BoolVar(&asJSON, "json", false, "print what the daemon answers")
	noHeadersFlag(f, &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if version < 0 {
			return usagef("--version %d: versions are numbered from 1", version)
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		t := target(args[:2])
		if version == 0 {
			if version, err = spokenOf(cmd.Context(), api, t); err != nil {
				return err
			}
		}
		c := ruleCall{method: http.MethodGet, path: t.path("versions", strconv.FormatInt(version, 10), "comments")}
		var answer *ruleAnswer
		if len(args) == 3 {
			answer, err = api.post(cmd.Context(), c, map[string]any{"text": args[2]})
		} else {
			answer, err = api.call(cmd.Context(), c)
		}
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		switch {
		case asJSON:
			_, err = out.Write(answer.body)
		case len(args) == 3:
			_, err = fmt.Fprintf(out, "%s: your comment on version %d is there\n", t, version)
		default:
			err = printComments(out, answer, noHeaders)
		}
		return err
	})
	return cmd
}

// spokenOf is the version of a rule that people speak of.
func spokenOf(ctx context.Context, api *ruleAPI, t ruleTarget) (int64, error) {
	answer, err := api.call(ctx, ruleCall{method: http.MethodGet, path: t.path()})
	if err != nil {
		return 0, err
	}
	var r ruleapi.Rule
	if err := answer.into(&r); err != nil {
		return 0, err
	}
	return cmp.Or(r.Shadow, r.Draft, r.Enforced, r.Latest), nil
}

func printComments(out io.Writer, answer *ruleAnswer, noHeaders bool) error {
	var said struct{ Comments []rulestore.Comment }
	if err := answer.into(&said); err != nil {
		return err
	}
	list := newListing(out, noHeaders, "LINE", "WHEN", "WHO", "COMMENT")
	for _, c := range said.Comments {
		text := strings.ReplaceAll(c.Text, "\n", " ")
		list.row(strconv.FormatInt(c.Line, 10), c.At.Format(time.RFC3339), terminal.Escape(c.Author), terminal.Escape(text))
	}
	return list.flush()
}
