package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens that change rules",
		Long: `Make, list and revoke the tokens that change rules, at a daemon's admin listener as an
administrator. With --data DIR the rule database is asked directly: who may write
it needs no token, so that the first one can be made, also while a daemon runs.

The database keeps hashes: what create prints can't be read again.`,
		Example: `  weir token create --data /var/lib/weir --actor ops --role admin --team '*' --reason "the first"
  weir token create --actor ann --role publish --team shop --reason "she is of the shop"
  weir token list
  weir token revoke --reason "she has left" qkzbxhnvyd`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(tokenCreateCommand(), tokenListCommand(), tokenRevokeCommand())
	return cmd
}

// tokenKeeper is where tokens are: a daemon, or its database.
type tokenKeeper interface {
	create(context.Context, ruleapi.NewToken) (rulestore.Token, error)
	list(context.Context, func(rulestore.Token) error) error
	revoke(ctx context.Context, id, reason string) error
	Close() error
}

// tokenPlace is which keeper a command asks.
type tokenPlace struct{ database }

// database is a rule database, which is asked by a daemon or itself.
type database struct {
	addr   address
	data   string
	asJSON bool
}

func (o *database) flags(cmd *cobra.Command, json string) {
	f := cmd.Flags()
	o.addr.rulesFlags(f)
	f.StringVar(&o.data, "data", "", "`DIR` or URL of a rule database, as of weir serve --data, to be asked without a daemon")
	f.BoolVar(&o.asJSON, "json", false, json)
	for _, flag := range []string{"addr", "token-file", "ca", "cert", "key"} {
		cmd.MarkFlagsMutuallyExclusive("data", flag)
	}
}

// with opens the keeper for one use. fresh is whether a database may be made.
func (o *tokenPlace) with(cmd *cobra.Command, fresh bool, use func(tokenKeeper) error) error {
	keeper, err := o.open(cmd, fresh)
	if err != nil {
		return refusedByStore(err)
	}
	return refusedByStore(errors.Join(use(keeper), keeper.Close()))
}

func (o *tokenPlace) open(cmd *cobra.Command, fresh bool) (tokenKeeper, error) {
	if o.data == "" {
		api, err := o.addr.rules()
		return apiTokens{api}, err
	}
	store, err := o.store(cmd, fresh)
	return databaseTokens{store}, err
}

// store opens the database itself. fresh is whether it may be made.
func (o *database) store(cmd *cobra.Command, fresh bool) (*rulestore.Store, error) {
	if !rulestore.IsPostgres(o.data) {
		_, err := os.Stat(filepath.Join(o.data, rulestore.File))
		switch {
		case errors.Is(err, os.ErrNotExist) && !fresh:
			return nil, usagef("--data %s: there is no rule database; name the folder of weir serve --data", o.data)
		case errors.Is(err, os.ErrNotExist):
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "weir: %s has no rule database yet; it is made\n", o.data); err != nil {
				return nil, err
			}
		}
	}
	return rulestore.Open(cmd.Context(), o.data)
}

// refusedByStore gives errors of the rule database their exit code.
func refusedByStore(err error) error {
	if rulestore.IsKind(err, rulestore.Invalid) || rulestore.IsKind(err, rulestore.NotFound) {
		return &failure{exitUsage, err}
	}
	return err
}

func tokenCreateCommand() *cobra.Command {
	var o tokenPlace
	var want ruleapi.NewToken
	var days int64
	cmd := &cobra.Command{
		Use:   "create --actor NAME --role ROLE --team TEAM --reason TEXT",
		Short: "Make a token, and print it this once",
		Long: `Make a token for a person or program, and print it this once: its holder may do
what its role says, for the rules of its teams. With --certificate nothing is
printed: a client that shows the daemon a certificate with this URI, from the CA of its
--tls-client-ca, needs no token.

  read     see rules, history and reports of all teams
  propose  make versions, and run them in shadow
  publish  enforce, disable, take away, roll back, open and tighten
  admin    make domains and tokens, change quotas and owners`,
		Example: `  weir token create --actor ann --role publish --team shop --reason "she is of the shop"
  weir token create --actor ci-shop --role propose --team shop --days 365 --reason "plans of pull requests" > token
  weir token create --actor ci-shop --role propose --team shop --days 0 --certificate spiffe://example.org/ci/shop --reason "plans of pull requests"`,
		Args: noArguments,
	}
	o.flags(cmd, jsonOfTokens)
	f := cmd.Flags()
	f.StringVar(&want.Actor, "actor", "", "`NAME` of its holder, as the history shows it")
	f.StringVar(&want.Role, "role", "", "`ROLE`: "+theValues)
	choice(cmd, "role", rulestore.Roles()...)
	f.StringSliceVar(&want.Teams, "team", nil, "`TEAM` it stands for; several with commas, '*' for all")
	f.StringVar(&want.Certificate, "certificate", "", "`URI` among the subject alternative names of a certificate that stands for it, as spiffe://example.org/ci")
	f.Int64Var(&days, "days", 90, "`N` days that it lives; 0: until it is revoked")
	needReason(cmd, &want.Reason)
	needFlags(cmd, "actor", "role", "team")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if days < 0 || days > maxTokenDays {
			return usagef("--days %d: write how many days it lives, from 1 to %d, or 0: until it is revoked", days, maxTokenDays)
		}
		want.Seconds = days * 24 * 60 * 60
		return o.with(cmd, true, func(k tokenKeeper) error {
			made, err := k.create(cmd.Context(), want)
			if err != nil {
				return err
			}
			return o.printMade(cmd, made)
		})
	})
	return cmd
}

// jsonOfTokens is the help of --json.
const jsonOfTokens = "print JSON, an object for each token"

// maxTokenDays is ten years.
const maxTokenDays = 3660

// printMade prints a token for a file or a variable, and about it for people.
func (o *tokenPlace) printMade(cmd *cobra.Command, made rulestore.Token) error {
	if o.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(made)
	}
	what := "it is shown this once"
	if made.Certificate != "" {
		what = "a client with the certificate " + made.Certificate + " holds it"
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "weir: token %s of %s, %s for %s, %s; %s\n",
		made.ID, made.Actor, made.Role, strings.Join(made.Teams, ", "), lifeOf(&made, made.Made), what)
	if made.Certificate == "" {
		_, lost := fmt.Fprintln(cmd.OutOrStdout(), made.Text)
		err = errors.Join(err, lost)
	}
	return err
}

func tokenListCommand() *cobra.Command {
	var o tokenPlace
	var noHeaders bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens: their IDs, their holders, and how long they live",
		Example: `  weir token list --data /var/lib/weir`,
		Args:    noArguments,
	}
	o.flags(cmd, jsonOfTokens)
	noHeadersFlag(cmd.Flags(), &noHeaders)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		return o.with(cmd, false, func(k tokenKeeper) error {
			return o.printList(cmd.Context(), cmd.OutOrStdout(), k, noHeaders)
		})
	})
	return cmd
}

func (o *tokenPlace) printList(ctx context.Context, out io.Writer, k tokenKeeper, noHeaders bool) error {
	list := newListing(out, noHeaders, "ID", "ACTOR", "ROLE", "TEAMS", "VALID", "LAST USED")
	lines := json.NewEncoder(out)
	err := k.list(ctx, func(t rulestore.Token) error {
		if o.asJSON {
			return lines.Encode(t)
		}
		list.row(t.ID, terminal.Escape(t.Actor), t.Role.String(), terminal.Escape(strings.Join(t.Teams, ",")), lifeOf(&t, time.Now()), useOf(&t)+certificateOf(&t))
		return nil
	})
	return errors.Join(err, list.flush())
}

// lifeOf says how long a token counts.
func lifeOf(t *rulestore.Token, now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked " + t.Revoked.Format(time.RFC3339)
	case t.Expires.IsZero():
		return "until it is revoked"
	case !now.Before(t.Expires):
		return "expired " + t.Expires.Format(time.RFC3339)
	}
	if t.EndsSoon(now) {
		return "ends soon: " + t.Expires.Format(time.RFC3339)
	}
	return "until " + t.Expires.Format(time.RFC3339)
}

// useOf says when a token was last used.
func useOf(t *rulestore.Token) string {
	if t.Used.IsZero() {
		return "never"
	}
	return t.Used.Format(time.RFC3339)
}

// certificateOf is the certificate that stands for it, if any.
func certificateOf(t *rulestore.Token) string {
	if t.Certificate == "" {
		return ""
	}
	return "  " + terminal.Escape(t.Certificate)
}

func tokenRevokeCommand() *cobra.Command {
	var o tokenPlace
	var reason string
	cmd := &cobra.Command{
		Use:     "revoke ID --reason TEXT",
		Short:   "End a token",
		Example: `  weir token revoke --reason "she has left" qkzbxhnvyd`,
		Args:    wanted("ID"),
	}
	o.flags(cmd, jsonOfTokens)
	needReason(cmd, &reason)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		return o.with(cmd, false, func(k tokenKeeper) error {
			if err := k.revoke(cmd.Context(), args[0], reason); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "token %s: revoked\n", terminal.Escape(args[0]))
			return err
		})
	})
	return cmd
}

// databaseTokens are those of a database, for an operator that may write it.
type databaseTokens struct{ *rulestore.Store }

// localActor is who asks a database directly: all may be done, and the audit has
// the name of the user.
func localActor() rulestore.Actor {
	name := rulestore.Local
	if u, err := user.Current(); err == nil {
		name += "/" + strings.Map(func(r rune) rune {
			if r > ' ' && r <= '~' && !strings.ContainsRune(`"\`, r) {
				return r
			}
			return '_'
		}, u.Username)
	}
	return rulestore.Actor{Name: name, Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}, Address: rulestore.Local}
}

func (d databaseTokens) create(ctx context.Context, want ruleapi.NewToken) (rulestore.Token, error) {
	return want.Make(ctx, d.Store, localActor())
}

func (d databaseTokens) list(ctx context.Context, each func(rulestore.Token) error) error {
	for behind := ""; ; {
		page, next, err := d.Tokens(ctx, localActor(), behind, 0)
		if err != nil {
			return err
		}
		for _, k := range page {
			if err := each(k); err != nil {
				return err
			}
		}
		if behind = next; behind == "" {
			return nil
		}
	}
}

func (d databaseTokens) revoke(ctx context.Context, id, reason string) error {
	return d.RevokeToken(ctx, localActor(), id, reason)
}
