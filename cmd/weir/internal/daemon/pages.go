package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/rulefeed"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
	"github.com/weir-limit/weir/rules"
)

// shadowClients is how many clients of each kind a page tells of.
const shadowClients = 10

// pages is what the admin listener shows to browsers.
func (d *Daemon) pages() (http.Handler, error) {
	signIn, err := attempts("sign-in")
	if err != nil {
		return nil, err
	}
	origin, _, err := d.config.external()
	if err != nil {
		return nil, err
	}
	o := webui.Options{
		External: origin, Secure: strings.HasPrefix(origin, "https:"),
		Check: d.fits, Attempts: signIn, Scope: d.scope,
		Client:  func(r *http.Request) string { return httpapi.Neighbourhood(r.RemoteAddr) },
		Address: from, Audit: d.auditVisit, Wrong: func(r *http.Request) { d.auditLog.Wrong(from(r)) },
		Limited: d.limitedNow, Unblock: d.unblock, Decides: d.decides,
		Rules: d.limiter.Set, Files: d.fileRules, Node: d.describe, Book: d.limiter.Book, Name: d.clientName, Explainer: d.limiter, Report: d.shadowReport, Log: d.config.Log,
	}
	if d.needsToken() {
		o.SignIn, o.FileToken = d.signIn, d.fileToken
		o.Provider, o.Person = d.openProvider(origin), d.person
	}
	if d.feed != nil {
		o.Store, o.Changes, o.Charts, o.Ping = d.feed.Store, d.changes, d.chart, d.webhooks.Ping
	}
	return webui.New(o)
}

// fileRules is the active rules that come from files.
func (d *Daemon) fileRules() *rules.Set {
	d.parts.mu.Lock()
	defer d.parts.mu.Unlock()
	return d.parts.files
}

// shadowReport is how a version in shadow differs from the active rules, as far as is known; nil: it does not run.
func (d *Daemon) shadowReport(ctx context.Context, domain, rule string, version int64) *shadow.Report {
	for _, r := range d.reports(ctx, domain, shadowClients) {
		if r.Key.Rule == rule && r.Key.Version == version {
			return r
		}
	}
	return nil
}

// describe is what a page says of this node, and of the others of its cluster.
func (d *Daemon) describe(ctx context.Context) webui.Node {
	n := webui.Node{Facts: d.facts(ctx)}
	for _, s := range d.sharers().List(ctx) {
		n.Sharers = append(n.Sharers, webui.Sharer(s))
	}
	for line := range strings.Lines(d.detail()) {
		n.Faults = append(n.Faults, strings.TrimSpace(line))
	}
	if d.storage.node == nil {
		return n
	}
	s, joined := d.storage.node.Status()
	if !joined {
		return n
	}
	n.Settled = s.Settled
	for _, m := range s.Members {
		n.Members = append(n.Members, webui.Member{
			Name: m.Name, State: m.State, Silent: inSeconds(m.SilentSeconds), GivenUp: inSeconds(m.GivenUpSeconds),
			HTTP: m.HTTP, Version: m.Version, Started: m.Started, Keys: m.Keys,
		})
	}
	for _, p := range membership.PartsOf(d.limiter.Set(), &s) {
		n.Cluster = append(n.Cluster, webui.Fact{Name: "Keys of rules with partition: " + p.Partition, Value: p.Told()})
	}
	n.Cluster = append(n.Cluster, []webui.Fact{
		{Name: "Keys that it is asked about", Value: fmt.Sprintf("%d, and leases on %d", s.Keys.Asked, s.Keys.Leases)},
		{Name: "Keys whose counts it keeps", Value: fmt.Sprintf("%d, and backups of %d for other owners", s.Keys.Owned, s.Keys.Backup)},
		{Name: "Takes that owners decided", Value: fmt.Sprintf("%d, and %d were denied for want of an answer", s.Takes.Whole, s.Takes.Unanswered)},
		{Name: "Takes that wait for an owner", Value: fmt.Sprint(s.Takes.Waiting)},
	}...)
	n.Cluster = append(n.Cluster, said(d.storage.node)...)
	return n
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// said is how much the node hears and says.
func said(n *membership.Node) []webui.Fact {
	in, out := "not measured yet", "not measured yet"
	if heard, sent, ok := n.Rates(); ok {
		in, out = fmt.Sprint(heard), fmt.Sprint(sent)
	}
	return []webui.Fact{{Name: "Messages received in a second", Value: in}, {Name: "Messages sent in a second", Value: out}}
}

// facts are those of this node by itself.
func (d *Daemon) facts(ctx context.Context) []webui.Fact {
	domains, all := 0, 0
	if set := d.limiter.Set(); set != nil {
		domains, all = len(set.Domains()), len(set.Rules())
	}
	in := "domains"
	if domains == 1 {
		in = "domain"
	}
	facts := []webui.Fact{
		{Name: "Version", Value: d.config.Version},
		{Name: "Started", Value: clock(d.started)},
		{Name: "Counts are kept in", Value: d.storage.scheme},
		{Name: "Active rules", Value: fmt.Sprintf("%d in %d %s", all, domains, in)},
	}
	if d.control != nil {
		facts = append(facts, d.controlFact())
	}
	if d.feed != nil {
		facts = append(facts, webui.Fact{Name: "Rule database", Value: d.revision(ctx)})
	}
	return append(facts, d.doorsOpen()...)
}

// revisionHere is the revision of the rule database that is active here.
func (d *Daemon) revisionHere() int64 {
	d.parts.mu.Lock()
	defer d.parts.mu.Unlock()
	return d.parts.revision
}

// revision says how far the active rules here are behind the database.
func (d *Daemon) revision(ctx context.Context) string {
	here := d.revisionHere()
	said := fmt.Sprintf("revision %d is active here", here)
	if here == rulefeed.Unread {
		said = "a copy is active here"
	}
	store := d.feed.Store()
	if store == nil {
		return said + "; the database was not reached yet"
	}
	switch now, err := store.Revision(ctx); {
	case err != nil:
		return said + "; the database can't be asked"
	case now != here:
		return said + fmt.Sprintf("; the database is at %d", now)
	}
	return said + ", the last there is"
}

// doorsOpen is where the daemon is reached.
func (d *Daemon) doorsOpen() (facts []webui.Fact) {
	o := d.opened.Load()
	if o == nil {
		return nil
	}
	for _, door := range []struct {
		name string
		at   *listen.Listener
	}{{"HTTP listener", o.httpAt}, {"gRPC listener", o.grpcAt}, {"Admin listener", o.adminAt}, {"Redis listener", o.respAt}} {
		if door.at != nil {
			facts = append(facts, webui.Fact{Name: door.name, Value: listen.AsFlag(door.at.Addr())})
		}
	}
	return facts
}

// signIn is who holds a token: of the file that opens the listener, or of the rule
// database.
func (d *Daemon) signIn(ctx context.Context, token string) (rulestore.Actor, error) {
	if d.keys.tokens != nil && d.keys.tokens.Has([]byte(token)) {
		return fileAdmin(), nil
	}
	if d.feed == nil {
		return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unknown, Text: "the token is not in the file of --admin-token-file"}
	}
	store := d.feed.Store()
	if store == nil {
		return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unavailable, Text: "the rule database, which knows the tokens, can't be reached; sign in with one of the file of --admin-token-file"}
	}
	return store.Authenticate(ctx, token)
}

// fileToken is who holds a token of the file that opens the listener, whose SHA-256 sum is meant.
func (d *Daemon) fileToken(is func(sum [sha256.Size]byte) bool) (rulestore.Actor, bool) {
	return fileAdmin(), d.keys.tokens != nil && d.keys.tokens.Any(is)
}

// isPage is whether a request is for the pages, which ask for a token themselves.
func isPage(r *http.Request) bool {
	return r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, webui.Home)
}
