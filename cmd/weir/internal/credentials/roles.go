package credentials

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The bounds of a file of roles. A file beyond them is refused.
const (
	maxRoles = 1000 // lines, comments too
	maxGroup = 256  // bytes of a group's name
)

// eachTeam in a line of a file of roles stands for the name of any team, in the group's name and in the teams.
const eachTeam = "{team}"

// Grant is a role for a team. "*" is all teams.
type Grant struct{ Role, Team string }

// Roles say which roles a person's groups give, as a file has it: a role, teams with commas between them, and the name of a group in each line.
//
//	# role   teams      group
//	admin    *          weir-admins
//	publish  shop,mail  Shop leads
//	propose  {team}     dev-{team}
type Roles struct{ *Files[[]roleLine] }

type roleLine struct {
	role  string
	teams []string
	group string
}

// OpenRoles reads a file of roles, each of which must be one of known, the weakest first. It fails with an *Error.
func OpenRoles(now time.Time, file File, known []string) (*Roles, error) {
	f, err := open(now, func(texts [][]byte, _ time.Time) ([]roleLine, error) { return readRoles(texts[0], known) }, file)
	if err != nil {
		return nil, err
	}
	return &Roles{f}, nil
}

// Exposed is empty: there is no secret in it.
func (r *Roles) Exposed() string { return "" }

func readRoles(text []byte, known []string) (lines []roleLine, err error) {
	const should = "write in each line a role, teams and a group, as: publish shop Shop leads"
	err = eachLine(text, 0, maxRoles, should, func(raw []byte) string {
		if strings.HasPrefix(string(raw), "#") {
			return ""
		}
		role, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(string(raw), "\t", " ")), " ")
		teams, group, _ := strings.Cut(strings.TrimSpace(rest), " ")
		one := roleLine{role, strings.Split(teams, ","), strings.TrimSpace(group)}
		lines = append(lines, one)
		return one.fault(known, should)
	})
	if err == nil && len(lines) == 0 {
		err = &fault{0, "there are only comments in it; " + should}
	}
	return lines, err
}

// fault says what is wrong with a line; empty: nothing.
func (l *roleLine) fault(known []string, should string) string {
	each := slices.Contains(l.teams, eachTeam)
	switch {
	case l.group == "":
		return "is not whole; " + should
	case !slices.Contains(known, l.role):
		return fmt.Sprintf("has the role %q; write %s", l.role, strings.Join(known, ", "))
	case slices.Contains(l.teams, ""):
		return "has a team without a name; " + should
	case len(l.group) > maxGroup:
		return fmt.Sprintf("has a group of %d bytes; it may have %d", len(l.group), maxGroup)
	case strings.Count(l.group, eachTeam) > 1:
		return "has " + eachTeam + " twice in its group; write it once"
	case each != strings.Contains(l.group, eachTeam):
		return "has " + eachTeam + " in its teams or in its group only; write it in both, or in neither"
	case l.group == eachTeam:
		return "makes every group a team; write something beside " + eachTeam + " in the group, as team-" + eachTeam
	}
	for _, team := range l.teams {
		if team != eachTeam && strings.ContainsAny(team, "{}") {
			return fmt.Sprintf("has the team %q; write a name, * for all teams, or %s", team, eachTeam)
		}
	}
	return ""
}

// Of is the roles that groups give, and those of the groups that give any, each once.
func (r *Roles) Of(groups []string) (grants []Grant, giving []string) {
	lines := r.Value()
	for _, group := range groups {
		before := len(grants)
		for i := range lines {
			grants = lines[i].appendGrants(grants, group)
		}
		if len(grants) > before {
			giving = append(giving, group)
		}
	}
	slices.Sort(giving)
	return grants, slices.Compact(giving)
}

func (l *roleLine) appendGrants(grants []Grant, group string) []Grant {
	before, after, each := strings.Cut(l.group, eachTeam)
	named := ""
	switch {
	case !each && group != l.group:
		return grants
	case each:
		rest, begins := strings.CutPrefix(group, before)
		name, ends := strings.CutSuffix(rest, after)
		// A group that is called so must not stand for all teams.
		if !begins || !ends || name == "" || strings.Contains(name, "*") || len(group) > maxGroup {
			return grants
		}
		named = name
	}
	for _, team := range l.teams {
		if team == eachTeam {
			team = named
		}
		grants = append(grants, Grant{l.role, team})
	}
	return grants
}
