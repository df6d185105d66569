package rulestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// The bounds of sessions.
const (
	// MaxSessions is how many there are at a time, on all nodes of a database. One more ends the one that was silent
	// the longest.
	MaxSessions = 1024
	// MaxSessionsEach is how many of them are of one token or person, likewise: who has one token can't sign out everybody.
	MaxSessionsEach = 64
	SessionLife     = 12 * time.Hour
	SessionIdle     = time.Hour // without a request
	// seenEvery is how often requests of a session are written down.
	seenEvery = time.Minute
)

// Session is somebody who has signed in at the pages. All nodes of a database know it. Nothing in it lets anybody in.
type Session struct {
	ID     string // SessionID of what the browser shows
	Token  string // Token.ID that was shown; empty: a token of a file was
	Proof  string // by which a node knows the token in its file; empty: it is in no file
	Person Person // who signed in without a token; zero: nobody did
	// Made and Seen, the last request to a minute, are times of whoever keeps the session: the database's, or of one that a node keeps alone the node's.
	Made, Seen time.Time
	Notice     string // to be said on the next page
}

// SessionID is the ID of a session, of the secret that its browser shows.
func SessionID(secret string) string { return hash(secret) }

// Over is whether the time of a session is over.
func (one *Session) Over(now time.Time) bool {
	return now.Sub(one.Made) >= SessionLife || now.Sub(one.Seen) >= SessionIdle
}

// Ended is the error about a session that goes on no longer, or never was.
func Ended() error {
	return &Error{Kind: Unknown, Text: fmt.Sprintf("one ends %d hours after it began, and after %d minutes without a request", SessionLife/time.Hour, SessionIdle/time.Minute)}
}

// BeginSession keeps a session that begins now, and ends others where there would be too many. Sessions begin, are seen and end by the database's
// clock: a node whose own is ahead ends none of other nodes.
func (s *Store) BeginSession(ctx context.Context, one Session) error {
	one.Person = one.Person.printable()
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		if s.lock != "" { // else several nodes would each leave room for one
			if _, err := t.ExecContext(ctx, s.lock); err != nil {
				return err
			}
		}
		if err := s.endSessions(ctx, t); err != nil {
			return err
		}
		for _, room := range []struct {
			where string
			most  int
			args  []any
		}{{"", MaxSessions, nil}, {` WHERE token = $1 AND subject = $2`, MaxSessionsEach, []any{one.Token, one.Person.Subject}}} {
			_, err := t.ExecContext(ctx, fmt.Sprintf(`DELETE FROM sessions WHERE id IN (SELECT id FROM sessions%s ORDER BY seen DESC, made DESC, id LIMIT %d OFFSET %d)`,
				room.where, MaxSessions, room.most-1), room.args...)
			if err != nil {
				return err
			}
		}
		p := &one.Person
		groups, err := json.Marshal(p.Groups) // of which one may have any characters
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, fmt.Sprintf(`INSERT INTO sessions (id, token, proof, made, seen, notice, issuer, subject, person, member_of, hint)
			VALUES ($1, $2, $3, %[1]s, %[1]s, '', $4, $5, $6, $7, $8)`, s.clock),
			one.ID, one.Token, one.Proof, p.Issuer, p.Subject, p.Name, string(groups), p.Hint)
		return err
	}))
}

// endSessions ends those whose time is over.
func (s *Store) endSessions(ctx context.Context, t *sql.Tx) error {
	_, err := t.ExecContext(ctx, fmt.Sprintf(`DELETE FROM sessions WHERE made <= %[1]s - $1 OR seen <= %[1]s - $2`, s.clock), SessionLife.Microseconds(), SessionIdle.Microseconds())
	return err
}

// Session is the session with an ID, and who holds its token; of a token of a file, and of a Person, nobody. It writes down that the session was seen.
// It fails as Unknown when there is none, its time is over, or its token counts no more.
func (s *Store) Session(ctx context.Context, id string) (Session, Actor, error) {
	one := Session{ID: id}
	var made, seen, clock int64
	var groups string
	p := &one.Person
	err := s.read.QueryRowContext(ctx, `SELECT token, proof, made, seen, notice, issuer, subject, person, member_of, hint, `+s.clock+` FROM sessions WHERE id = $1`, id).
		Scan(&one.Token, &one.Proof, &made, &seen, &one.Notice, &p.Issuer, &p.Subject, &p.Name, &groups, &p.Hint, &clock)
	if isNone(err) {
		return Session{}, Actor{}, Ended()
	}
	if err != nil {
		return Session{}, Actor{}, s.failed(err)
	}
	now := moment(clock)
	if one.Made, one.Seen = moment(made), moment(seen); one.Over(now) {
		return Session{}, Actor{}, Ended()
	}
	if groups != "" {
		if err := json.Unmarshal([]byte(groups), &p.Groups); err != nil {
			return Session{}, Actor{}, Ended()
		}
	}
	var by Actor
	if one.Token != "" {
		k, err := scanToken(s.read.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`, one.Token))
		if err != nil {
			return Session{}, Actor{}, s.failed(err)
		}
		if by, err = s.letIn(ctx, &k, now); err != nil {
			return Session{}, Actor{}, err
		}
	}
	if now.Sub(one.Seen) >= seenEvery {
		s.note(ctx, `UPDATE sessions SET seen = $1 WHERE id = $2 AND seen < $1`, clock, id)
	}
	return one, by, nil
}

// EndSession ends a session, if there is one of this ID.
func (s *Store) EndSession(ctx context.Context, id string) error {
	_, err := s.write.ExecContext(ctx, `DELETE FROM sessions WHERE id = $1`, id)
	return s.failed(err)
}

// Notify keeps what is to be said on the next page of a session, whichever node shows it.
func (s *Store) Notify(ctx context.Context, id, notice string) error {
	_, err := s.write.ExecContext(ctx, `UPDATE sessions SET notice = $1 WHERE id = $2`, printable(notice, MaxReason), id)
	return s.failed(err)
}

// Notified forgets a notice, as a page says it now. first is whether no other page has said it.
func (s *Store) Notified(ctx context.Context, one *Session) (first bool, err error) {
	done, err := s.write.ExecContext(ctx, `UPDATE sessions SET notice = '' WHERE id = $1 AND notice = $2`, one.ID, one.Notice)
	if err != nil {
		return true, s.failed(err)
	}
	n, err := done.RowsAffected()
	return n > 0, s.failed(err)
}

// ForgetSessions erases sessions whose time is over, and says how many there are.
func (s *Store) ForgetSessions(ctx context.Context) (left int64, err error) {
	err = transact(ctx, s.write, func(t *sql.Tx) error {
		if err := s.endSessions(ctx, t); err != nil {
			return err
		}
		left, err = count(ctx, t, "sessions", "")
		return err
	})
	return left, s.failed(err)
}
