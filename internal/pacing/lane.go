package pacing

import (
	"sync"
	"time"
)

// lane is the calls that count against one limit of a server.
type lane struct {
	options *Options
	users   int // calls that have begun and not ended; the table's

	mu     sync.Mutex
	queue  queue
	paying *Call // the one that is asking the client's own limiter
	flying int   // calls that were sent and not answered
	known  known
	budget budget
}

// held is whether the server has asked to be left alone now.
func (l *lane) held(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.known.hold)
}

// step is what a call does next.
type step int

const (
	wait  step = iota // until a time, or until it is woken
	pay               // ask the own limiter
	send              // it has been taken out of the queue, and counts as sent
	leave             // what it would wait for comes too late
)

// next is what c does next, and until when it waits, or what comes too late.
func (l *lane) next(c *Call, now time.Time) (step, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.hold.After(c.deadline) {
		return leave, l.known.hold
	}
	if !l.leads(c, now) {
		l.wakeFirst(now)
		return wait, l.ownTime(c, now)
	}
	must, should := l.known.next(now, l.flying)
	if should.After(c.deadline) {
		should = must // better too early than not at all
	}
	switch {
	case must.After(c.deadline):
		return leave, must
	case should.After(now):
		return wait, should
	case c.retry.After(now):
		return wait, c.retry
	case l.options.Limiter != nil && c.paid == nil:
		l.paying = c
		return pay, now
	}
	l.queue.remove(c)
	c.number = l.known.send(now, l.flying)
	l.flying++
	l.wakeFirst(now)
	return send, now
}

// leads is whether it is c's turn. A call that has paid need not queue again.
func (l *lane) leads(c *Call, now time.Time) bool {
	if c.notBefore.After(now) {
		return false
	}
	return c.paid != nil || l.paying == nil && l.queue.first(now, l.options.MaxWait) == c
}

// ownTime is until when a call sleeps whose turn it is not.
func (l *lane) ownTime(c *Call, now time.Time) time.Time {
	if c.notBefore.After(now) {
		return c.notBefore
	}
	return c.deadline
}

// wakeFirst lets the call whose turn it is look again.
func (l *lane) wakeFirst(now time.Time) {
	if l.paying != nil {
		return
	}
	if c := l.queue.first(now, l.options.MaxWait); c != nil {
		c.rouse()
	}
}

// wakeAll lets all that wait look again: some of them may not have the time.
func (l *lane) wakeAll() {
	for _, c := range l.queue.calls {
		c.rouse()
	}
}

func (c *Call) rouse() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}
