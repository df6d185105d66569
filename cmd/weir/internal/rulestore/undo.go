package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Undo is the step that undoes what a line of the audit tells of. It is taken as any other is, with the same rights, review and guard.
type Undo struct {
	To UndoBy // empty: nothing undoes it, and Why says why not
	// Version is the one to be enforced or disabled.
	Version int64
	Was     Domain // for UndoSettings: what it lets others do, and whose it is
	// Revision is of the deletion, for UndoRemoval.
	Revision int64
	Why      string // a part of a sentence: of a thing that can't be undone, the reason. Empty with an empty To: nobody undoes such things

	role  Role
	teams []string // one of which the actor must stand for
}

// UndoBy is a step by which a thing is undone.
type UndoBy string

// The steps that undo things.
const (
	UndoEnforce  UndoBy = "enforce"  // another version of the rule, which rolls back, or the one that is disabled
	UndoDisable  UndoBy = "disable"  // the version, which was not active before
	UndoRemove   UndoBy = "remove"   // the rule, which was not there before
	UndoOverride UndoBy = "end"      // what was opened or tightened
	UndoSettings UndoBy = "settings" // of the domain
	UndoRemoval  UndoBy = "restore"  // the domain
)

// Undos says of lines of the audit what undoes them, by their Seq, for an actor that may do that. Lines of things that nobody undoes, or that the actor
// may not undo, are left out.
func (s *Store) Undos(ctx context.Context, by Actor, list []Event) (map[int64]Undo, error) {
	found := map[int64]Undo{}
	err := s.look(ctx, func(tx *sql.Tx) error {
		u := undoing{Tx: tx, newest: map[string][]Event{}, domains: map[string]Domain{}}
		for i := range list {
			e := &list[i]
			if e.Refused != "" || e.Revision == 0 || e.Domain == "" {
				continue
			}
			undo, err := u.of(ctx, e)
			if err != nil {
				return err
			}
			if (undo.To != "" || undo.Why != "") && by.need(undo.role, "", undo.teams...) == nil {
				found[e.Seq] = undo
			}
		}
		return nil
	})
	return found, err
}

// undoing looks for what undoes lines, and remembers what many of them ask for.
type undoing struct {
	*sql.Tx

	newest  map[string][]Event // of a rule or domain and some actions, the two newest
	domains map[string]Domain  // without a name: it was taken away
}

// The actions that undo each other's effects.
func stepActions() []string {
	return []string{"enforce", "enforce.forced", "disable", "disable.forced"}
}

func overrideActions() []string {
	return []string{"open", "open.unreviewed", "tighten", "tighten.unreviewed", "override.end"}
}

func domainActions() []string {
	return []string{"domain.create", "domain.update", "domain.delete", "domain.restore"}
}

func (u *undoing) of(ctx context.Context, e *Event) (Undo, error) {
	switch {
	case slices.Contains(stepActions(), e.Action) && e.Rule != Frame:
		return u.step(ctx, e)
	case slices.Contains(overrideActions(), e.Action) && e.Action != "override.end":
		return u.override(ctx, e)
	case e.Action == "domain.update":
		return u.settings(ctx, e)
	case e.Action == "domain.delete":
		return u.removal(ctx, e)
	}
	return Undo{}, nil
}

// last is the two newest lines about the rule or domain of e that are of some actions, the newest first.
func (u *undoing) last(ctx context.Context, e *Event, actions []string) ([]Event, error) {
	key := strings.Join([]string{e.Domain, e.Rule, actions[0]}, "\x00")
	if list, ok := u.newest[key]; ok {
		return list, nil
	}
	list, err := find(ctx, u, scanEvent, `SELECT `+eventColumns+` FROM audit WHERE domain = $1 AND rule = $2 AND refused = '' AND revision > 0
		AND action IN ('`+strings.Join(actions, `', '`)+`') ORDER BY seq DESC LIMIT 2`, e.Domain, e.Rule)
	u.newest[key] = list
	return list, err
}

// after is why a line can't be undone that is not the newest of its kind; empty: it is.
func after(e *Event, newest []Event) string {
	if len(newest) == 0 || newest[0].Seq == e.Seq {
		return ""
	}
	return fmt.Sprintf("a newer change came after, line %d", newest[0].Seq)
}

func (u *undoing) domain(ctx context.Context, name string) (Domain, error) {
	if d, ok := u.domains[name]; ok {
		return d, nil
	}
	d, err := findDomain(ctx, u, name)
	if IsKind(err, NotFound) {
		d, err = Domain{}, nil
	}
	u.domains[name] = d
	return d, err
}

// inDomain begins to undo a line about a rule or a domain, which has to be the newest of its kind, and the domain to be there. Why says what is not so.
func (u *undoing) inDomain(ctx context.Context, e *Event, actions []string) (undo Undo, newest []Event, err error) {
	undo = Undo{role: Publish, teams: []string{e.Team}}
	if newest, err = u.last(ctx, e, actions); err != nil {
		return undo, nil, err
	}
	d, err := u.domain(ctx, e.Domain)
	if err != nil {
		return undo, nil, err
	}
	undo.teams = append(undo.teams, d.Team)
	if undo.Why = after(e, newest); undo.Why == "" && d.Name == "" {
		undo.Why = "the domain was taken away since"
	}
	return undo, newest, nil
}

// step undoes what was done to a rule: the state before is active again.
func (u *undoing) step(ctx context.Context, e *Event) (Undo, error) {
	undo, newest, err := u.inDomain(ctx, e, stepActions())
	if err != nil || undo.Why != "" {
		return undo, err
	}
	var r Rule
	err = u.QueryRowContext(ctx, `SELECT `+ruleColumns+` FROM rules r WHERE r.domain = $1 AND r.id = $2`, e.Domain, e.Rule).Scan(r.fields()...)
	disabled := strings.HasPrefix(e.Action, "disable")
	switch {
	case err != nil:
		return undo, err
	case r.Enforced != e.Version || r.Disabled != disabled:
		undo.Why = "the domain was made anew since"
		return undo, nil
	case disabled:
		undo.To, undo.Version = UndoEnforce, e.Version
		return undo, nil
	}
	return undo, u.before(ctx, e, newest, &undo)
}

// before finds what a rule was before a line enforced a version.
func (u *undoing) before(ctx context.Context, e *Event, newest []Event, undo *Undo) error {
	v, err := findVersion(ctx, u, e.Domain, e.Rule, e.Version)
	if err != nil {
		return err
	}
	removal := v.Text == ""
	old, err := u.old(ctx, e, newest)
	switch {
	case err != nil:
		return err
	case old.Text == "" && removal:
		undo.Why = "there was no rule before it, either"
	case old.Text == "":
		undo.To = UndoRemove
	case old.State == Disabled && !removal: // it was left out then
		undo.To, undo.Version = UndoDisable, e.Version
	default:
		undo.To, undo.Version = UndoEnforce, old.Number
	}
	return nil
}

// old is the version of a rule that was enforced before a line, or was disabled; without a text there was none.
func (u *undoing) old(ctx context.Context, e *Event, newest []Event) (Version, error) {
	if len(newest) < 2 {
		return Version{}, nil
	}
	last := newest[1]
	anew, err := count(ctx, u, "audit", ` WHERE domain = $1 AND rule = '' AND action = 'domain.create' AND refused = '' AND seq > $2 AND seq < $3`, e.Domain, last.Seq, e.Seq)
	if err != nil || anew > 0 {
		return Version{}, err
	}
	v, err := findVersion(ctx, u, last.Domain, last.Rule, last.Version)
	if v.State = Enforced; strings.HasPrefix(last.Action, "disable") {
		v.State = Disabled
	}
	return v, err
}

// override ends what a line tells was opened or tightened.
func (u *undoing) override(ctx context.Context, e *Event) (Undo, error) {
	undo, _, err := u.inDomain(ctx, e, overrideActions())
	if err != nil || undo.Why != "" {
		return undo, err
	}
	holds, err := count(ctx, u, "overrides", ` WHERE domain = $1 AND rule = $2 AND ends > $3`, e.Domain, e.Rule, time.Now().UnixMicro())
	if undo.To = UndoOverride; holds == 0 {
		undo.To, undo.Why = "", "it has ended by itself"
	}
	return undo, err
}

// settings is as whose a domain was, and what it let others do.
func (u *undoing) settings(ctx context.Context, e *Event) (Undo, error) {
	undo := Undo{role: Admin, teams: []string{e.Team}}
	newest, err := u.last(ctx, e, domainActions())
	if err != nil {
		return undo, err
	}
	if undo.Why = after(e, newest); undo.Why != "" {
		return undo, nil
	}
	undo.Was.Name = e.Domain
	err = u.QueryRowContext(ctx, `SELECT team, shared, review, public FROM settings WHERE revision = $1`, e.Revision).
		Scan(&undo.Was.Team, &undo.Was.Shared, &undo.Was.Review, &undo.Was.Public)
	switch {
	case isNone(err):
		undo.Why = "an older Weir wrote this line, and did not keep what was before"
		return undo, nil
	case err != nil:
		return undo, err
	}
	undo.To = UndoSettings
	return undo, nil
}

// removal brings a domain back.
func (u *undoing) removal(ctx context.Context, e *Event) (Undo, error) {
	undo := Undo{role: Admin, teams: []string{e.Team}}
	x, err := scanDeletion(u.QueryRowContext(ctx, `SELECT `+deletionColumns+` WHERE x.revision = $1`, e.Revision))
	switch {
	case isNone(err):
		undo.Why = "it was restored since, or is forgotten"
		return undo, nil
	case err != nil:
		return undo, err
	case x.Again:
		undo.Why = "there is a domain of this name again"
		return undo, nil
	}
	undo.To, undo.Revision = UndoRemoval, x.Revision
	return undo, nil
}
