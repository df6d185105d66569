package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/rulefeed"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/internal/atomicfile"
	"github.com/weir-limit/weir/rules"
)

// openFeed makes the feed of the rule database, of rules that check does not refuse, which keeps exceptions as the database has them;
// nil when there is no database.
func openFeed(c *Config, check func(*rules.Set) error, exceptions *rules.Exceptions) (*rulefeed.Feed, error) {
	if c.Data == "" {
		return nil, nil
	}
	file, err := copyFile(c.Data)
	if err != nil {
		return nil, err
	}
	return rulefeed.Open(c.Data, rulefeed.Options{Copy: file, Check: check, Exceptions: exceptions}), nil
}

// copyFile is where the last good copy of a database's rules is kept: beside a
// database in a folder, else in the user's cache.
func copyFile(data string) (string, error) {
	if !rulestore.IsPostgres(data) {
		return filepath.Join(data, "rules.copy"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", &ConfigError{"--data", "a copy of the rules has no place: " + err.Error()}
	}
	name := "a database"
	if u, err := url.Parse(data); err == nil {
		name = u.Redacted() // so that a new password leaves the copy
	}
	return filepath.Join(dir, "weir", "rules", fmt.Sprintf("%x.copy", sha256.Sum256([]byte(name)))), nil
}

// parts is the rules of files, or of a daemon, and those of the database, each as
// they were last told of.
type parts struct {
	mu          sync.Mutex // held while rules are put in force
	files       *rules.Set // nil: there are none
	filesErr    error      // why others should be active
	database    []*rules.Set
	databaseErr error
	revision    int64 // of the database; rulefeed.Unread: a copy
}

// sets is the rules to put in force together. A domain of both files and database
// comes from the files; the error says so. It is joined with those of the parts.
func (p *parts) sets() (sets []*rules.Set, err error) {
	taken := map[string]bool{}
	if p.files != nil {
		sets = append(sets, p.files)
		for _, name := range p.files.Domains() {
			taken[name] = true
		}
	}
	errs := []error{p.filesErr, p.databaseErr}
	for _, set := range p.database {
		if name := set.Domains()[0]; taken[name] {
			errs = append(errs, fmt.Errorf("domain %s is in the files and in the rule database; the files are active: remove it from one of them", name))
			continue
		}
		sets = append(sets, set)
	}
	return sets, errors.Join(errs...)
}

// published puts in force what the database tells of.
func (d *Daemon) published(n rulefeed.News) {
	d.metrics.Reloads(databaseResult(n.Err))
	d.tryTrials(n.Candidates)
	d.update(func(p *parts) { p.database, p.databaseErr, p.revision = n.Sets, n.Err, n.Revision }, n.Changed...)
	d.config.Log.Info("rules of the database are active", "revision", n.Revision, "domains", len(n.Sets))
}

// granted finds who made the exception of a count, and why. Its time is short: an explanation waits for it.
func (d *Daemon) granted(ctx context.Context, at weir.StateKey) (rules.Grant, error) {
	store := d.feed.Store()
	if store == nil {
		return rules.Grant{}, errors.New("the rule database was not reached yet")
	}
	ctx, stop := context.WithTimeout(ctx, grantTime)
	defer stop()
	e, err := store.ExceptionOf(ctx, at)
	if rulestore.IsKind(err, rulestore.NotFound) {
		return rules.Grant{}, nil // it has ended since
	}
	if err != nil {
		return rules.Grant{}, fmt.Errorf("find who made an exception: %w", err)
	}
	return rules.Grant{Until: e.Until, Author: e.By(), Reason: e.Reason}, nil
}

// grantTime is how long an explanation waits for the rule database to tell of an exception.
const grantTime = 2 * time.Second

// databaseMetric tells which revision is active.
func (d *Daemon) databaseMetric() []prometheus.Metric {
	return []prometheus.Metric{
		telemetry.Gauge("weir_rules_database_revision",
			"Revision of the rule database that is active on this node; 0 when the node uses its local copy, or nothing was "+
				"changed yet.", max(d.revisionHere(), 0)),
		telemetry.Gauge("weir_exceptions", "Exceptions that hold on this node: keys that have a limit of their own for a time.",
			int64(d.exceptions.Active(weir.InstantOf(time.Now())))),
		telemetry.Gauge("weir_tokens_ending", "Tokens of the rule database that end within 14 days.", d.tokensEnding.Load()),
		telemetry.Gauge("weir_sessions", "Sessions at the pages, on all nodes of the rule database, to a minute.", d.sessions.Load()),
	}
}

// databaseResult is the result of a reload as metrics have it.
func databaseResult(err error) string {
	bad, away := errors.AsType[*rulestore.Error](err)
	switch {
	case err == nil:
		return "loaded"
	case away && bad.Kind == rulestore.Unavailable:
		return "unreadable"
	}
	return "refused"
}

// loadDatabase reads the rules of the database to begin with.
func (d *Daemon) loadDatabase() error {
	n, err := d.feed.Load(context.Background()) // it has a timeout of its own
	if bad, ok := errors.AsType[*rulestore.Error](err); ok && bad.Kind == rulestore.Invalid {
		return &ConfigError{"--data", bad.Text}
	}
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	d.parts.database, d.parts.databaseErr, d.parts.revision = n.Sets, n.Err, n.Revision
	d.tryTrials(n.Candidates)
	return nil
}

// tryTrials lets what is in shadow in the database run beside what is active, from
// the next update on.
func (d *Daemon) tryTrials(candidates []rulefeed.Candidate) {
	d.comparing.Lock()
	defer d.comparing.Unlock()
	d.trials = nil
	for _, c := range candidates {
		d.trials = append(d.trials, shadow.Candidate{Item: c.Item, Version: c.Version, Over: c.Beside})
	}
}

// sayFirstToken makes a token for everything when the database has none yet, and says
// in which file it is: what is printed ends up in logs.
func (d *Daemon) sayFirstToken(ctx context.Context) {
	if d.feed == nil || d.feed.Store() == nil {
		return
	}
	token, err := d.feed.Store().FirstToken(ctx)
	if err == nil && token == "" {
		return
	}
	file, badPlace := copyFile(d.config.Data)
	file = strings.TrimSuffix(file, "copy") + "first-token"
	if err = errors.Join(err, badPlace); err == nil {
		err = atomicfile.Put(file, []byte(token+"\n"))
	}
	if err == nil {
		_, err = fmt.Fprintf(d.config.Stdout, "token: in %s, of an administrator; read it and remove the file\n", file)
	}
	if err != nil {
		d.config.Log.Error("the first token of the rule database could not be made and kept; make one with weir token create --data", "error", err)
	}
}

// sharers are the nodes of the rule database.
func (d *Daemon) sharers() *membership.Sharers {
	return &membership.Sharers{
		Database: d.sharedDatabase, Revision: d.revisionHere, Name: d.name, Version: d.config.Version, Log: d.config.Log,
	}
}

// sharedDatabase is the rule database, if other nodes may have it too, and it was
// reached.
func (d *Daemon) sharedDatabase() *rulestore.Store {
	if d.feed == nil {
		return nil
	}
	if store := d.feed.Store(); store != nil && store.Shared() {
		return store
	}
	return nil
}

// name is what nodes that share a rule database call this one: by its cluster, else
// its machine and admin listener.
func (d *Daemon) name() string {
	if d.storage.node != nil {
		if name := d.storage.node.Name(); name != "" {
			return name
		}
	}
	at := d.opened.Load().adminAt.Addr()
	host, err := os.Hostname()
	_, port, bad := net.SplitHostPort(at.String())
	if err != nil || bad != nil {
		return listen.AsFlag(at)
	}
	return net.JoinHostPort(host, port)
}
