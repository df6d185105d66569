package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/sim"
)

func exceptionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exception",
		Short: "Give single clients a limit of their own for a time",
		Long: `Give single clients a limit of their own for a time, in place of the limit of the
rule that their requests meet: "4711 gets ten times as much until Friday". The use of a
client stays counted when the exception begins, and when it ends.

All ask the admin listener of a daemon with a rule database (weir serve --data), and
show it the token of --token-file or of the environment variable ` + tokenVariable + `. It
takes the role publish.`,
		Example: `  weir exception set shop user=4711 100/s --for 7day --reason "their launch is on Friday"
  weir exception set shop user=4712 0/s --for 1h --reason "it floods us"
  weir exception list shop
  weir exception end shop user=4711 --reason "the launch is over"
  weir exception import shop list.csv --reason "the launch"`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(exceptionSetCommand(), exceptionListCommand(), exceptionEndCommand(), exceptionImportCommand())
	return cmd
}

// entriesOf reads key=value words.
func entriesOf(words []string) ([]rulestore.Entry, error) {
	var entries []rulestore.Entry
	for _, word := range words {
		e, ok := readEntry(word)
		if !ok {
			return nil, usagef("%q is no key=value of a request, as user=4711", word)
		}
		entries = append(entries, rulestore.Entry(e))
	}
	return entries, nil
}

func exceptionSetCommand() *cobra.Command {
	var addr address
	var long time.Duration
	var of, until, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "set DOMAIN KEY=VALUE… LIMIT --for TIME --reason TEXT",
		Short: "Give a client a limit of its own for a time",
		Long: `Give a client a limit of its own for a time. DOMAIN and KEY=VALUE… are those of its
requests: the exception is of the rule that they meet. Where that has several
limits, --of names the one that is meant. LIMIT is written as in a rule; 0/s denies
all. It takes the place of an exception that the client has. Then the usual limit
is back by itself, on every node, or with weir exception end before.

In a domain under review, one person alone can do it for an hour in 24 hours; when
another person does the same, it holds as long as that one says.`,
		Example: `  weir exception set shop user=4711 100/s --for 7day --reason "their launch is on Friday"
  weir exception set shop path=/export user=4711 "50/h burst 10" --for 1day --reason "a migration"
  weir exception set shop user=4711 5000/day --of day --until 2026-12-24T18:00:00Z --reason "the sale"`,
		Args: wanted("DOMAIN", "KEY=VALUE", "LIMIT", more),
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().Var((*timeFlag)(&long), "for", "`TIME` that it holds, as 30min, 2h or 7day; 92 days at most")
	cmd.Flags().StringVar(&until, "until", "", "`TIME` when it ends, as 2026-12-24T18:00:00Z, in place of --for")
	cmd.Flags().StringVar(&of, "of", "", "`LIMIT` of several that it is in place of: its name, or its text")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the exception as the daemon answers it")
	needReason(cmd, &reason)
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	cmd.MarkFlagsOneRequired("for", "until")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		entries, err := entriesOf(args[1 : len(args)-1])
		if err != nil {
			return err
		}
		body := map[string]any{"domain": args[0], "entries": entries, "limit": args[len(args)-1], "reason": reason}
		if of != "" {
			body["of"] = of
		}
		if until != "" {
			if _, err := time.Parse(time.RFC3339, until); err != nil {
				return usagef("--until %q is no time; write it as 2026-12-24T18:00:00Z", until)
			}
			body["until"] = until
		} else if seconds := int64(long / time.Second); seconds < 1 || long > rulestore.MaxException {
			return usagef("--for %s: write a time from 1s to 92day; for longer, write a rule", sim.TimeText(long))
		} else {
			body["seconds"] = seconds
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		answer, err := api.post(cmd.Context(), ruleCall{path: []string{"exceptions"}}, body)
		if err != nil {
			return err
		}
		return printException(cmd.OutOrStdout(), answer, asJSON, "has")
	})
	return cmd
}

// printException prints what an exception is now.
func printException(out io.Writer, answer *ruleAnswer, asJSON bool, verb string) error {
	if asJSON {
		_, err := out.Write(answer.body)
		return err
	}
	var e rulestore.Exception
	if err := answer.into(&e); err != nil {
		return err
	}
	alone := ""
	if e.Unreviewed {
		alone = ", by " + terminal.Escape(e.Author) + " alone"
	}
	_, err := fmt.Fprintf(out, "domain %s, %s: %s %s until %s%s\n", terminal.Escape(e.Domain), terminal.Escape(e.Name()), verb, e.Limit, e.Until.Format(time.RFC3339), alone)
	return err
}

func exceptionListCommand() *cobra.Command {
	var addr address
	var search string
	var asJSON, noHeaders bool
	cmd := &cobra.Command{
		Use:   "list [DOMAIN [RULE]]",
		Short: "List clients that have a limit of their own",
		Long: `List clients that have a limit of their own: the words of their requests, the limit,
until when, by whom and why, and the ID of each. In a domain under review, "alone" says
that a second person has yet to confirm it. Without DOMAIN, it takes a token of all
teams.`,
		Example: `  weir exception list shop
  weir exception list shop user --search 47`,
		Args: cobra.MaximumNArgs(2),
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().StringVar(&search, "search", "", "`TEXT` that the words of the requests have in them")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each as the daemon answers it, an object a line")
	noHeadersFlag(cmd.Flags(), &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		query := url.Values{}
		for i, name := range []string{"domain", "rule"} {
			if i < len(args) {
				query.Set(name, args[i])
			}
		}
		if search != "" {
			query.Set("search", search)
		}
		out := cmd.OutOrStdout()
		list := newListing(out, noHeaders, "ID", "DOMAIN", "REQUESTS", "LIMIT", "UNTIL", "BY", "REASON")
		return api.eachException(cmd, query, func(line json.RawMessage, e *rulestore.Exception) error {
			if asJSON {
				_, err := fmt.Fprintf(out, "%s\n", line)
				return err
			}
			by := e.By()
			if e.Unreviewed {
				by += " alone"
			}
			list.row(terminal.Escape(e.ID), terminal.Escape(e.Domain), terminal.Escape(e.Name()), terminal.Escape(limitFor(e)), e.Until.Format(time.RFC3339), terminal.Escape(by), terminal.Escape(e.Reason))
			return nil
		}, list.flush)
	})
	return cmd
}

// limitFor is the limit of an exception, and which of several it is in place of.
func limitFor(e *rulestore.Exception) string {
	if e.Of == "" {
		return e.Limit
	}
	return e.Limit + " for " + e.Of
}

// eachException gives all that a query finds, and calls end behind each page.
func (d *ruleAPI) eachException(cmd *cobra.Command, query url.Values, each func(json.RawMessage, *rulestore.Exception) error, end func() error) error {
	return d.pages(cmd.Context(), ruleCall{method: http.MethodGet, path: []string{"exceptions"}, query: query}, "after", func(a *ruleAnswer) error {
		var page struct{ Exceptions []json.RawMessage }
		if err := a.into(&page); err != nil {
			return err
		}
		for _, line := range page.Exceptions {
			var e rulestore.Exception
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			if err := each(line, &e); err != nil {
				return err
			}
		}
		return end()
	})
}

func exceptionEndCommand() *cobra.Command {
	var addr address
	var id, of, reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "end DOMAIN KEY=VALUE… --reason TEXT",
		Short: "End an exception before its time",
		Long: `End an exception before its time: the one of a client, or by --id the one that
weir exception list calls so.`,
		Example: `  weir exception end shop user=4711 --reason "the launch is over"
  weir exception end shop user=4711 --of day --reason "the sale is over"
  weir exception end --id p3kzx7wq2mhv5tjd --reason "the sale is over"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if id != "" {
				return noArguments(cmd, args)
			}
			return wanted("DOMAIN", "KEY=VALUE", more)(cmd, args)
		},
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the exception, in place of DOMAIN and KEY=VALUE…")
	cmd.Flags().StringVar(&of, "of", "", "`LIMIT` of several that it is in place of, as it was set")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the exception as the daemon answers it")
	needReason(cmd, &reason)
	cmd.MarkFlagsMutuallyExclusive("id", "of")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		api, err := addr.rules()
		if err != nil {
			return err
		}
		if id == "" {
			if id, err = api.exceptionOf(cmd, args[0], args[1:], of); err != nil {
				return err
			}
		}
		answer, err := api.call(cmd.Context(), ruleCall{method: http.MethodDelete, path: []string{"exceptions", id}, query: url.Values{"reason": {reason}}})
		if err != nil {
			return err
		}
		return printException(cmd.OutOrStdout(), answer, asJSON, "had")
	})
	return cmd
}

// exceptionOf is the ID of the one exception of a client.
func (d *ruleAPI) exceptionOf(cmd *cobra.Command, domain string, words []string, of string) (string, error) {
	entries, err := entriesOf(words)
	if err != nil {
		return "", err
	}
	wanted := rulestore.Exception{Entries: entries}
	var found, told []string
	query := url.Values{"domain": {domain}, "search": {wanted.SortName()}}
	err = d.eachException(cmd, query, func(_ json.RawMessage, e *rulestore.Exception) error {
		if slices.Equal(e.Entries, entries) && (of == "" || of == e.Of) {
			found, told = append(found, e.ID), append(told, fmt.Sprintf("%s until %s: --id %s", limitFor(e), e.Until.Format(time.RFC3339), e.ID))
		}
		return nil
	}, func() error { return nil })
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", usagef("domain %s, %s: it has no exception; weir exception list %s shows those there are", domain, wanted.Name(), domain)
	case len(found) > 1:
		return "", usagef("domain %s, %s: it has %d exceptions; name one by its ID\n%s", domain, wanted.Name(), len(found), strings.Join(told, "\n"))
	}
	return found[0], nil
}

func exceptionImportCommand() *cobra.Command {
	var addr address
	var reason string
	var dry bool
	cmd := &cobra.Command{
		Use:   "import DOMAIN FILE --reason TEXT",
		Short: "Set the exceptions of a list in CSV",
		Long: `Set the exceptions of a list in CSV. FILE is - for standard input. Its first line
names the columns: limit; until (2026-12-24T18:00:00Z) or for (7day); perhaps of and
reason; and each other column is a key of the requests, in their order. The daemon
looks through the whole list first. When lines are wrong, it names them with their
numbers, a hundred at most, and nothing is changed. Then it sets the list in parts, so
that other changes wait for half a second. If it is interrupted, the parts that are done
stay: run the command again.

100,000 lines may come at a time, and 8 MiB. Split a list that is longer.

  user,limit,for,reason
  4711,100/s,7day,their launch
  4712,50/s,7day,`,
		Example: `  weir exception import shop list.csv --reason "the launch"
  weir exception import shop list.csv --dry-run --reason "the launch"`,
		Args: wanted("DOMAIN", "FILE"),
	}
	addr.rulesFlags(cmd.Flags())
	cmd.Flags().BoolVar(&dry, "dry-run", false, "tell what is wrong, and change nothing")
	needReason(cmd, &reason)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		text, err := readList(cmd.InOrStdin(), args[1])
		if err != nil {
			return err
		}
		api, err := addr.rules()
		if err != nil {
			return err
		}
		api.client.Timeout = importTimeout
		query := url.Values{"domain": {args[0]}, "reason": {reason}}
		if dry {
			query.Set("dry_run", strconv.FormatBool(dry))
		}
		answer, err := api.call(cmd.Context(), ruleCall{method: http.MethodPost, path: []string{"exceptions", "import"}, query: query, body: text, csv: true, again: true})
		if p := problem(err); p != nil {
			p.file = args[1]
		}
		if err != nil {
			return err
		}
		var done rulestore.ExceptionsSet
		if err := answer.into(&done); err != nil {
			return err
		}
		what := "set"
		if dry {
			what = "would be set"
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "domain %s: %s %s%s\n", terminal.Escape(args[0]), many(done.Set, "exception"), what, terminal.Escape(done.By()))
		return err
	})
	return cmd
}

// readList reads a file, or standard input for -.
func readList(stdin io.Reader, path string) ([]byte, error) {
	in, err := openInput(stdin, path)
	if err != nil {
		return nil, usagef("%v", err)
	}
	defer in.Close() // nothing was written, so there is nothing to lose
	text, err := io.ReadAll(io.LimitReader(in, rulestore.MaxExceptionCSV+1))
	if err == nil && len(text) > rulestore.MaxExceptionCSV {
		err = usagef("%s has over %d bytes, and nothing was changed; split it, and import it in parts", path, rulestore.MaxExceptionCSV)
	}
	return text, err
}
