package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/cmd/weir/internal/xds"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// loaded is the active rules, and what came of the last reload.
type loaded struct {
	set  *rules.Set   // nil: there are none yet
	sets []*rules.Set // that it was joined of
	etag string
	// failed is why other rules than these should be active; empty: these are
	// those that should be.
	failed string
	// findings is all that was found wrong in files, in their own words.
	findings []rules.Finding
}

// origin is where the rules of --rules come from: files, another daemon, or a control plane.
type origin interface {
	// Load gives the rules to begin with; with an error beside them they are the last good copy. No rules, and no error: there are
	// none yet, and Watch brings them.
	Load(ctx context.Context) (*rules.Set, error)
	// Watch tells of new rules, and of errors on whose account the rules before them stay, until ctx ends.
	Watch(ctx context.Context, tell func(*rules.Set, error))
	// Reload makes Watch look again, and tell what comes of it.
	Reload()
}

// openSource makes the source of the rules; there is none for the demo rules, which do not change and fit any store.
func (d *Daemon) openSource() error {
	if xds.Is(d.config.Rules) {
		return d.openControl()
	}
	carry, err := carrier(&d.config)
	if err != nil || d.config.Rules == "" {
		return err
	}
	s, err := source.Open(d.config.Rules, source.Options{
		Cache: d.config.RulesCache, Poll: d.config.rulesPoll, Transport: carry, Check: d.fits, NotCached: d.notKept,
	})
	if err != nil {
		return &ConfigError{"--rules", err.Error()}
	}
	d.source = s
	return nil
}

// notKept says that a start without the source of the rules would fail.
func (d *Daemon) notKept(err error) {
	d.config.Log.Warn("no copy of the rules is kept for a start without their source", "error", err)
}

// shown is what is shown to the daemon that rules come from.
func (c *Config) shown() credentials.Client {
	return credentials.Client{
		Token:       credentials.File{Flag: "--rules-token-file", Path: c.RulesTokenFile},
		CA:          credentials.File{Flag: "--rules-ca", Path: c.RulesCA},
		Certificate: credentials.File{Flag: "--rules-cert", Path: c.RulesCert}, Key: credentials.File{Flag: "--rules-key", Path: c.RulesKey},
	}
}

// carrier carries requests to the daemon that rules come from; nil when it needs
// to be shown nothing.
func carrier(c *Config) (http.RoundTripper, error) {
	show := c.shown()
	if !show.Given() {
		return nil, nil
	}
	u, err := url.Parse(c.Rules)
	if !source.IsURL(c.Rules) || err != nil {
		return nil, &ConfigError{"--rules", "--rules-token-file, --rules-ca, --rules-cert and --rules-key are for a daemon; write --rules https://HOST:PORT/v1/export"}
	}
	carry, err := show.Transport(u)
	if err != nil {
		return nil, configError(err)
	}
	return carry, nil
}

// load reads the rules to begin with.
func (d *Daemon) load() error {
	if d.feed != nil {
		if err := d.loadDatabase(); err != nil {
			return err
		}
	}
	set, err := (*rules.Set)(nil), error(nil)
	switch {
	case d.source != nil:
		if set, err = d.source.Load(context.Background()); set == nil && err != nil { // it has a timeout of its own
			return err
		}
	case d.feed == nil:
		set = rules.Demo()
	}
	d.update(func(p *parts) { p.files, p.filesErr = set, err }, set)
	release(set)
	return nil
}

// manyRules are so many that reading them leaves much behind.
const manyRules = 10_000

// release gives back to the system what reading so many rules has left behind: a
// collector that waits until memory has grown to several times what is in use would
// leave it for long.
func release(set *rules.Set) {
	if set != nil && len(set.Rules()) >= manyRules {
		debug.FreeOSMemory()
	}
}

// reloaded is what becomes of a reload of files: new rules, or an error and the
// old ones.
func (d *Daemon) reloaded(set *rules.Set, err error) {
	d.metrics.Reloads(source.Result(err))
	if set == nil {
		d.update(func(p *parts) { p.filesErr = err })
		return
	}
	d.update(func(p *parts) { p.files, p.filesErr = set, err }, set)
	d.config.Log.Info("rules reloaded", "domains", len(set.Domains()), "rules", len(set.Rules()))
	release(set)
}

// update changes a part of the rules, puts all in force, and says what there is to
// say of those that have changed.
func (d *Daemon) update(change func(*parts), changed ...*rules.Set) {
	d.parts.mu.Lock()
	defer d.parts.mu.Unlock()
	change(&d.parts)
	sets, err := d.parts.sets()
	if len(sets) == 0 && d.feed == nil {
		d.await(err)
		return
	}
	for _, set := range changed {
		if set == nil {
			continue
		}
		for _, w := range d.warnings(set) {
			d.config.Log.Warn("rule file", "finding", w.String())
		}
	}
	now := loaded{sets: sets}
	if before := d.loaded.Load(); before != nil && slices.Equal(before.sets, sets) {
		now.set, now.etag = before.set, before.etag
	} else {
		set, bad := rules.Join(sets...)
		err = errors.Join(err, bad) // it can't be: no two have a domain in common
		if d.storage.node != nil {
			d.storage.node.SetRules(set)
		}
		d.limiter.Replace(set)
		d.compare()
		d.metrics.SetRules(set, time.Now())
		now.set, now.etag = set, fmt.Sprintf(`"%x"`, sha256.Sum256(set.Export()))
	}
	if err != nil {
		now.failed, now.findings = failure(err)
		d.sayFailed(err)
	}
	d.metrics.SetReloaded(err == nil)
	d.loaded.Store(&now)
	if o := d.opened.Load(); o != nil && o.grpc != nil {
		o.grpc.SetServing(d.ready()) // these may be the first rules
	}
}

// await is what there is while a start without rules waits for the first ones: requests fail.
func (d *Daemon) await(err error) {
	now := loaded{failed: "there are no rules yet"}
	if err != nil {
		why, findings := failure(err)
		now.failed, now.findings = now.failed+": "+why, findings
	}
	d.config.Log.Warn("there are no rules yet; requests fail until there are some", "error", err)
	d.metrics.SetReloaded(false)
	d.loaded.Store(&now)
}

// warnings is what there is to say of active rules.
func (d *Daemon) warnings(set *rules.Set) []rules.Finding {
	return slices.Concat(set.Warnings(), set.Idle(d.storage.node != nil, d.storage.traits))
}

// failure is why rules could not be loaded, for anybody, and what was found. A file
// that was refused may be one that not everybody may read, as where a link leads to
// it: only positions and kinds are told.
func failure(err error) (text string, findings []rules.Finding) {
	bad, ok := errors.AsType[*rules.Error](err)
	if !ok {
		text, _, _ = strings.Cut(err.Error(), "\n")
		return terminal.Escape(text), nil
	}
	for _, f := range bad.Findings {
		if f.Severity == rules.SeverityError {
			return terminal.Escape(f.Place()), bad.Findings
		}
	}
	return "", nil
}

func (d *Daemon) sayFailed(err error) {
	_, findings := failure(err)
	if findings == nil {
		d.config.Log.Error("rules could not be reloaded; the old rules stay active", "error", err)
		return
	}
	for _, f := range findings {
		d.config.Log.Error("rule file refused; the old rules stay active; GET /v1/findings of the admin listener and weir lint quote the file",
			"finding", f.Place())
	}
}

// findings answers who may come in with all that was found wrong at the last reload.
func (d *Daemon) findings(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	for _, f := range d.loaded.Load().findings {
		if _, err := fmt.Fprintln(w, terminal.Escape(f.String())); err != nil {
			return // the client is gone
		}
	}
}

// detail is what /readyz says beside yes.
func (d *Daemon) detail() string {
	lines := d.keys.detail(time.Now())
	if away := d.away(); away != "" {
		lines = append(lines, away)
	}
	if failed := d.loaded.Load().failed; failed != "" {
		lines = append(lines, "the active rules are old because a reload failed: "+failed)
	}
	return strings.Join(lines, "\n")
}

// Reload reads the credentials again, and the rules, changed or not, without
// waiting for them. Without Config.Rules there are none to read.
func (d *Daemon) Reload() {
	d.lookAtKeys(true)
	if d.candidates != nil {
		d.candidates.Reload()
	}
	if d.source == nil {
		d.config.Log.Info("no rules to reload: they come from no file")
		return
	}
	d.source.Reload()
}

// export answers with the active rules.
func (d *Daemon) export(w http.ResponseWriter, r *http.Request) {
	now := d.loaded.Load()
	if now.set == nil {
		sendProblem(w, http.StatusServiceUnavailable, now.failed)
		return
	}
	h := w.Header()
	h.Set("ETag", now.etag)
	h.Set("Cache-Control", "no-cache") // ask each time; a 304 costs little
	if matches(r.Header.Values("If-None-Match"), now.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text := now.set.Export()
	h.Set("Content-Type", "application/yaml")
	h.Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text) // the client may be gone
}

// schema answers with the JSON Schema of rule files.
func schema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = io.WriteString(w, rules.Schema()) // the client may be gone
}

// matches is whether If-None-Match names etag, as RFC 9110 §13.1.2 has it.
func matches(fields []string, etag string) bool {
	for _, f := range fields {
		for tag := range strings.SplitSeq(f, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}
