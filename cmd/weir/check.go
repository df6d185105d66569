package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// checker asks one request and gives the answer as /v1/check does.
type checker func(context.Context, *rules.Request) ([]byte, error)

func checkCommand() *cobra.Command {
	var o question
	cmd := &cobra.Command{
		Use:   "check DOMAIN key=value …",
		Short: "Ask whether a request may pass",
		Long: `Ask whether a request may pass: by the rules of --rules, in this process and
with nothing used so far; or by the daemon at --addr, which charges it. Without
either, the demo rules decide. The keys and values are one descriptor.

It exits 0 when all passed, and 1 when one was denied. A request that no limit is
for passes; stderr then says which rules were asked, and what may have been meant.`,
		Example: `  weir check demo client_id=alice --times 12
  weir check --rules rules/ shop user=ann path=/export/all
  weir check --addr http://127.0.0.1:8080 --json demo client_id=alice`,
		Args: wanted("DOMAIN", "key=value", more),
	}
	o.flags(cmd, "a daemon", "ask", "print each answer as /v1/check gives it, one a line")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		q, err := o.request(args)
		if err != nil {
			return err
		}
		ask, err := o.checker(cmd.ErrOrStderr(), "/v1/check", "the HTTP listener", askRules)
		if err != nil {
			return err
		}
		show := shower(printText)
		if o.asJSON {
			show = printLine
		}
		if o.addr.url != "" {
			show = o.addr.hinting(show, cmd.ErrOrStderr())
		}
		return askTimes(cmd.Context(), ask, q, o.times, cmd.OutOrStdout(), show)
	})
	return cmd
}

// question is what check and explain are asked in the same words.
type question struct {
	rules       string
	addr        address
	cost, times int64
	asJSON      bool
}

// maxTimes is how often a command asks at most: a slip of the finger should not
// fill a disk.
const maxTimes = 1_000_000

// flags adds the flags; daemon is whose URL addr takes, act what is done times
// over, and each what --json does.
func (o *question) flags(cmd *cobra.Command, daemon, act, each string) {
	f := cmd.Flags()
	f.StringVar(&o.rules, "rules", "", "`PATH` of a rule file, or of a folder of them")
	o.addr.flags(f, daemon)
	f.Int64Var(&o.cost, "cost", 1, "events that the request is worth, `N`; 0 only asks")
	f.Int64Var(&o.times, "times", 1, act+" `N` times, one after the other")
	f.BoolVar(&o.asJSON, "json", false, each)
	cmd.MarkFlagsMutuallyExclusive("rules", "addr")
}

// checker asks the daemon at addr, by its route at a listener, or the rules here.
func (o *question) checker(stderr io.Writer, route, door string, here func(path string, stderr io.Writer) (checker, error)) (checker, error) {
	if err := o.addr.check(); err != nil {
		return nil, err
	}
	if o.addr.url != "" {
		return o.addr.ask(route, door)
	}
	return here(o.rules, stderr)
}

// request is DOMAIN key=value … with the flags.
func (o *question) request(args []string) (*rules.Request, error) {
	if o.times < 1 || o.times > maxTimes {
		return nil, usagef("--times %d: ask 1…%d times", o.times, maxTimes)
	}
	return requestOf(args, o.cost)
}

func requestOf(args []string, cost int64) (*rules.Request, error) {
	if cost < 0 || cost > weir.MaxCount {
		return nil, usagef("--cost %d: it must be 0…%d", cost, weir.MaxCount)
	}
	d := rules.Descriptor{Cost: cost}
	for _, arg := range args[1:] {
		e, ok := readEntry(arg)
		if !ok {
			return nil, usagef("%q: write key=value", arg)
		}
		d.Entries = append(d.Entries, e)
	}
	return &rules.Request{Domain: args[0], Descriptors: []rules.Descriptor{d}}, nil
}

// readEntry reads key=value.
func readEntry(word string) (e rules.Entry, ok bool) {
	e.Key, e.Value, ok = strings.Cut(word, "=")
	return e, ok && e.Key != ""
}

// askRules asks rules in this process. Where no limit is for a request, stderr tells why.
func askRules(path string, stderr io.Writer) (checker, error) {
	set, err := loadRules(path, stderr)
	if err != nil {
		return nil, err
	}
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	told := false // once, however often is asked
	return func(ctx context.Context, q *rules.Request) ([]byte, error) {
		a, err := limiter.Check(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(a.Decisions) == 0 && !told {
			told = true
			e, err := limiter.Explain(ctx, q)
			if err != nil {
				return nil, err
			}
			if err := tellMissed(path, stderr, e.Descriptors[0].Summary); err != nil {
				return nil, err
			}
		}
		return httpapi.AppendAnswer(nil, a, ""), nil
	}, nil
}

// tellMissed tells which rules were asked about a request that no limit is for, and why none is:
// such a request passes, and its author may have meant another one, or other rules.
func tellMissed(path string, stderr io.Writer, why string) error {
	text := fmt.Sprintf("%s has no limit for this: %s", path, why)
	if path == "" {
		text = "the built-in demo rules were asked, and have no limit for this: " + why + "; ask yours with --rules PATH, or a daemon with --addr URL"
	}
	_, err := fmt.Fprintf(stderr, "weir: %s\n", terminal.EscapeLines(text))
	return err
}

// loadRules loads the rules at path, the demo rules without one. Findings go to
// stderr.
func loadRules(path string, stderr io.Writer) (*rules.Set, error) {
	set := rules.Demo()
	if path != "" {
		var err error
		if set, err = rules.Load(path); err != nil {
			return nil, err
		}
	}
	return set, printFindings(stderr, set.Warnings())
}

// shower prints an answer, which a is read from line.
type shower func(out io.Writer, line []byte, a *answer) error

// hinting is show that tells on stderr, once, when the daemon at the address has no limit for what it is
// asked. Its rules are at another listener.
func (a *address) hinting(show shower, stderr io.Writer) shower {
	told := false
	return func(out io.Writer, line []byte, got *answer) error {
		if len(got.Decisions) == 0 && got.Allowed && !told {
			told = true
			_, err := fmt.Fprintf(stderr, "weir: the daemon at %s has no limit for this; weir explain --addr URL, with the URL of its admin listener, tells why\n", terminal.Escape(a.url))
			if err != nil {
				return err
			}
		}
		return show(out, line, got)
	}
}

func askTimes(ctx context.Context, ask checker, q *rules.Request, times int64, out io.Writer, show shower) error {
	denied := false
	for range times {
		line, err := ask(ctx, q)
		if err != nil {
			return err
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		terminal.EscapeAll(&a)
		if err := show(out, line, &a); err != nil {
			return err
		}
		denied = denied || !a.Allowed
	}
	if denied {
		return &failure{code: exitNo}
	}
	return nil
}

func printLine(to io.Writer, line []byte, _ *answer) error {
	_, err := fmt.Fprintf(to, "%s\n", line)
	return err
}
