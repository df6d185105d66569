package webui

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// begun keeps a session that began at a time, and gives its ID.
func begun(s *sessions, secret string, at time.Time) string {
	id := rulestore.SessionID(secret)
	s.begin(rulestore.Session{ID: id, Made: at, Seen: at})
	return id
}

func goesOn(s *sessions, id string, at time.Time) bool {
	_, ok := s.find(id, at)
	return ok
}

// TestSessionsEnd: a session that a node keeps alone ends some time after it began, and sooner when
// nothing is heard of it.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s, now := newSessions(), time.Unix(1_700_000_000, 0)
	silent, busy := begun(s, "a", now), begun(s, "b", now)
	for at := now; at.Before(now.Add(rulestore.SessionLife)); at = at.Add(rulestore.SessionIdle - time.Second) {
		if !goesOn(s, busy, at) {
			t.Fatal("a session ends after", at.Sub(now))
		}
	}
	if goesOn(s, busy, now.Add(rulestore.SessionLife)) {
		t.Error("a session never ends")
	}
	if goesOn(s, silent, now.Add(rulestore.SessionIdle)) {
		t.Error("a silent session goes on")
	}
	if len(s.byID) != 0 {
		t.Error("sessions that are over are kept:", len(s.byID))
	}
}

// TestSessionsAreBounded: one more ends the one that was silent the longest.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s, now := newSessions(), time.Unix(1_700_000_000, 0)
	first, second := begun(s, "first", now), begun(s, "second", now.Add(time.Second))
	for i := range rulestore.MaxSessions - 2 {
		begun(s, strconv.Itoa(i), now.Add(time.Minute+time.Duration(i)*time.Millisecond))
	}
	at := now.Add(2 * time.Minute)
	if !goesOn(s, first, at) {
		t.Fatal("a session was ended though there was room")
	}
	begun(s, "one more", at)
	if !goesOn(s, first, at) || goesOn(s, second, at) || len(s.byID) != rulestore.MaxSessions {
		t.Error("another one than the silent one was ended, or none:", len(s.byID))
	}
}

// TestAbout: times are told in the units of people, rounded up.
func TestAbout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 3 * time.Nanosecond: "1 µs", 1500 * time.Microsecond: "1.5 ms", 1500*time.Millisecond + 1: "1.501 s", time.Minute: "1 min",
		12*time.Minute - 40*time.Millisecond: "12 min", 90 * time.Minute: "1 h 30 min", 26*time.Hour + 3*time.Second: "1 d 2 h 3 s",
	} {
		if got := about(d); got != want {
			t.Errorf("%v is told as %q, not %q", d, got, want)
		}
	}
}

// TestUpper: whatever a text begins with, it stays whole.
func TestUpper(t *testing.T) {
	for text, want := range map[string]string{"": "", "a b": "A b", "éa": "Éa", "“a”": "“a”", "1/s": "1/s"} {
		if got := upper(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestVisitTime: no page waits longer for the database than its answer may take.
func TestVisitTime(t *testing.T) {
	served := false
	page := new(Pages).visited(func(v *visit) error {
		end, ok := v.r.Context().Deadline()
		served = ok && time.Until(end) <= visitTime
		return nil
	})
	page(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, Home, nil))
	if !served {
		t.Error("a visit has no end")
	}
}
