package webui

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestSessionsEnd: a session ends some time after it began, and sooner when
// nothing is heard of it.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s, now := newSessions(), time.Unix(1_700_000_000, 0)
	silent, busy := s.begin("a", now), s.begin("b", now)
	for at := now; at.Before(now.Add(sessionLife)); at = at.Add(sessionIdle - time.Second) {
		if s.find(busy, at) == nil {
			t.Fatal("a session ends after", at.Sub(now))
		}
	}
	if s.find(busy, now.Add(sessionLife)) != nil {
		t.Error("a session never ends")
	}
	if s.find(silent, now.Add(sessionIdle)) != nil {
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
	first, second := s.begin("", now), s.begin("", now.Add(time.Second))
	for i := range maxSessions - 2 {
		s.begin("", now.Add(time.Minute+time.Duration(i)*time.Millisecond))
	}
	at := now.Add(2 * time.Minute)
	if s.find(first, at) == nil {
		t.Fatal("a session was ended though there was room")
	}
	s.begin("", at)
	if s.find(first, at) == nil || s.find(second, at) != nil || len(s.byID) != maxSessions {
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
