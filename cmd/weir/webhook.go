package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func webhookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Have a daemon tell URLs what happens to rules",
		Long: `Have a daemon with a rule database tell URLs what happens to rules: what is
published, opened or tightened, refused by the guard, or waits for somebody, comments,
tokens that end, and limits that are near or deny. Each message is signed, and tried
again until it is delivered. docs/webhooks.md tells what is sent.`,
		Example: `  weir webhook set --team shop --url https://hooks.slack.com/services/… --form slack --reason "our channel"
  weir webhook test 7fq2tbyx5a`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(webhookSetCommand(), webhookListCommand(), webhookTestCommand(), webhookRetryCommand(), webhookRemoveCommand())
	return cmd
}

// oneWebhook is for commands about a webhook.
func oneWebhook(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("say which webhook: %s ID, as weir webhook list has it", cmd.CommandPath())
	}
	return nil
}

func webhookSetCommand() *cobra.Command {
	var addr address
	var team, target, form, reason string
	var kinds []string
	var disabled, newSecret, asJSON bool
	cmd := &cobra.Command{
		Use:   "set [ID] --reason TEXT",
		Short: "Make a webhook and print its secret this once, or change one",
		Long: `Make a webhook and print its secret this once, or change the one with an ID. Values
without a flag stay as they are; --disabled=false has it told again. With --new-secret it
only gets another secret; the one before signs beside it for 24 hours.`,
		Example: `  weir webhook set --team shop --url https://example.com/weir --reason "our bot"
  weir webhook set --disabled --reason "the bot is broken" 7fq2tbyx5a
  weir webhook set --new-secret --reason "the old one leaked" 7fq2tbyx5a`,
		Args: atMost("ID"),
	}
	f := cmd.Flags()
	addr.rulesFlags(f)
	f.StringVar(&team, "team", "", "`TEAM` whose domains a new webhook is told of; *: all")
	f.StringVar(&target, "url", "", "`URL` of the receiver, https://HOST/PATH")
	f.StringVar(&form, "form", "json", "`FORM` of messages: "+theValues)
	choice(cmd, "form", "json", "slack")
	f.StringSliceVar(&kinds, "kinds", nil, "`KIND,…` of messages: "+strings.Join(rulestore.MessageKinds(), ", ")+" (default: all)")
	f.BoolVar(&disabled, "disabled", false, "send nothing")
	f.BoolVar(&newSecret, "new-secret", false, "only make another secret")
	needReason(cmd, &reason)
	f.BoolVar(&asJSON, "json", false, "print the webhook as the daemon answers it")
	for _, flag := range []string{"team", "url", "form", "kinds", "disabled"} {
		cmd.MarkFlagsMutuallyExclusive("new-secret", flag)
	}
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		body := map[string]any{"url": target, "form": form, "kinds": kinds, "disabled": disabled, "reason": reason}
		c := ruleCall{method: http.MethodPost, path: []string{"webhooks"}}
		switch {
		case len(args) == 0 && (newSecret || team == "" || target == ""):
			return usagef("a new webhook takes --team and --url; to change one, say which: %s ID", cmd.CommandPath())
		case len(args) == 0:
			body["team"] = team
		case newSecret:
			c.path, body = append(c.path, args[0], "secret"), map[string]any{"reason": reason}
		case team != "":
			return usagef("--team: a webhook stays its team's; leave it out, or make another one")
		default:
			c.method, c.path = http.MethodPut, append(c.path, args[0])
			if err := keepUnsaid(cmd, api, args[0], body); err != nil {
				return err
			}
		}
		answer, err := api.callJSON(cmd.Context(), c, body)
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(answer.body)
			return err
		}
		return printWebhook(cmd.OutOrStdout(), cmd.ErrOrStderr(), answer)
	})
	return cmd
}

// keepUnsaid has a change of a webhook leave as it is what no flag is about.
func keepUnsaid(cmd *cobra.Command, api *ruleAPI, id string, body map[string]any) error {
	all, err := listWebhooks(cmd, api)
	if err != nil {
		return err
	}
	for _, one := range all {
		var w rulestore.Webhook
		if err := json.Unmarshal(one, &w); err != nil {
			return err
		}
		if w.ID != id {
			continue
		}
		for flag, was := range map[string]any{"form": w.Form, "kinds": w.Kinds, "disabled": w.Disabled} {
			if !cmd.Flags().Changed(flag) {
				body[flag] = was
			}
		}
	}
	return nil // the daemon says of one that is not there
}

// listWebhooks is the webhooks that the token may see, as the daemon answers them.
func listWebhooks(cmd *cobra.Command, api *ruleAPI) ([]json.RawMessage, error) {
	answer, err := api.call(cmd.Context(), ruleCall{method: http.MethodGet, path: []string{"webhooks"}})
	if err != nil {
		return nil, err
	}
	var all struct{ Webhooks []json.RawMessage }
	if err := answer.into(&all); err != nil {
		return nil, err
	}
	return all.Webhooks, nil
}

// printWebhook prints a new secret, and says what the webhook is.
func printWebhook(out, notes io.Writer, answer *ruleAnswer) error {
	var w rulestore.Webhook
	if err := answer.into(&w); err != nil {
		return err
	}
	state := "is told"
	if w.Disabled {
		state = "is disabled, and would be told"
	}
	text := fmt.Sprintf("weir: webhook %s %s %s of team %s", terminal.Escape(w.ID), state, kindsOf(&w), terminal.Escape(w.Team))
	if w.Secret != "" {
		text += "; its secret is shown this once"
	}
	_, err := fmt.Fprintln(notes, text)
	if w.Secret != "" {
		_, more := fmt.Fprintln(out, terminal.Escape(w.Secret))
		err = errors.Join(err, more)
	}
	return err
}

// kindsOf is the kinds of messages of a webhook.
func kindsOf(w *rulestore.Webhook) string {
	return cmp.Or(terminal.Escape(strings.Join(w.Kinds, ",")), "all")
}

func webhookListCommand() *cobra.Command {
	var addr address
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List webhooks, and how they do",
		Args:  noArguments,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each webhook, one a line")
	noHeadersFlag(cmd.Flags(), &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		all, err := listWebhooks(cmd, api)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		list := newListing(out, noHeaders, "ID", "TEAM", "URL", "FORM", "KINDS", "STATE")
		for _, one := range all {
			if asJSON {
				if _, err := fmt.Fprintf(out, "%s\n", one); err != nil {
					return err
				}
				continue
			}
			var w rulestore.Webhook
			if err := json.Unmarshal(one, &w); err != nil {
				return err
			}
			list.row(terminal.Escape(w.ID), terminal.Escape(w.Team), terminal.Escape(w.URL), terminal.Escape(string(w.Form)), kindsOf(&w), webhookState(&w))
		}
		return list.flush()
	})
	return cmd
}

// webhookState is how a webhook does.
func webhookState(w *rulestore.Webhook) string {
	state := "delivers"
	switch {
	case w.Disabled:
		state = "disabled"
	case w.Failed > 0:
		state = fmt.Sprintf("failed %d times, again at %s: %s", w.Failed, w.NextTry.Format(time.RFC3339), terminal.Escape(w.Error))
	}
	if w.GivenUp > 0 {
		state += fmt.Sprintf("; %d given up", w.GivenUp)
	}
	return state
}

func webhookTestCommand() *cobra.Command {
	var addr address
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test ID",
		Short: "Send a ping to a webhook, and say how it went",
		Args:  oneWebhook,
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the delivery as the daemon answers it")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		answer, err := api.post(cmd.Context(), ruleCall{path: []string{"webhooks", args[0], "ping"}}, map[string]any{})
		if err != nil {
			return err
		}
		var d rulestore.Delivery
		if err := answer.into(&d); err != nil {
			return err
		}
		if asJSON {
			if _, err := cmd.OutOrStdout().Write(answer.body); err != nil {
				return err
			}
		} else if d.Error == "" {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "delivered in %d ms, and answered %d\n", d.Millis, d.Status)
			return err
		}
		if d.Error != "" {
			return &failure{exitFail, fmt.Errorf("it was not delivered: %s", d.Error)}
		}
		return nil
	})
	return cmd
}

func webhookRetryCommand() *cobra.Command {
	var addr address
	var reason string
	cmd := &cobra.Command{
		Use:   "retry ID --reason TEXT",
		Short: "Send now what waits because a webhook failed, and not when it is due",
		Long: `Send now what waits because a webhook failed, and not when it is due: within a second, by
the node that sends. weir webhook list says how it went.`,
		Example: `  weir webhook retry --reason "the bot is back" 7fq2tbyx5a`,
		Args:    oneWebhook,
	}
	addr.rulesFlags(cmd.Flags())
	needReason(cmd, &reason)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		if _, err := api.post(cmd.Context(), ruleCall{path: []string{"webhooks", args[0], "retry"}}, map[string]any{"reason": reason}); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "webhook %s: what waits is sent now; weir webhook list says how it went\n", terminal.Escape(args[0]))
		return err
	})
	return cmd
}

func webhookRemoveCommand() *cobra.Command {
	var addr address
	var reason string
	cmd := &cobra.Command{
		Use:   "remove ID --reason TEXT",
		Short: "Remove a webhook; what was not delivered is not any more",
		Args:  oneWebhook,
	}
	addr.rulesFlags(cmd.Flags())
	needReason(cmd, &reason)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		_, err = api.call(cmd.Context(), ruleCall{method: http.MethodDelete, path: []string{"webhooks", args[0]}, query: url.Values{"reason": {reason}}})
		return err
	})
	return cmd
}
