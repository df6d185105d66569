package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/sim"
)

// ruleStep is what commands that change one rule are told.
type ruleStep struct {
	addr    address
	version int64
	reason  string
	force   bool
	asJSON  bool
}

func (o *ruleStep) flags(cmd *cobra.Command, version string) {
	f := cmd.Flags()
	o.addr.rulesFlags(f)
	f.Int64Var(&o.version, "version", 0, version)
	needReason(cmd, &o.reason)
	f.BoolVar(&o.asJSON, "json", false, "print the rule as the daemon answers it")
}

// versionsOf says in words which versions a rule has.
func versionsOf(r *ruleapi.Rule) string {
	var words []string
	active := string(rulestore.Enforced)
	if r.State == string(rulestore.Disabled) {
		active = r.State
	}
	for _, v := range []struct {
		what   string
		number int64
	}{{active, r.Enforced}, {"shadow", r.Shadow}, {"draft", r.Draft}} {
		if v.number != 0 {
			words = append(words, fmt.Sprintf("%s %d", v.what, v.number))
		}
	}
	if r.Disabling != nil {
		words = append(words, "to be disabled, as "+terminal.Escape(r.Disabling.Actor)+" asks")
	}
	return strings.Join(words, ", ")
}

// proposed is the version that is asked for, or else the one that is proposed.
func proposed(r *ruleapi.Rule, t ruleTarget, version int64) (int64, error) {
	for _, n := range []int64{version, r.Shadow, r.Draft} {
		if n != 0 {
			return n, nil
		}
	}
	return 0, usagef("%s has nothing in shadow or draft; name a version, which weir rules history lists", t)
}

func rulesPublishCommand() *cobra.Command {
	var o ruleStep
	cmd := &cobra.Command{
		Use:   "publish DOMAIN RULE --reason TEXT",
		Short: "Enforce the version of a rule that is proposed",
		Long: `Enforce the version of a rule that is in shadow, or else the draft, or the one of
--version. The daemon refuses what would deny many more requests than now, unless
it is forced; in domains under review the author can't publish it.`,
		Example: `  weir rules publish --reason "shadow denied no client" shop user
  weir rules publish --version 4 --force --reason "they were told" shop path=/export`,
		Args: exactTarget,
	}
	o.flags(cmd, "`NUMBER` of the version (default: the one in shadow, else the draft)")
	forceFlag(cmd, &o.force)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.change(cmd, target(args), "state", func(r *ruleapi.Rule) (any, error) {
			n, err := proposed(r, target(args), o.version)
			return map[string]any{"version": n, "to": "enforced", "reason": o.reason, "force": o.force}, err
		})
	})
	return cmd
}

func rulesRollbackCommand() *cobra.Command {
	var o ruleStep
	cmd := &cobra.Command{
		Use:   "rollback DOMAIN RULE --reason TEXT",
		Short: "Enforce an older version of a rule again",
		Long: `Enforce the version of a rule that was active before the active one, or the one
of --version. The history keeps both.`,
		Example: `  weir rules rollback --reason "too few for the sale" shop user
  weir rules rollback --version 3 --reason "as it was in spring" shop user`,
		Args: exactTarget,
	}
	o.flags(cmd, "`NUMBER` of the version (default: the one that was active before)")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.change(cmd, target(args), "rollback", func(*ruleapi.Rule) (any, error) {
			return map[string]any{"version": o.version, "reason": o.reason}, nil
		})
	})
	return cmd
}

func rulesWithdrawCommand() *cobra.Command {
	var o ruleStep
	cmd := &cobra.Command{
		Use:   "withdraw DOMAIN RULE --reason TEXT",
		Short: "Take back a version that is proposed",
		Long: `Take back the version of a rule that is in shadow, or else the draft, or the one of
--version. The active rule stays as it is.`,
		Example: `  weir rules withdraw --reason "it would deny the checkout" shop user`,
		Args:    exactTarget,
	}
	o.flags(cmd, "`NUMBER` of the version (default: the one in shadow, else the draft)")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.change(cmd, target(args), "state", func(r *ruleapi.Rule) (any, error) {
			n, err := proposed(r, target(args), o.version)
			return map[string]any{"version": n, "to": "withdrawn", "reason": o.reason}, err
		})
	})
	return cmd
}

func rulesDisableCommand() *cobra.Command {
	var o ruleStep
	cmd := &cobra.Command{
		Use:   "disable DOMAIN RULE --reason TEXT",
		Short: "Leave a rule out until it is enforced again",
		Long: `Leave the active version of a rule out until it is enforced again. In a domain
under review it takes two people: the first one asks for it, and the rule stays
active; the same command by another one does it. weir rules withdraw --version
with the active version takes back what was asked for.`,
		Example: `  weir rules disable --reason "the export has moved" shop path=/export`,
		Args:    exactTarget,
	}
	o.flags(cmd, "`NUMBER` of the version (default: the active one)")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.change(cmd, target(args), "state", func(r *ruleapi.Rule) (any, error) {
			n := cmp.Or(o.version, r.Enforced)
			if n == 0 {
				return nil, usagef("%s has no active version", target(args))
			}
			return map[string]any{"version": n, "to": "disabled", "reason": o.reason}, nil
		})
	})
	return cmd
}

// change reads a rule, sends a change of it, and prints the rule as it is then. An author that
// changed the rule in between loses nothing: the call is refused.
func (o *ruleStep) change(cmd *cobra.Command, t ruleTarget, call string, body func(*ruleapi.Rule) (any, error)) error {
	if o.version < 0 {
		return usagef("--version %d: versions are numbered from 1", o.version)
	}
	api, err := o.addr.rules()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	seen, err := api.call(ctx, ruleCall{method: http.MethodGet, path: t.path()})
	if err != nil {
		return err
	}
	var r ruleapi.Rule
	if err := seen.into(&r); err != nil {
		return err
	}
	send, err := body(&r)
	if err != nil {
		return err
	}
	now, err := api.post(ctx, ruleCall{path: t.path(call), match: seen.etag}, send)
	if err != nil {
		return err
	}
	return o.print(cmd.OutOrStdout(), t, r.Enforced, now)
}

func (o *ruleStep) print(out io.Writer, t ruleTarget, before int64, now *ruleAnswer) error {
	if o.asJSON {
		_, err := out.Write(now.body)
		return err
	}
	var r ruleapi.Rule
	if err := now.into(&r); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: version %d is active", t, r.Enforced)
	switch {
	case r.Disabling != nil:
		text = fmt.Sprintf("%s: version %d is active until another person disables it, as %s asks", t, r.Enforced, terminal.Escape(r.Disabling.Actor))
	case r.State == "gone":
		text = fmt.Sprintf("%s: it is not there any more", t)
	case r.State != "enforced":
		text = fmt.Sprintf("%s: it is not active", t)
	}
	if before != 0 && before != r.Enforced {
		text += fmt.Sprintf(", before it was version %d", before)
	}
	_, err := fmt.Fprintf(out, "%s; revision %d\n", text, r.Revision)
	return err
}

// ruleOverride is what open, tighten and end are told.
type ruleOverride struct {
	addr    address
	percent int64
	long    time.Duration
	reason  string
	asJSON  bool
}

func (o *ruleOverride) flags(cmd *cobra.Command) {
	o.addr.rulesFlags(cmd.Flags())
	needReason(cmd, &o.reason)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the domain as the daemon answers it")
}

func (o *ruleOverride) forFlag(cmd *cobra.Command) {
	cmd.Flags().Var((*timeFlag)(&o.long), "for", "`TIME` that it holds, as 30min, 2h or 1day; a week at most")
	needFlags(cmd, "for")
}

func rulesOpenCommand() *cobra.Command {
	var o ruleOverride
	cmd := &cobra.Command{
		Use:   "open DOMAIN [RULE] --for TIME --reason TEXT",
		Short: "Let all pass for a time, as in an incident",
		Long: `Let all requests of a domain, or of one rule, pass for a time. Counts go on, and
what would have been denied is reported. Then the limits are back by themselves,
on every node, or with weir rules end before. In a domain under review, one
person alone can do it for an hour in 24 hours; when another person does the
same, it holds as long as that one says.`,
		Example: `  weir rules open --for 30m --reason "a customer is locked out" shop user`,
		Args:    anyTarget,
	}
	o.flags(cmd)
	o.forFlag(cmd)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.run(cmd, target(args), "open")
	})
	return cmd
}

func rulesTightenCommand() *cobra.Command {
	var o ruleOverride
	cmd := &cobra.Command{
		Use:   "tighten DOMAIN [RULE] --percent N --for TIME --reason TEXT",
		Short: "Let only a part of each limit pass for a time, as in an incident",
		Long: `Let only N percent of each limit of a domain, or of one rule, pass for a time:
rounded down, and one event at least. Then the limits are back by themselves, on
every node, or with weir rules end before. In a domain under review, one person
alone can do it for an hour in 24 hours, as with weir rules open.`,
		Example: `  weir rules tighten --percent 50 --for 1h --reason "the database is slow" shop`,
		Args:    anyTarget,
	}
	o.flags(cmd)
	o.forFlag(cmd)
	cmd.Flags().Int64Var(&o.percent, "percent", 0, "`N` percent of each limit still pass, 1 to 99")
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		if o.percent < 1 || o.percent > 99 {
			return usagef("--percent %d: write how much of each limit still passes, from 1 to 99; to let all pass, weir rules open", o.percent)
		}
		return o.run(cmd, target(args), "tighten")
	})
	return cmd
}

func rulesEndCommand() *cobra.Command {
	var o ruleOverride
	cmd := &cobra.Command{
		Use:   "end DOMAIN [RULE] --reason TEXT",
		Short: "End an open or tighten before its time",
		Long: `End an open or tighten of a domain, or of one rule. An open or tighten of
single rules goes on when that of their domain ends; the answer names them.`,
		Example: `  weir rules end --reason "the incident is over" shop`,
		Args:    anyTarget,
	}
	o.flags(cmd)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.run(cmd, target(args), "end")
	})
	return cmd
}

// maxOverride is how long an override may hold.
const maxOverride = 7 * 24 * time.Hour

func (o *ruleOverride) run(cmd *cobra.Command, t ruleTarget, mode string) error {
	body := map[string]any{"mode": mode, "reason": o.reason}
	if mode != "end" {
		if o.long < time.Second || o.long > maxOverride {
			return usagef("--for %s: write a time from 1s to 1week; for longer, change the rule", sim.TimeText(o.long))
		}
		body["seconds"] = int64(o.long / time.Second)
	}
	if o.percent != 0 {
		body["percent"] = o.percent
	}
	api, err := o.addr.rules()
	if err != nil {
		return err
	}
	answer, err := api.post(cmd.Context(), ruleCall{path: t.path("override")}, body)
	if err != nil {
		return err
	}
	if o.asJSON {
		_, err := cmd.OutOrStdout().Write(answer.body)
		return err
	}
	return o.print(cmd.OutOrStdout(), t, answer)
}

func (o *ruleOverride) print(out io.Writer, t ruleTarget, answer *ruleAnswer) error {
	var domain struct {
		Overrides []rulestore.Override
	}
	if err := answer.into(&domain); err != nil {
		return err
	}
	text := "limits as they are written"
	var others []string // rules of the domain, with overrides of their own
	for _, held := range domain.Overrides {
		switch {
		case held.Rule == t.rule:
			text = overrideWords(&held)
		case held.Rule == "" && !slices.ContainsFunc(domain.Overrides, func(o rulestore.Override) bool { return o.Rule == t.rule }):
			text = overrideWords(&held) + ", as the whole domain is; weir rules end of the domain ends that"
		case t.rule == "":
			others = append(others, "rule "+held.Rule+", "+overrideWords(&held))
		}
	}
	if len(others) > 0 {
		text += ", but for " + strings.Join(others, "; ")
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", t, text)
	return err
}

// overrideWords says what holds, and how long.
func overrideWords(o *rulestore.Override) string {
	words := heldWords(o.Percent, o.Until.UTC().Format(time.RFC3339))
	if o.Unreviewed {
		words += ", by " + terminal.Escape(o.Author) + " alone; when another person does the same, it holds as long as that one says"
	}
	return words
}

// heldWords says what holds until a time.
func heldWords(percent int64, until string) string {
	what := "open"
	if percent > 0 {
		what = fmt.Sprintf("tightened to %d %%", percent)
	}
	return what + " until " + until
}
