package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// desk is a Log before a rule database that may be away.
type desk struct {
	*Log
	store *rulestore.Store
	away  bool
	said  bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := new(desk)
	var err error
	if d.store, err = rulestore.Open(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.store.Close() })
	d.Log = New(Options{Log: slog.New(slog.NewTextHandler(&d.said, nil)), Store: func() *rulestore.Store {
		if d.away {
			return nil
		}
		return d.store
	}})
	return d
}

func (d *desk) lines(t *testing.T) []rulestore.Event {
	t.Helper()
	list, err := d.store.Audit(t.Context(), rulestore.Audited{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func ann() rulestore.Actor {
	return rulestore.Actor{Name: "ann", Token: "abcdefghij", Teams: []string{"shop"}, Address: "192.0.2.7"}
}

// TestAway: what is done while the database is away comes into the audit when it is back, with the time at which it was done.
func TestAway(t *testing.T) {
	d := newDesk(t)
	d.away = true
	d.Add(ann(), rulestore.Event{Action: rulestore.Reset, Domain: "shop", Reason: "shop/user of bob"})
	done := time.Now()
	d.turn(t.Context(), done)
	d.turn(t.Context(), done)
	if n := strings.Count(d.said.String(), "wait until the rule database takes them"); n != 1 || d.Stats() != (Stats{Waiting: 1}) {
		t.Errorf("said %d times: %s", n, d.said.String())
	}
	d.away = false
	d.turn(t.Context(), done.Add(time.Hour))
	list := d.lines(t)
	if len(list) != 1 || list[0].Actor != "ann" || list[0].Token != "abcdefghij" || list[0].Address != "192.0.2.7" || list[0].At.After(done) || d.Stats() != (Stats{}) {
		t.Errorf("%+v", list)
	}
	said := d.said.String()
	if !strings.Contains(said, "msg=audit action=reset actor=ann token=abcdefghij address=192.0.2.7 domain=shop") || strings.Contains(said, "bob") {
		t.Error(said)
	}
	if head := "msg=\"head of the audit\" head=" + list[0].Head().String(); strings.Count(said, head) != 1 {
		t.Error(said)
	}
	d.turn(t.Context(), done.Add(3*time.Hour))
	if strings.Count(d.said.String(), "head of the audit") != 1 {
		t.Error("a head was said twice:", d.said.String())
	}
}

// TestFull: lines beyond the bound are lost, and the log says which.
func TestFull(t *testing.T) {
	d := newDesk(t)
	d.away = true
	for i := range maxWaiting + 2 {
		d.Add(ann(), rulestore.Event{Action: rulestore.SignIn, Domain: fmt.Sprint("d", i)})
	}
	if s := d.Stats(); s != (Stats{maxWaiting, 2}) || strings.Count(d.said.String(), "is in the log only") != 2 {
		t.Error(s)
	}
	d.away = false
	d.turn(t.Context(), time.Now())
	if list := d.lines(t); len(list) != maxWaiting || list[maxWaiting-1].Domain != fmt.Sprint("d", maxWaiting-1) || d.Stats() != (Stats{0, 2}) {
		t.Error(len(list), d.Stats())
	}
	v, err := d.store.Verify(t.Context(), nil)
	if err != nil || len(v.Faults) > 0 {
		t.Error(v, err)
	}
}

// TestWrong: however many wrong tokens strangers send, they come to one line in a time, which says from where.
func TestWrong(t *testing.T) {
	d := newDesk(t)
	now := time.Now()
	for i := range 1000 {
		d.Wrong(fmt.Sprint("192.0.2.", i%100))
	}
	d.turn(t.Context(), now)
	if len(d.lines(t)) != 0 {
		t.Error("a line before its time")
	}
	d.turn(t.Context(), now.Add(wrongEvery+time.Minute))
	d.turn(t.Context(), now.Add(2*wrongEvery))
	list := d.lines(t)
	if len(list) != 1 || list[0].Action != rulestore.SignInRefused || list[0].Actor != "" || list[0].Address != "" || list[0].Refused == "" ||
		!strings.Contains(list[0].Reason, ": 10 from 192.0.2.0, 10 from 192.0.2.1, ") || !strings.HasSuffix(list[0].Reason, ", 900 from others") {
		t.Errorf("%+v", list)
	}
	d.Wrong("192.0.2.7")
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if list := d.lines(t); len(list) != 2 || list[1].Address != "192.0.2.7" || !strings.HasSuffix(list[1].Reason, ": 1 from 192.0.2.7") {
		t.Errorf("%+v", list)
	}
}

// TestKeep: a line is written when it comes; and what waits at the end is written, or told as lost.
func TestKeep(t *testing.T) {
	d := newDesk(t)
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		d.Keep(ctx)
	}()
	d.Add(ann(), rulestore.Event{Action: rulestore.SignIn})
	for d.Stats().Waiting > 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-kept
	d.Add(ann(), rulestore.Event{Action: rulestore.SignOut})
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if list := d.lines(t); len(list) != 2 || list[1].Action != rulestore.SignOut {
		t.Errorf("%+v", list)
	}
	d.away = true
	d.Add(ann(), rulestore.Event{Action: rulestore.SignIn})
	if err := d.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 are in the log only: the rule database was not reached yet") || d.Stats() != (Stats{0, 1}) {
		t.Error(err, d.Stats())
	}
}

// TestNoDatabase: without a database the log has what is done, and nothing waits.
func TestNoDatabase(t *testing.T) {
	var said bytes.Buffer
	l := New(Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	l.Add(ann(), rulestore.Event{Action: rulestore.Reset, Domain: "shop"})
	l.Wrong("192.0.2.7")
	l.turn(t.Context(), time.Now().Add(time.Hour))
	if err := l.Close(t.Context()); err != nil || l.Stats() != (Stats{}) || strings.Count(said.String(), "msg=audit") != 2 {
		t.Error(err, l.Stats(), said.String())
	}
}
