package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func explainCommand() *cobra.Command {
	var o question
	var id string
	cmd := &cobra.Command{
		Use:   "explain {DOMAIN key=value … | --id ID}",
		Short: "Tell why a request would pass or not",
		Long: `Tell why a request would pass or not: which rules it meets and which not,
what each limit lets pass, how its count stands before and after, when exactly
the request passes, and what would have to change.

The daemon at --addr, its admin listener, reads its counts and charges nothing.
The rules of --rules, or without them the demo rules, are checked in this process:
nothing is used at first, and --times explains a series, each request charged
before the next.

With --id the daemon at --addr tells why it denied a request up to 15 minutes
ago, as things stood then. Its answer had the id: as "id" from /v1/check, and in
the header Weir-Denial from /auth, /json and by way of Envoy.`,
		Example: `  weir explain demo client_id=alice --times 11
  weir explain --rules rules/ shop user=ann path=/export/all
  weir explain --addr http://127.0.0.1:8082 --json demo client_id=alice
  weir explain --addr http://127.0.0.1:8082 --id 0f1e2d3c4b5a6978
  weir explain --addr https://weir.example:8082 --ca ca.pem --token-file token demo client_id=alice`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && len(args) > 0 {
				return fmt.Errorf("--id says which request it was; leave out %s", strings.Join(args, " "))
			}
			if cmd.Flags().Changed("id") {
				return nil
			}
			return wanted("DOMAIN", "key=value", more)(cmd, args)
		},
	}
	o.flags(cmd, "the admin listener of a daemon", "explain", "print each explanation as /v1/explain gives it, one a line")
	cmd.Flags().StringVar(&id, "id", "", "`ID` of a denial of the daemon at --addr")
	for _, other := range []string{"rules", "cost", "times"} {
		cmd.MarkFlagsMutuallyExclusive("id", other)
	}
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if id != "" {
			return explainDenial(cmd.Context(), &o.addr, id, cmd.OutOrStdout(), o.asJSON)
		}
		q, err := o.request(args)
		if err != nil {
			return err
		}
		ask, err := o.checker(cmd.ErrOrStderr(), "/v1/explain", adminDoor, explainRules)
		if err != nil {
			return err
		}
		return explainTimes(cmd.Context(), ask, q, o.times, cmd.OutOrStdout(), o.asJSON)
	})
	return cmd
}

// explainRules explains by rules in this process, and charges what it explained.
func explainRules(path string, stderr io.Writer) (checker, error) {
	set, err := loadRules(path, stderr)
	if err != nil {
		return nil, err
	}
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	told := false // once, however often is asked
	return func(ctx context.Context, q *rules.Request) ([]byte, error) {
		e, err := limiter.Explain(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(e.Limits) == 0 && !told {
			told = true
			if err := tellMissed(path, stderr, e.Descriptors[0].Summary); err != nil {
				return nil, err
			}
		}
		if _, err := limiter.Check(ctx, q); err != nil {
			return nil, err
		}
		return httpapi.AppendExplanation(nil, e), nil
	}, nil
}

// explainDenial tells why the daemon at addr denied what it gave this id.
func explainDenial(ctx context.Context, addr *address, id string, out io.Writer, asJSON bool) error {
	if addr.url == "" {
		return usagef("--id %s: write --addr URL too, the admin listener of the daemon that denied", id)
	}
	line, err := addr.askDenial(ctx, id)
	if err != nil {
		return err
	}
	return printExplanation(out, line, asJSON)
}

func explainTimes(ctx context.Context, ask checker, q *rules.Request, times int64, out io.Writer, asJSON bool) error {
	for i := range times {
		line, err := ask(ctx, q)
		if err != nil {
			return err
		}
		if i > 0 && !asJSON {
			_, _ = io.WriteString(out, "\n") // the next says if it fails
		}
		if err := printExplanation(out, line, asJSON); err != nil {
			return err
		}
	}
	return nil
}

func printExplanation(out io.Writer, line []byte, asJSON bool) error {
	text := string(line) + "\n"
	if !asJSON {
		var e httpapi.Explanation
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the explanation: %w", err)
		}
		terminal.EscapeAll(&e)
		text = explanationText(&e)
	}
	_, err := io.WriteString(out, text)
	return err
}
