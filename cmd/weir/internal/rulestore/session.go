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
	Made   time.Time
	Seen   time.Time // the last request, to a minute
	Notice string    // to be said on the next page
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

// BeginSession keeps a session that begins at its Made, and ends others where there would be too many.
func (s *Store) BeginSession(ctx context.Context, one Session) error {
	one.Person = one.Person.printable()
	return s.failed(transact(ctx, s.write, func(t *sql.Tx) error {
		if s.lock != "" { // else several nodes would each leave room for one
			if _, err := t.ExecContext(ctx, s.lock); err != nil {
				return err
			}
		}
		if err := endSessions(ctx, t, one.Made); err != nil {
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
		_, err = t.ExecContext(ctx, `INSERT INTO sessions (id, token, proof, made, seen, notice, issuer, subject, person, member_of, hint) VALUES ($1, $2, $3, $4, $4, '', $5, $6, $7, $8, $9)`,
			one.ID, one.Token, one.Proof, one.Made.UnixMicro(), p.Issuer, p.Subject, p.Name, string(groups), p.Hint)
		return err
	}))
}

// endSessions ends those whose time is over.
func endSessions(ctx context.Context, t *sql.Tx, now time.Time) error {
	_, err := t.ExecContext(ctx, `DELETE FROM sessions WHERE made <= $1 OR seen <= $2`, now.Add(-SessionLife).UnixMicro(), now.Add(-SessionIdle).UnixMicro())
	return err
}

// Session is the session with an ID, and who holds its token; of a token of a file, and of a Person, nobody. It writes down that the session was seen.
// It fails as Unknown when there is none, its time is over, or its token counts no more.
func (s *Store) Session(ctx context.Context, id string, now time.Time) (Session, Actor, error) {
	one := Session{ID: id}
	var made, seen int64
	var groups string
	p := &one.Person
	err := s.read.QueryRowContext(ctx, `SELECT token, proof, made, seen, notice, issuer, subject, person, member_of, hint FROM sessions WHERE id = $1`, id).
		Scan(&one.Token, &one.Proof, &made, &seen, &one.Notice, &p.Issuer, &p.Subject, &p.Name, &groups, &p.Hint)
	if err != nil && !isNone(err) {
		return Session{}, Actor{}, s.failed(err)
	}
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
		s.note(ctx, now, `UPDATE sessions SET seen = $1 WHERE id = $2 AND seen < $1`, now.UnixMicro(), id)
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
func (s *Store) ForgetSessions(ctx context.Context, now time.Time) (left int64, err error) {
	err = transact(ctx, s.write, func(t *sql.Tx) error {
		if err := endSessions(ctx, t, now); err != nil {
			return err
		}
		left, err = count(ctx, t, "sessions", "")
		return err
	})
	return left, s.failed(err)
}
