package webui

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"
)

const (
	// maxSessions is how many there are at a time. One more ends the one that was
	// silent the longest.
	maxSessions = 1024
	sessionLife = 12 * time.Hour
	sessionIdle = time.Hour // without a request
)

// session is somebody who has signed in. A session is asked for its token's
// holder at each request, so that one that was revoked ends it.
type session struct {
	token string
	csrf  string // what its forms must bring along
	made  time.Time

	// Guarded by sessions.mu.
	seen   time.Time
	notice string // to be said on the next page
}

// sessions are all of them, by a hash of their ids: a program that reads the map can act for
// nobody.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session
}

func newSessions() *sessions { return &sessions{byID: map[[sha256.Size]byte]*session{}} }

// begin makes a session and its id.
func (s *sessions) begin(token string, now time.Time) (id string) {
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(now)
	s.byID[sha256.Sum256([]byte(id))] = &session{token: token, csrf: rand.Text(), made: now, seen: now}
	return id
}

// makeRoom ends the sessions whose time is over, and one more if there would be
// too many.
func (s *sessions) makeRoom(now time.Time) {
	var last [sha256.Size]byte
	var silent *session
	for key, one := range s.byID {
		if one.over(now) {
			delete(s.byID, key)
			continue
		}
		if silent == nil || one.seen.Before(silent.seen) {
			last, silent = key, one
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, last)
	}
}

func (one *session) over(now time.Time) bool {
	return now.Sub(one.made) >= sessionLife || now.Sub(one.seen) >= sessionIdle
}

// find is the session with an id, or nil.
func (s *sessions) find(id string, now time.Time) *session {
	key := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[key]
	if one == nil {
		return nil
	}
	if one.over(now) {
		delete(s.byID, key)
		return nil
	}
	one.seen = now
	return one
}

// end ends the session with an id, if there is one.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// ours is whether a form comes from a page of this session.
func (one *session) ours(csrf string) bool {
	return subtle.ConstantTimeCompare([]byte(csrf), []byte(one.csrf)) == 1
}

// cookie is that of a session. Under TLS, of this daemon or of a proxy before it, its name makes
// browsers refuse one that another host, or a connection without TLS, has planted.
func (p *Pages) cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{
		Name: "weir", Value: id, Path: Home, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionLife / time.Second),
	}
	if r.TLS != nil || p.options.Secure {
		c.Name, c.Path, c.Secure = "__Host-weir", "/", true
	}
	return c
}

// sessionID is the id that a request shows; empty: none.
func (p *Pages) sessionID(r *http.Request) string {
	c, err := r.Cookie(p.cookie(r, "").Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// tell keeps something to be said on the next page.
func (s *sessions) tell(one *session, notice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.notice = notice
}

// told gives what is to be said, once.
func (s *sessions) told(one *session) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	notice := one.notice
	one.notice = ""
	return notice
}
