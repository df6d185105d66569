package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed rules, and check that no line of it was changed",
		Long: `Show the audit of a rule database, and check it: who changed rules, teams and
tokens, who reset counts, who signed in, and what was refused. All ask a daemon's
admin listener, or with --data the database itself. docs/operating.md tells more.`,
		Example: `  weir audit list shop
  weir audit verify --data /var/lib/weir
  weir audit verify audit.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(auditListCommand(), auditVerifyCommand())
	return cmd
}

// auditPlace is which audit a command reads.
type auditPlace struct{ database }

// read opens the audit for one use.
func (o *auditPlace) read(cmd *cobra.Command, use func(*rulestore.Store, auditLines) error) error {
	if o.data == "" {
		api, err := o.addr.rules()
		if err != nil {
			return err
		}
		return use(nil, api.audit)
	}
	store, err := o.store(cmd, false)
	if err != nil {
		return refusedByStore(err)
	}
	return refusedByStore(errors.Join(use(store, store.Audit), store.Close()))
}

// auditLines lists lines of an audit.
type auditLines func(context.Context, rulestore.Audited) ([]rulestore.Event, error)

// audit is that of the daemon's rule database. It asks for what q has of after, before, domain, rule and limit.
func (d *ruleAPI) audit(ctx context.Context, q rulestore.Audited) ([]rulestore.Event, error) {
	c := ruleCall{method: http.MethodGet, path: []string{"audit"}, query: url.Values{}}
	for name, value := range map[string]string{"domain": q.Domain, "rule": q.Rule} {
		if value != "" {
			c.query.Set(name, value)
		}
	}
	for name, n := range map[string]int64{"after": q.Behind, "before": q.Before, "limit": int64(q.Limit)} {
		if n != 0 {
			c.query.Set(name, strconv.FormatInt(n, 10))
		}
	}
	answer, err := d.call(ctx, c)
	if err != nil {
		return nil, err
	}
	var page struct{ Events []rulestore.Event }
	err = answer.into(&page)
	return page.Events, err
}

func auditListCommand() *cobra.Command {
	var o auditPlace
	var limit int
	cmd := &cobra.Command{
		Use:   "list [DOMAIN [RULE]]",
		Short: "List what was done and refused, the newest last",
		Long: `List what was done and refused, the newest last: when, by whom, with which token,
from where, what, and why.`,
		Example: `  weir audit list
  weir audit list --limit 20 shop user
  weir audit list --data /var/lib/weir --json`,
		Args: cobra.MaximumNArgs(2),
	}
	o.flags(cmd, "print JSON, an object for each line")
	cmd.Flags().IntVar(&limit, "limit", 100, "`N` lines at most, the newest; at most 1000")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if limit < 1 || limit > rulestore.MaxPage {
			return usagef("--limit %d: write how many lines, from 1 to %d; for more, keep GET /v1/audit?format=jsonl", limit, rulestore.MaxPage)
		}
		q := rulestore.Audited{Before: math.MaxInt64, Limit: limit}
		if len(args) > 0 {
			t := target(args)
			q.Domain, q.Rule = t.domain, t.rule
		}
		return o.read(cmd, func(_ *rulestore.Store, lines auditLines) error {
			list, err := lines(cmd.Context(), q)
			if err != nil {
				return err
			}
			slices.Reverse(list)
			return o.printLines(cmd.OutOrStdout(), list)
		})
	})
	return cmd
}

func (o *auditPlace) printLines(out io.Writer, list []rulestore.Event) error {
	if o.asJSON {
		lines := json.NewEncoder(out)
		for _, e := range list {
			if err := lines.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	table := newListing(out, true)
	for i := range list {
		e := &list[i]
		why := e.Reason
		if e.Withheld {
			why = "(a client of another team)"
		}
		if e.Refused != "" {
			why += " (refused: " + e.Refused + ")"
		}
		table.row(strconv.FormatInt(e.Seq, 10), e.At.Format(time.RFC3339), orDash(e.Actor), orDash(tokenOf(e)), orDash(e.Address),
			strings.TrimSpace(eventWords(e)+" "+terminal.Escape(strings.Trim(e.Domain+" "+e.Rule, " "))), terminal.Escape(strings.TrimSpace(why)))
	}
	return table.flush()
}

// tokenOf is the token of a line, with the teams for which it stands.
func tokenOf(e *rulestore.Event) string {
	if e.Token == "" || len(e.Teams) == 0 {
		return e.Token
	}
	return e.Token + " of " + strings.Join(e.Teams, ",")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return terminal.Escape(text)
}

func auditVerifyCommand() *cobra.Command {
	var o auditPlace
	var heads []string
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that no line of the audit was changed, removed or added in between",
		Long: `Check that the lines of the audit are one chain: each has a hash of what it says and
of the line before. It prints the head, the number and hash of the last line. Keep
it where those who may write the database can't, and give it by --head later: the
chain alone does not show that its end was cut off, or that all of it was made
anew.

With --data it reads the database itself; else it asks a daemon, and believes what
that says. With FILE, or - for stdin, it checks lines as GET /v1/audit?format=jsonl
gives them. These may begin right behind a head that is given.

Exit codes: 0 all is well, 1 lines are no chain or a head is not in it.`,
		Example: `  weir audit verify --data /var/lib/weir
  weir audit verify --data postgres://auditor@db.example/weir --head 1234:5f0c…
  weir audit verify audit.jsonl`,
		Args: cobra.MaximumNArgs(1),
	}
	o.flags(cmd, "print JSON")
	cmd.Flags().StringSliceVar(&heads, "head", nil, "`NUMBER:HASH` that was kept, and must be in the audit; may be repeated")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		var kept []rulestore.Head
		for _, text := range heads {
			h, err := rulestore.ParseHead(text)
			if err != nil {
				return usagef("--%v", err)
			}
			kept = append(kept, h)
		}
		if len(args) > 0 {
			if o.data != "" || cmd.Flags().Changed("addr") {
				return usagef("%s: lines come from a file, a database or a daemon; name one of them", args[0])
			}
			v, err := verifyFile(cmd.InOrStdin(), args[0], kept)
			if err != nil {
				return err
			}
			return o.printVerdict(cmd.OutOrStdout(), v)
		}
		return o.read(cmd, func(store *rulestore.Store, lines auditLines) error {
			var v rulestore.Verdict
			var err error
			if store != nil {
				v, err = store.Verify(cmd.Context(), kept)
			} else {
				v, err = verifyLines(cmd.Context(), lines, kept)
			}
			if err != nil {
				return err
			}
			return o.printVerdict(cmd.OutOrStdout(), v)
		})
	})
	return cmd
}

// verifyLines checks the lines that a daemon lists.
func verifyLines(ctx context.Context, lines auditLines, kept []rulestore.Head) (rulestore.Verdict, error) {
	c := rulestore.Chain{Kept: kept}
	for behind := int64(0); ; {
		list, err := lines(ctx, rulestore.Audited{Behind: behind})
		if err != nil || len(list) == 0 {
			return c.Verdict(rulestore.Unnumbered), err
		}
		for i := range list {
			c.Add(&list[i])
			behind = max(behind, list[i].Seq)
		}
	}
}

// maxAuditLine is how long a line of a file may be, in bytes: a reason, with each byte of it escaped, and what stands beside it.
const maxAuditLine = 1 << 20

// openInput opens a file, or standard input for -.
func openInput(stdin io.Reader, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// verifyFile checks the lines of a file, as the API gives them.
func verifyFile(stdin io.Reader, name string, kept []rulestore.Head) (rulestore.Verdict, error) {
	in, err := openInput(stdin, name)
	if err != nil {
		return rulestore.Verdict{}, err
	}
	defer in.Close() // nothing was written, so there is nothing to lose
	c := rulestore.Chain{Kept: kept}
	text := bufio.NewScanner(in)
	text.Buffer(nil, maxAuditLine)
	n := 0
	for text.Scan() {
		if n++; len(strings.TrimSpace(text.Text())) == 0 {
			continue
		}
		var e rulestore.Event
		d := json.NewDecoder(strings.NewReader(text.Text()))
		d.DisallowUnknownFields() // the hash would not tell of it
		if err := d.Decode(&e); err != nil || e.Hash == "" {
			return rulestore.Verdict{}, usagef("%s:%d: this is no line of an audit; keep GET /v1/audit?format=jsonl as it is", name, n)
		}
		c.Add(&e)
	}
	if err := text.Err(); err != nil {
		return rulestore.Verdict{}, usagef("%s:%d: %v", name, n+1, err)
	}
	return c.Verdict(rulestore.Unnumbered), nil
}

func (o *auditPlace) printVerdict(out io.Writer, v rulestore.Verdict) error {
	var err error
	if o.asJSON {
		if v.Faults == nil {
			v.Faults = []rulestore.Fault{} // never null
		}
		err = json.NewEncoder(out).Encode(v)
	} else {
		err = printVerdict(out, v)
	}
	if err == nil && len(v.Faults) > 0 {
		err = &failure{code: exitNo}
	}
	return err
}

func printVerdict(out io.Writer, v rulestore.Verdict) error {
	var b strings.Builder
	for _, f := range v.Faults {
		fmt.Fprintf(&b, "%s\n", f.Text)
	}
	if v.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", v.More)
	}
	what := "unchanged"
	if len(v.Faults) > 0 {
		what = "changed"
	}
	fmt.Fprintf(&b, "audit: %d lines, %s\n", v.Lines, what)
	if v.Withheld > 0 {
		fmt.Fprintf(&b, "%d of them name clients of other teams, and came without that: their hashes were not compared; use a token of all teams, or --data\n", v.Withheld)
	}
	if v.Lines > 0 {
		fmt.Fprintf(&b, "head %s\n", terminal.Escape(v.Head.String()))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
