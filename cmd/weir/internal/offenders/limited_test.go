package offenders

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLimited: of each client that is told apart, the true counts of the last minutes and of the last seconds lie between what is told; and
// its last denial is the last one, unless it came when the client was not told apart.
func TestLimited(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed, names, steps := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 3*Names).Draw(rt, "names"), rapid.IntRange(1, 70).Draw(rt, "steps")
		synctest.Test(t, func(*testing.T) { limitedOf(rt, rand.New(rand.NewPCG(seed, 0)), names, steps) })
	})
}

func limitedOf(t *rapid.T, random *rand.Rand, names, steps int) {
	type denial struct {
		at   time.Time
		name string
	}
	b := NewBook()
	traffic := b.Open(user, nil, time.Now())
	var all []denial
	for range steps {
		for range random.IntN(30) {
			name := fmt.Sprint(int(random.ExpFloat64()*float64(names)/4) % names)
			traffic.Refuse([]byte(name), 3*time.Second)
			all = append(all, denial{time.Now(), name})
		}
		time.Sleep(time.Duration(1+random.IntN(15)) * time.Second)
		b.Tick(time.Now(), nil)
	}
	w := traffic.clients.Load()
	if w == nil {
		return // nobody was denied for long
	}
	now := time.Now()
	lately := time.Unix((now.Unix()/lateSeconds-1)*lateSeconds, 0)
	minutes, late, last := map[string]int64{}, map[string]int64{}, map[string]time.Time{}
	for _, d := range all {
		if !d.at.Before(w.since) {
			minutes[d.name]++
			last[d.name] = d.at.Truncate(time.Second)
		}
		if !d.at.Before(lately) {
			late[d.name]++
		}
	}
	told := b.Limited()
	kept := map[string]bool{}
	for _, c := range told[0].Clients {
		kept[c.Name] = true
		if n := minutes[c.Name]; n > c.N || n < c.N-c.Error {
			t.Fatalf("%q was denied %d times, told are %d, of which %d may be too many", c.Name, n, c.N, c.Error)
		}
		if n := late[c.Name]; n < c.Lately || n > c.Lately+c.Error {
			t.Fatalf("%q was denied %d times lately, told are %d and at most %d more", c.Name, n, c.Lately, c.Error)
		}
		if c.Last.After(last[c.Name]) || c.Error == 0 && !c.Last.Equal(last[c.Name]) || !c.Until.Equal(c.Last.Add(3*time.Second)) || c.Since.After(c.Last) {
			t.Fatalf("%+v was denied last at %v", c, last[c.Name])
		}
	}
	for name, n := range minutes {
		if !kept[name] && n > told[0].Least {
			t.Fatalf("%q was denied %d times, and is not told; others at most %d", name, n, told[0].Least)
		}
	}
}

// TestForgiven: a client whose count was reset is not limited until it is denied again, and one that passed all the same never was.
func TestForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook()
		traffic := b.Open(user, nil, time.Now())
		long := []byte(strings.Repeat("x", 2*MaxName))
		traffic.Deny([]byte("passes"))
		for range 3 {
			traffic.Refuse([]byte("ann"), 0)
			traffic.Refuse(long, 0)
		}
		tick(b, int(PaneLife/Step)) // the marks are of the pane before
		traffic.Refuse([]byte("ann"), 0)
		b.Forgive(user, []byte("ann"))
		b.Forgive(user, long)
		b.Forgive(user, []byte("nobody"))
		b.Forgive(ID{Domain: "other"}, []byte("ann"))
		of := func() map[string]Client {
			all := map[string]Client{}
			for _, c := range b.Limited()[0].Clients {
				all[c.Name] = c
			}
			return all
		}
		for name, c := range of() {
			if !c.Last.IsZero() || !c.Since.IsZero() || c.Lately != 0 {
				t.Errorf("%q is limited: %+v", name, c)
			}
		}
		traffic.Refuse([]byte("ann"), time.Hour)
		now := time.Now().Truncate(time.Second).UTC()
		want := Client{Count: Count{"ann", 5, 0}, Lately: 1, Since: now, Last: now, Until: now.Add(time.Hour)}
		if d := cmp.Diff(want, of()["ann"]); d != "" {
			t.Error(d)
		}
		b.Open(ID{Domain: "shop", Rule: "shop/shadow", Shadow: true}, nil, now).Refuse([]byte("ann"), 0)
		if len(b.Limited()) != 1 {
			t.Error("a rule in shadow limits a client")
		}
	})
}
