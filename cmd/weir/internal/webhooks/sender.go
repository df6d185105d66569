package webhooks

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/sleep"
)

// leaseName is of the lease that lets a node send.
const leaseName = "webhooks"

// Keep sends what there is to send while this node holds the lease, until ctx ends. Then another node may send at once.
func (s *Sender) Keep(ctx context.Context) {
	held, said := time.Time{}, "" // until when this node may send
	sleep.Every(ctx, s.every, func(now time.Time) {
		list, mine, err := s.look(ctx)
		failed := ""
		switch {
		case err != nil:
			failed = err.Error()
		case mine:
			held = now.Add(s.lease)
		default:
			held = time.Time{}
		}
		switch {
		case time.Now().After(held.Add(-s.every)): // another one may send soon
			s.sendTo(ctx, nil)
		case err == nil:
			s.sendTo(ctx, list)
		}
		if failed != "" && failed != said && ctx.Err() == nil {
			s.options.Log.Warn("webhooks wait for the rule database", "error", failed)
		}
		said = failed
	})
	s.sendTo(ctx, nil)
	s.running.Wait()
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
	defer stop()
	if store := s.options.Store(); store != nil && !held.IsZero() {
		_ = store.EndLease(ending, leaseName, s.name) // else it ends by itself
	}
}

// look finds the webhooks that are told something, and whether this node is the one that tells them.
func (s *Sender) look(ctx context.Context) (list []rulestore.Webhook, mine bool, err error) {
	store := s.options.Store()
	if store == nil {
		return nil, false, nil
	}
	ctx, stop := context.WithTimeout(ctx, renewTime)
	defer stop()
	list, err = store.WebhooksToTell(ctx)
	list = slices.DeleteFunc(list, func(w rulestore.Webhook) bool { return w.Disabled })
	switch {
	case err != nil || len(list) == 0:
		return nil, false, err
	case !store.Shared(): // nobody else serves it
		return list, true, nil
	}
	mine, err = store.Lease(ctx, leaseName, s.name, s.lease)
	return list, mine, err
}

// sendTo has one goroutine for each webhook of a list, and ends those of others. A slow receiver holds up no other.
func (s *Sender) sendTo(ctx context.Context, list []rulestore.Webhook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for i := range list {
		id := list[i].ID
		there[id] = true
		if s.sending[id] == nil {
			s.start(ctx, id)
		}
	}
	for id, q := range s.sending {
		if !there[id] {
			q.stop()
			delete(s.sending, id)
		}
	}
}

func (s *Sender) start(ctx context.Context, id string) {
	ctx, stop := context.WithCancel(ctx)
	q := &queue{stop: stop}
	s.sending[id] = q
	s.running.Go(func() {
		sleep.Every(ctx, s.every, func(time.Time) {
			if err := s.empty(ctx, id, q); err != nil && ctx.Err() == nil {
				s.options.Log.Warn("a webhook waits for the rule database", "webhook", id, "error", err)
			}
		})
	})
}

// empty sends to one webhook what there is, until there is no more or it fails.
func (s *Sender) empty(ctx context.Context, id string, q *queue) error {
	for ctx.Err() == nil {
		store := s.options.Store()
		w, err := store.WebhookToTell(ctx, id)
		if err != nil {
			return err
		}
		if time.Now().Before(w.NextTry) {
			return nil
		}
		list, err := store.Outbox(ctx, &w)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			q.oldest.Store(0)
			return nil
		}
		for i := range list {
			q.oldest.Store(list[i].At.UnixMicro())
			more, err := s.deliver(ctx, store, &w, &list[i])
			if err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// deliver makes a try to deliver a message; false: those behind it have to wait.
func (s *Sender) deliver(ctx context.Context, store *rulestore.Store, w *rulestore.Webhook, m *rulestore.Message) (more bool, err error) {
	d := s.client.send(ctx, w, m, w.Failed+1)
	if ctx.Err() != nil && d.Error != "" {
		return false, nil // it was cut off: the next node tries again
	}
	// A delivery is written down, also when the node ends.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
	defer stop()
	if d.Error == "" {
		s.delivered.Add(1)
		w.Failed = 0
		return true, store.Delivered(ctx, w, m, d)
	}
	s.failed.Add(1)
	if err := store.Undelivered(ctx, w, d, time.Now().Add(pause(w.Failed))); err != nil {
		return false, err
	}
	return false, s.giveUp(ctx, store, w.ID, d.Error)
}

// giveUp leaves messages out that are too old, behind a try that failed.
func (s *Sender) giveUp(ctx context.Context, store *rulestore.Store, id, failed string) error {
	for {
		w, err := store.WebhookToTell(ctx, id)
		if err != nil {
			return err
		}
		list, err := store.Outbox(ctx, &w)
		if err != nil {
			return err
		}
		old := slices.IndexFunc(list, func(m rulestore.Message) bool { return time.Since(m.At) <= giveUpAfter })
		if old < 0 {
			old = len(list)
		}
		if old == 0 {
			return nil
		}
		if err := store.GiveUp(ctx, &w, &list[old-1], int64(old)); err != nil {
			return err
		}
		s.givenUp.Add(int64(old))
		s.options.Log.Error("messages for a webhook are given up", "webhook", id, "messages", old, "last", list[old-1].ID, "error", failed)
	}
}

// pause is how long to wait behind a number of failed tries and one more: anything up to a time that doubles (full jitter), so that many
// that failed together do not come back together.
func pause(failed int64) time.Duration {
	longest := maxPause
	if failed < 20 {
		longest = min(firstPause<<failed, maxPause)
	}
	return rand.N(longest)
}

// Ping sends a test to a webhook, disabled or not, and says how it went.
func (s *Sender) Ping(ctx context.Context, w *rulestore.Webhook, by rulestore.Actor) (rulestore.Delivery, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	m := &rulestore.Message{ID: "msg_" + w.ID + "_p" + now.Format("20060102150405.000000"), Kind: rulestore.Ping, At: now, Action: rulestore.Ping, Actor: by.Name, Text: by.Name + " tests this webhook"}
	d := s.client.send(ctx, w, m, 1)
	return d, s.options.Store().Pinged(ctx, w, d)
}
