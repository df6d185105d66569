package webui

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// endedTold is for how long a browser shows a session that is over, so that the page to sign in can say so.
const endedTold = 24 * time.Hour

// session is that of a request. The rule database keeps it, so that all nodes know it; where there is none, or it is away when
// somebody signs in with a token of a file, this node does.
type session struct {
	rulestore.Session

	secret string // that the browser shows
	here   bool   // this node alone keeps it
}

// sealed is a sum that nobody can make without the session's secret.
func sealed(secret string, what []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(what)
	return hex.EncodeToString(h.Sum(nil))
}

// csrf is the word that forms of the session bring along.
func (one *session) csrf() string { return sealed(one.secret, []byte("csrf")) }

// ours is whether a form comes from a page of this session.
func (one *session) ours(csrf string) bool { return hmac.Equal([]byte(csrf), []byte(one.csrf())) }

// begin makes a session, ends the one that the browser had, and gives the browser the secret.
func (v *visit) begin(secret string, one rulestore.Session) error {
	now := time.Now()
	one.ID, one.Made, one.Seen = rulestore.SessionID(secret), now, now
	err := errors.New("there is no rule database, or it was not reached yet")
	if v.store != nil {
		err = v.store.BeginSession(v.r.Context(), one)
	}
	switch {
	case err == nil:
	case one.Proof == "" && kindOf(err) == rulestore.Unavailable:
		return unkept()
	case one.Proof == "":
		return err
	default:
		v.pages.sessions.begin(one)
	}
	_ = v.end() // one that goes on ends with its time
	http.SetCookie(v.w, v.pages.cookie(v.r, secret))
	return nil
}

// proof is by which a node knows a token of its file again. It shows which token that is only to who has the session's secret, too.
func proof(secret, token string) string {
	sum := sha256.Sum256([]byte(token))
	return sealed(secret, sum[:])
}

// find finds the session of a request, and who it is of. It fails as rulestore.Unknown where there is none that goes on.
func (v *visit) find(now time.Time) error {
	secret := v.pages.secret(v.r)
	if secret == "" {
		return rulestore.Ended()
	}
	one, by, err := v.kept(secret, now)
	switch {
	case err != nil:
	case one.Person.Issuer != "":
		by, err = v.pages.personNow(&one.Person)
	case one.Token == "":
		by, err = v.pages.fileToken(one)
	}
	if err != nil {
		return err
	}
	by.Address = v.pages.options.Address(v.r)
	v.session, v.actor = one, by
	return nil
}

// kept is the session with a secret as it is kept, and who holds its token; of a token of a file, and of a person, nobody.
func (v *visit) kept(secret string, now time.Time) (one *session, by rulestore.Actor, err error) {
	one = &session{secret: secret}
	id := rulestore.SessionID(secret)
	if one.Session, one.here = v.pages.sessions.find(id, now); one.here {
		return one, by, nil
	}
	if v.pages.options.Store == nil {
		return nil, by, rulestore.Ended()
	}
	if v.store == nil {
		return nil, by, unsure()
	}
	one.Session, by, err = v.store.Session(v.r.Context(), id)
	if err != nil && kindOf(err) == rulestore.Unavailable {
		err = unsure()
	}
	return one, by, err
}

// unsure is told to who may have signed in, without what the database says of itself: anybody can send a cookie.
func unsure() error {
	return &fault{http.StatusServiceUnavailable, "The rule database, which knows who has signed in, does not answer now. You have not been signed out: load the page again when it is back. The log of the daemon says what is wrong."}
}

// unkept is told to who could not be signed in, likewise.
func unkept() error {
	return &fault{http.StatusServiceUnavailable, "The rule database, which keeps sessions, does not answer now, so that you are not signed in. Sign in again when it is back; a token of --admin-token-file signs you in all the same. The log of the daemon says what is wrong."}
}

// fileToken is who holds the token of the file that a session was begun with, if this node's file has it now.
func (p *Pages) fileToken(one *session) (rulestore.Actor, error) {
	if p.options.FileToken != nil {
		by, ok := p.options.FileToken(func(sum [sha256.Size]byte) bool {
			return hmac.Equal([]byte(one.Proof), []byte(sealed(one.secret, sum[:])))
		})
		if ok {
			return by, nil
		}
	}
	return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unknown, Text: "its token is not in the file of --admin-token-file of this node"}
}

// end ends the session of a request, if there is one, on all nodes.
func (v *visit) end() error {
	id := rulestore.SessionID(v.pages.secret(v.r))
	v.pages.sessions.end(id)
	if v.store == nil {
		return nil
	}
	return v.store.EndSession(v.r.Context(), id)
}

// tell keeps something to be said on the next page. The change that it tells of stays done where nobody can be told.
func (v *visit) tell(notice string) {
	if v.session.here {
		v.pages.sessions.tell(v.session.ID, notice)
	} else if v.store != nil {
		_ = v.store.Notify(v.r.Context(), v.session.ID, notice)
	}
}

// told gives what is to be said, once.
func (v *visit) told() string {
	notice := v.session.Notice
	switch {
	case notice == "":
	case v.session.here:
		v.pages.sessions.tell(v.session.ID, "")
	default:
		if first, err := v.store.Notified(v.r.Context(), &v.session.Session); err == nil && !first {
			return ""
		}
	}
	return notice
}

// sessions are those that this node alone keeps, by their IDs: a program that reads the map can act for nobody.
type sessions struct {
	mu   sync.Mutex
	byID map[string]*rulestore.Session
}

func newSessions() *sessions { return &sessions{byID: map[string]*rulestore.Session{}} }

// begin keeps a session.
func (s *sessions) begin(one rulestore.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(one.Made)
	s.byID[one.ID] = &one
}

// makeRoom ends the sessions whose time is over, and one more if there would be
// too many.
func (s *sessions) makeRoom(now time.Time) {
	var silent *rulestore.Session
	for id, one := range s.byID {
		if one.Over(now) {
			delete(s.byID, id)
			continue
		}
		if silent == nil || one.Seen.Before(silent.Seen) {
			silent = one
		}
	}
	if len(s.byID) >= rulestore.MaxSessions {
		delete(s.byID, silent.ID)
	}
}

// find is the session with an ID, if there is one.
func (s *sessions) find(id string, now time.Time) (rulestore.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[id]
	if one == nil {
		return rulestore.Session{}, false
	}
	if one.Over(now) {
		delete(s.byID, id)
		return rulestore.Session{}, false
	}
	one.Seen = now
	return *one, true
}

// end ends the session with an ID, if there is one.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// tell keeps something to be said on the next page.
func (s *sessions) tell(id, notice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.byID[id]; one != nil {
		one.Notice = notice
	}
}

// cookie is that of a session. Under TLS, of this daemon or of a proxy before it, its name makes
// browsers refuse one that another host, or a connection without TLS, has planted.
func (p *Pages) cookie(r *http.Request, secret string) *http.Cookie {
	c := &http.Cookie{
		Name: "weir", Value: secret, Path: Home, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int((rulestore.SessionLife + endedTold) / time.Second),
	}
	if r.TLS != nil || p.options.Secure {
		c.Name, c.Path, c.Secure = "__Host-weir", "/", true
	}
	return c
}

// secret is the secret of a session that a request shows; empty: none.
func (p *Pages) secret(r *http.Request) string {
	c, err := r.Cookie(p.cookie(r, "").Name)
	if err != nil {
		return ""
	}
	return c.Value
}
