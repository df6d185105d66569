package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func explainCommand() *cobra.Command {
	var o question
	cmd := &cobra.Command{
		Use:   "explain DOMAIN key=value …",
		Short: "Tell why a request would pass or not",
		Long: `Tell why a request would pass or not: which rules it meets and why not others,
what each limit lets pass, how its count stands before and after, when exactly
the request passes, and what would have to change.

The daemon at --addr, its admin door, tells of its counts and charges nothing.
The rules of --rules, or without them the demo rules, tell in this process:
nothing is used at first, and --times explains a series, each request charged
before the next.`,
		Example: `  weir explain demo client_id=alice --times 11
  weir explain --rules rules/ shop user=ann path=/export/all
  weir explain --addr http://127.0.0.1:8082 --json demo client_id=alice`,
		Args: cobra.MinimumNArgs(2),
	}
	o.flags(cmd, "the admin door of a daemon", "explain", "print each explanation as /v1/explain gives it, one a line")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		q, err := o.request(args)
		if err != nil {
			return err
		}
		ask, err := o.checker(cmd.ErrOrStderr(), "/v1/explain", "the admin door", explainRules)
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
	return func(ctx context.Context, q *rules.Request) ([]byte, error) {
		e, err := limiter.Explain(ctx, q)
		if err != nil {
			return nil, err
		}
		if _, err := limiter.Check(ctx, q); err != nil {
			return nil, err
		}
		return httpapi.AppendExplanation(nil, e), nil
	}, nil
}

func explainTimes(ctx context.Context, ask checker, q *rules.Request, times int64, out io.Writer, asJSON bool) error {
	for i := range times {
		line, err := ask(ctx, q)
		if err != nil {
			return err
		}
		text := string(line) + "\n"
		if !asJSON {
			var e explanation
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("read the explanation: %w", err)
			}
			if text = e.text(); i > 0 {
				text = "\n" + text
			}
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}
