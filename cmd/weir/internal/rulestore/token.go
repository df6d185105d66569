package rulestore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Token lets a caller act that shows its text, or a certificate in its place. The text is known to
// its holder alone: the database has a hash of it. The API gives a Token as it is.
type Token struct {
	ID      string    `json:"id"`    // names it in lists and in the audit
	Actor   string    `json:"actor"` // who holds it
	Role    Role      `json:"role"`
	Teams   []string  `json:"teams"` // AllTeams: all
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: it was not
	Used    time.Time `json:"used,omitzero"`    // when it last let somebody in, to 10 minutes; zero: never
	Author  string    `json:"author"`           // who made it
	// Text is there when the token was just made, and never again.
	Text string `json:"token,omitempty"`
	// Certificate is the URI in the certificate that stands for it, as
	// spiffe://example.org/ci; empty: it has a text.
	Certificate string `json:"certificate,omitempty"`

	hash string // of its text; empty: it has none
}

// EndsSoon is whether the token counts at now, and ends within EndNotice.
func (k *Token) EndsSoon(now time.Time) bool {
	return k.Revoked.IsZero() && endsSoon(k.Expires, now)
}

func endsSoon(expires, now time.Time) bool {
	return !expires.IsZero() && now.Before(expires) && expires.Sub(now) <= EndNotice
}

// EndNotice is how long before it ends a token is told to.
const EndNotice = 14 * 24 * time.Hour

// usedEvery is how often the use of a token is written down, and usedTime how long that may take, and as long for a session: then it is left out.
const (
	usedEvery = 10 * time.Minute
	usedTime  = time.Second
)

// MaxTokens is how many tokens there may be that are not revoked.
const MaxTokens = 10_000

// maxURI is how long a Token.Certificate may be, in bytes: a SPIFFE ID.
const maxURI = 2048

// maxTeams is how many teams a token may name.
const maxTeams = 100

// CreateToken makes a token and gives its text, which nobody can read again; that
// of a certificate has none. It takes the role Admin for all its teams.
func (s *Store) CreateToken(ctx context.Context, by Actor, k Token, reason string) (Token, string, error) {
	return s.createToken(ctx, by, k, reason, false)
}

// errSecond is why a first token is not made.
var errSecond = errors.New("there is a token already")

// createToken makes a token; first is whether it must be the first.
func (s *Store) createToken(ctx context.Context, by Actor, k Token, reason string, first bool) (Token, string, error) {
	k.ID, k.Author = strings.ToLower(rand.Text()[:10]), by.Name
	secret := rand.Text() // 128 bits, which nobody guesses, so that one SHA-256 is enough
	text, holder := "weir_"+k.ID+"_"+secret, k.Actor
	if k.hash = hash(secret); k.Certificate != "" {
		k.hash, text, holder = "", "", k.Actor+" by the certificate "+printable(k.Certificate, maxURI)
	}
	a := attempt{action: "token.create", reason: fmt.Sprintf("%s for %s, %s of %v: %s", k.ID, holder, k.Role, k.Teams, reason), people: true}
	err := s.change(ctx, by, a, func(t *tx) error {
		if err := checkReason(reason, true); err != nil {
			return err
		}
		if err := t.mayMake(ctx, &k); err != nil {
			return err
		}
		switch n, err := count(ctx, t, "tokens", ""); {
		case err != nil:
			return err
		case first && n > 0:
			return errSecond
		}
		k.Made = moment(t.at)
		expires := int64(0)
		if !k.Expires.IsZero() {
			expires = k.Expires.UnixMicro()
			k.Expires = moment(expires) // as it will be read
		}
		return t.exec(ctx, `INSERT INTO tokens (id, hash, actor, role, teams, made, expires, revoked, author, certificate) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9)`,
			k.ID, k.hash, k.Actor, k.Role.String(), strings.Join(k.Teams, " "), t.at, expires, k.Author, k.Certificate)
	})
	if err != nil {
		return Token{}, "", err
	}
	return k, text, nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// mayMake is whether the actor may make a token.
func (t *tx) mayMake(ctx context.Context, k *Token) error {
	if err := checkName("actor", k.Actor); err != nil {
		return err
	}
	switch {
	case k.Role > Admin:
		return invalid("role", "is no role; write read, propose, publish or admin")
	case len(k.Teams) == 0 || len(k.Teams) > maxTeams:
		return invalid("teams", "there are %d; name 1…%d, or %s for all", len(k.Teams), maxTeams, AllTeams)
	case !k.Expires.IsZero() && k.Expires.UnixMicro() <= t.at:
		return invalid("expires", "is over already")
	}
	if err := t.free(ctx, k.Certificate); err != nil {
		return err
	}
	if err := t.mayName(ctx, k.Actor); err != nil {
		return err
	}
	for _, team := range k.Teams {
		if team == AllTeams {
			if err := t.by.need(Admin, "make a token for all teams"); err != nil {
				return err
			}
			continue
		}
		if err := t.team(ctx, team); err != nil {
			return err
		}
		if err := t.by.need(Admin, "make a token", team); err != nil {
			return err
		}
	}
	n, err := count(ctx, t, "tokens", " WHERE revoked = 0")
	if err == nil && n >= MaxTokens {
		err = &Error{Kind: Quota, Field: "token", Text: fmt.Sprintf("there are %d tokens, and may not be more; revoke unused ones", n)}
	}
	return err
}

// mayName refuses the name of somebody else for a token's actor: of one who is let in otherwise, and of one who had a token for a team
// whose tokens this actor may not make. History and audit name people by it, also when their tokens have ended.
func (t *tx) mayName(ctx context.Context, actor string) error {
	for _, name := range []string{FileAdmin, FirstStart, Local, People} {
		if strings.EqualFold(actor, name) || len(actor) > len(name) && strings.EqualFold(actor[:len(name)+1], name+"/") {
			return invalid("actor", "%q is the name of who is let in without a token of the database; choose another", actor)
		}
	}
	others, err := find(ctx, t, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE LOWER(actor) = $1 ORDER BY made, id`, strings.ToLower(actor))
	for i := range others {
		if k := &others[i]; t.by.mayEnd(k) != nil {
			return &Error{Kind: Forbidden, Field: "actor", Text: fmt.Sprintf("%q names a holder of token %s of %s, which another team's administrator made; "+
				"choose another name, or ask an administrator of all these teams", actor, k.ID, teamsOf(k.Teams))}
		}
	}
	return err
}

// teamsOf is teams in words.
func teamsOf(teams []string) string {
	switch {
	case slices.Contains(teams, AllTeams):
		return "all teams"
	case len(teams) == 1:
		return "team " + teams[0]
	}
	return "teams " + strings.Join(teams, ", ")
}

// free refuses a certificate that can't be meant, or stands for a token that
// counts.
func (t *tx) free(ctx context.Context, certificate string) error {
	if certificate == "" {
		return nil
	}
	u, err := url.Parse(certificate)
	if err != nil || u.Scheme == "" || u.Host == "" && u.Opaque == "" || u.String() != certificate ||
		strings.ContainsFunc(certificate, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("certificate", "%q is no URI as certificates have it; write that of its subject alternative names, as spiffe://example.org/ci", clip(certificate))
	}
	if len(certificate) > maxURI {
		return invalid("certificate", "has %d bytes; it may have %d", len(certificate), maxURI)
	}
	var id, actor string
	err = t.QueryRowContext(ctx, `SELECT id, actor FROM tokens WHERE certificate = $1 AND revoked = 0 AND (expires = 0 OR expires > $2)`, certificate, t.at).Scan(&id, &actor)
	if isNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return invalid("certificate", "%s stands for %s already, by token %s; revoke that one first", clip(certificate), actor, id)
}

// FirstToken makes a token for everything when there is no token yet, and gives
// its text; empty: there was one.
func (s *Store) FirstToken(ctx context.Context) (string, error) {
	if n, err := count(ctx, s.read, "tokens", ""); err != nil || n > 0 {
		return "", s.failed(err)
	}
	first := Actor{Name: FirstStart, Role: Admin, Teams: []string{AllTeams}, Address: Local}
	_, text, err := s.createToken(ctx, first, Token{Actor: "admin", Role: Admin, Teams: []string{AllTeams}}, "made at the first start", true)
	if errors.Is(err, errSecond) { // another node was faster
		return "", nil
	}
	return text, err
}

const tokenColumns = `id, actor, role, teams, made, expires, revoked, author, certificate, used, hash`

func scanToken(found row) (k Token, err error) {
	var role, teams string
	var made, expires, revoked, used int64
	err = found.Scan(&k.ID, &k.Actor, &role, &teams, &made, &expires, &revoked, &k.Author, &k.Certificate, &used, &k.hash)
	if err != nil {
		return k, err
	}
	k.Made, k.Teams = moment(made), strings.Fields(teams)
	if expires != 0 {
		k.Expires = moment(expires)
	}
	if revoked != 0 {
		k.Revoked = moment(revoked)
	}
	if used != 0 {
		k.Used = moment(used)
	}
	k.Role, err = ParseRole(role)
	return k, err
}

// Authenticate is the actor that holds the token of this text. It fails as
// Unknown when there is none, or it has expired or was revoked.
func (s *Store) Authenticate(ctx context.Context, text string) (Actor, error) {
	unknown := &Error{Kind: Unknown, Text: "no such token; ask an administrator for one"}
	rest, ok := strings.CutPrefix(text, "weir_")
	id, secret, cut := strings.Cut(rest, "_")
	if !ok || !cut || len(text) > MaxName || checkName("", id) != nil {
		return Actor{}, unknown
	}
	k, err := scanToken(s.read.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`, id))
	if err != nil && !isNone(err) {
		return Actor{}, s.failed(err)
	}
	if subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(k.hash)) == 0 {
		return Actor{}, unknown
	}
	return s.letIn(ctx, &k, time.Now())
}

// letIn is the holder of a token that counts, and writes down that it was used.
func (s *Store) letIn(ctx context.Context, k *Token, now time.Time) (Actor, error) {
	by, err := k.holder(now)
	if err == nil && now.Sub(k.Used) >= usedEvery {
		s.note(ctx, `UPDATE tokens SET used = $1 WHERE id = $2 AND used < $1`, now.UnixMicro(), k.ID)
	}
	return by, err
}

// note writes down that something was used, or leaves it out: a database that can't be written to is not asked again for every request.
func (s *Store) note(ctx context.Context, statement string, args ...any) {
	now := time.Now()
	if now.UnixMicro()-s.unused.Load() < time.Minute.Microseconds() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, usedTime)
	defer stop()
	if _, err := s.write.ExecContext(ctx, statement, args...); err != nil {
		s.unused.Store(now.UnixMicro())
	}
}

// TokensEnding is how many tokens count at now, and end within EndNotice.
func (s *Store) TokensEnding(ctx context.Context, now time.Time) (int64, error) {
	n, err := count(ctx, s.read, "tokens", fmt.Sprintf(" WHERE revoked = 0 AND expires > %d AND expires <= %d", now.UnixMicro(), now.Add(EndNotice).UnixMicro()))
	return n, s.failed(err)
}

// AuthenticateCertificate is the actor that a certificate with this URI stands
// for, which somebody has verified. It fails as Authenticate does.
func (s *Store) AuthenticateCertificate(ctx context.Context, uri string) (Actor, error) {
	// The one that counts, else the last one: clocks of nodes differ.
	now := time.Now()
	k, err := scanToken(s.read.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE certificate = $1 AND certificate <> ''
		ORDER BY CASE WHEN revoked = 0 AND (expires = 0 OR expires > $2) THEN 0 ELSE 1 END, made DESC, id LIMIT 1`, printable(uri, maxURI+1), now.UnixMicro()))
	if isNone(err) {
		return Actor{}, &Error{Kind: Unknown, Text: "the certificate " + clip(uri) + " belongs to no actor; an administrator can assign it by weir token create --certificate"}
	}
	if err != nil {
		return Actor{}, s.failed(err)
	}
	return s.letIn(ctx, &k, now)
}

// holder is who holds the token, if it counts at now.
func (k *Token) holder(now time.Time) (Actor, error) {
	switch {
	case !k.Revoked.IsZero():
		return Actor{}, &Error{Kind: Unknown, Text: "the token was revoked at " + k.Revoked.Format(time.RFC3339) + "; ask an administrator for another"}
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Actor{}, &Error{Kind: Unknown, Text: "the token has expired at " + k.Expires.Format(time.RFC3339) + "; ask an administrator for another"}
	}
	return Actor{Name: k.Actor, Token: k.ID, Role: k.Role, Teams: k.Teams, Expires: k.Expires}, nil
}

// RevokeToken ends a token. It takes the role Admin for all its teams, or to be
// the one who shows it.
func (s *Store) RevokeToken(ctx context.Context, by Actor, id, reason string) error {
	return s.change(ctx, by, attempt{action: "token.revoke", reason: id + ": " + reason, people: true}, func(t *tx) error {
		if err := checkReason(reason, true); err != nil {
			return err
		}
		k, err := scanToken(t.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`, printable(id, MaxName)))
		if isNone(err) {
			return notFound("there is no token %s", clip(id))
		}
		if err != nil {
			return err
		}
		if by.Token != k.ID {
			if err := by.mayEnd(&k); err != nil {
				return err
			}
		}
		return t.exec(ctx, `UPDATE tokens SET revoked = $1 WHERE id = $2 AND revoked = 0`, t.at, k.ID)
	})
}

// mayEnd is whether an actor may revoke a token of others.
func (a *Actor) mayEnd(k *Token) error {
	if slices.Contains(k.Teams, AllTeams) {
		return a.need(Admin, "revoke a token for all teams")
	}
	for _, team := range k.Teams {
		if err := a.need(Admin, "revoke a token", team); err != nil {
			return err
		}
	}
	return nil
}

// Tokens lists tokens by their actors, those behind the one with an ID, at most limit (0: MaxPage), and
// says behind which the next page begins; empty: there is none. It takes the role Admin; an actor
// that stands for some teams sees the tokens of these teams.
func (s *Store) Tokens(ctx context.Context, by Actor, behind string, limit int) (list []Token, next string, err error) {
	if by.Role < Admin {
		return nil, "", forbidden("to list tokens takes the role %s; %s has %s", Admin, by.Name, by.Role)
	}
	list, err = find(ctx, s.read, scanToken, `SELECT `+tokenColumns+` FROM tokens
		WHERE $1 = '' OR (actor, id) > ((SELECT actor FROM tokens WHERE id = $1), $1) ORDER BY actor, id LIMIT $2`, printable(behind, MaxName), page(limit))
	if len(list) == page(limit) {
		next = list[len(list)-1].ID
	}
	list = slices.DeleteFunc(list, func(k Token) bool { return by.mayEnd(&k) != nil })
	return list, next, s.failed(err)
}
