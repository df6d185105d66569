package rulestore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Role is how much an actor may do, for the teams it stands for. Each role may
// do what those before it may.
type Role uint8

// The roles.
const (
	Read    Role = iota // see rules and history of all teams, and the clients that Store.Scope tells
	Propose             // make versions, and run them in shadow
	Publish             // enforce, disable, take away, roll back, open and tighten
	Admin               // make domains and tokens, change quotas and owners
)

// Roles is the names of all roles, the weakest first.
func Roles() []string { return []string{"read", "propose", "publish", "admin"} }

// String is the role's name.
func (r Role) String() string { return Roles()[r] }

// MarshalText is the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRole.
func (r *Role) UnmarshalText(name []byte) (err error) {
	*r, err = ParseRole(string(name))
	return err
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	i := slices.Index(Roles(), name)
	if i < 0 {
		return 0, invalid("role", "%q is no role; write read, propose, publish or admin", clip(name))
	}
	return Role(i), nil
}

// AllTeams in Actor.Teams stands for all teams.
const AllTeams = "*"

// Actor is the person or program that asks. The store refuses an actor that may not do a thing, and
// the audit has that.
type Actor struct {
	Name    string          // of the person or program; history names it
	Token   string          // Token.ID that it showed; empty: it was let in otherwise
	Role    Role            // for Teams; the strongest, where Roles tells more
	Teams   []string        // that it stands for; AllTeams: all
	Roles   map[string]Role // for each of Teams; nil: it is Role for all of them
	Expires time.Time       // when the token ends; zero: never
	// Address is where its request came from, without a port: an IP address, or Local. Empty: it is not known.
	Address string
}

// EndsSoon is whether the token that the actor showed ends within EndNotice.
func (a *Actor) EndsSoon(now time.Time) bool { return endsSoon(a.Expires, now) }

// The names of actors that hold no token of the database. Those of people who ask the database itself begin with Local and a slash.
const (
	FileAdmin  = "admin-token-file" // holds a token of --admin-token-file
	FirstStart = "first-start"      // made the first token
)

// Local is the Actor.Address of who asks the database itself, or a daemon by a socket of its machine.
const Local = "local"

// stands is whether a stands for a team.
func (a *Actor) stands(team string) bool {
	return slices.Contains(a.Teams, AllTeams) || slices.Contains(a.Teams, team)
}

// among is the condition that the column before it names a team for which a has a role, and args with what it needs behind them.
func (a *Actor) among(role Role, args []any) (condition string, with []any) {
	if a.May(role) {
		return ` <> ''`, args // no team is called so
	}
	var marks []string
	for _, team := range a.Teams {
		if a.May(role, team) {
			args = append(args, printable(team, MaxName+1))
			marks = append(marks, "$"+strconv.Itoa(len(args)))
		}
	}
	if len(marks) == 0 {
		return ` = ''`, args
	}
	return ` IN (` + strings.Join(marks, ", ") + `)`, args
}

// need refuses an actor that has not this role for one of the teams. Without
// teams it is for what belongs to no team, and only who stands for all may.
func (a *Actor) need(role Role, what string, teams ...string) error {
	switch {
	case a.Role < role:
		return forbidden("to %s takes the role %s; %s has %s: ask an actor with that role", what, role, a.Name, a.Role)
	case a.May(role, teams...):
		return nil
	case len(teams) == 0:
		return forbidden("to %s one must have the role %s for all teams; ask an administrator of all", what, role)
	case slices.ContainsFunc(teams, a.stands):
		return forbidden("to %s takes the role %s for team %s; %s has a weaker one there: ask an actor with that role", what, role, teams[0], a.Name)
	}
	return forbidden("to %s one must stand for team %s; %s stands for %v", what, teams[0], a.Name, a.Teams)
}

// May is whether an actor has a role, or a stronger one, for one of the teams or for all teams. Without teams it takes one for all teams.
func (a *Actor) May(role Role, teams ...string) bool {
	return a.has(role, AllTeams) || slices.ContainsFunc(teams, func(team string) bool { return a.has(role, team) })
}

func (a *Actor) has(role Role, team string) bool {
	own := a.Role
	if a.Roles != nil {
		own = a.Roles[team]
	}
	return own >= role && slices.Contains(a.Teams, team)
}

func forbidden(format string, args ...any) *Error {
	return &Error{Kind: Forbidden, Text: fmt.Sprintf(format, args...)}
}
