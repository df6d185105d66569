package rulestore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// People is what stands before a slash in the names of people whom a provider of OpenID Connect knows. No token can have such a name.
const People = "oidc"

// Person is somebody whom a provider knows, and who holds no token.
type Person struct {
	Issuer, Subject string // together they name a person for ever; both empty: it is nobody
	Name            string // NameOf it
	Groups          []string
	// Hint is what the provider has said of the person, by which they sign out there. It lets in nobody. It is left out where it has more than MaxHint bytes.
	Hint string
}

// MaxHint is how long a Person.Hint may be, in bytes.
const MaxHint = 6 << 10

// Grant is a role for a team.
type Grant struct {
	Role Role
	Team string // AllTeams: for all
}

// NameOf is the name that history and audit have for a person, by what the provider says: an email address that it has verified, or else a
// username. People may be able to choose that one, so that something of the subject stands behind it: nobody can take the name of another.
func NameOf(subject, email, username string) string {
	if name := People + "/" + strings.ToLower(email); email != "" && checkName("", name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(subject))
	most := 64
	plain := strings.Map(func(r rune) rune {
		if most--; most < 0 {
			return -1
		}
		if checkName("", "x"+string(r)) != nil {
			return '-'
		}
		return r
	}, strings.ToLower(username))
	return People + "/" + plain + "~" + hex.EncodeToString(sum[:5])
}

// As is a person as an actor with the strongest role for each team that it was granted. Teams that can't be are left out. It fails as Unknown where
// nothing is left, and as Quota where it is too much.
func (p *Person) As(grants []Grant) (Actor, error) {
	by := Actor{Name: p.Name, Roles: map[string]Role{}}
	for _, g := range grants {
		if g.Team != AllTeams && checkName("team", g.Team) != nil {
			continue
		}
		if has, ok := by.Roles[g.Team]; !ok || has < g.Role {
			by.Roles[g.Team] = g.Role
		}
	}
	for team, role := range by.Roles {
		if all, ok := by.Roles[AllTeams]; ok && team != AllTeams && role <= all {
			delete(by.Roles, team)
			continue
		}
		by.Role = max(by.Role, role)
		by.Teams = append(by.Teams, team)
	}
	slices.Sort(by.Teams)
	switch {
	case len(by.Teams) == 0:
		return Actor{}, &Error{Kind: Unknown, Text: "no group of " + p.Name + " has a role now"}
	case len(by.Teams) > maxTeams:
		return Actor{}, &Error{Kind: Quota, Text: fmt.Sprintf("%s would have roles for %d teams; there may be %d, or one for all", p.Name, len(by.Teams), maxTeams)}
	}
	return by, nil
}

// printable is the person as a database can keep them.
func (p Person) printable() Person {
	p.Issuer, p.Subject, p.Name = printable(p.Issuer, maxURI), printable(p.Subject, MaxReason), printable(p.Name, MaxName)
	groups := make([]string, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = printable(g, MaxReason)
	}
	if p.Groups, p.Hint = groups, printable(p.Hint, MaxHint+1); len(p.Hint) > MaxHint {
		p.Hint = ""
	}
	return p
}

// samePerson is whether two names are of one person: Ann is ann, and a token that has the name of a person whom a provider knows is that person's.
func samePerson(a, b string) bool { return personOf(a) == personOf(b) }

// samePersons is samePerson of a column and the first argument of a query, which is a personOf, or with is false that it is not so.
func samePersons(column string, is bool) string {
	in := ` NOT IN `
	if is {
		in = ` IN `
	}
	return `LOWER(` + column + `)` + in + `($1, '` + People + `/' || $1)`
}

func personOf(name string) string { return strings.TrimPrefix(strings.ToLower(name), People+"/") }
