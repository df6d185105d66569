package rules_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestMaxOverrides: a client that brings ever new limits is refused when it has
// one 64th of all that may be in use, but for those that are known. Others bring theirs, and
// when its own are as never used it has room again.
func TestMaxOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rules.NewLimiter(memstore.New(memstore.Options{}), rules.Demo())
		bring := func(client string, n int) error {
			d := rules.Descriptor{Entries: []rules.Entry{{Key: "k", Value: "v"}}, Cost: 1}
			d.Override = weir.MustParseLimit(fmt.Sprint(n, "/min fixed-window"))
			_, err := l.Check(t.Context(), &rules.Request{Domain: "demo", Descriptors: []rules.Descriptor{d}, Client: client})
			return err
		}
		for n := range rules.MaxOverrides / 64 {
			if err := bring("flood", n+1); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := errors.AsType[*rules.RequestError](bring("flood", 1_000_000)); !ok {
			t.Errorf("one limit too many: %v", bring("flood", 1_000_000))
		}
		if err := bring("flood", 7); err != nil {
			t.Errorf("one that is known: %v", err)
		}
		for n := range 500 {
			if err := bring("other", 2_000_000+n); err != nil {
				t.Fatalf("the flood of somebody else refuses limit %d: %v", n, err)
			}
		}
		time.Sleep(time.Minute + time.Second)
		for _, n := range []int{7, 1_000_000, 1_000_001} {
			if err := bring("flood", n); err != nil {
				t.Errorf("%d, when the others are as never used: %v", n, err)
			}
		}
	})
}

// TestFillingOverrides: clients that bring ever new limits for a year, each as many as
// it may, fill the table only when they are hundreds. Each has one at least, and is told
// whether it has too many or all have; afterwards all have room again.
func TestFillingOverrides(t *testing.T) {
	var o rules.Overrides
	const year = weir.Instant(365 * 24 * time.Hour / time.Microsecond)
	bring := func(client, n int) error {
		u, err := o.Admit(fmt.Sprint(client, "/", n), fmt.Sprint(client), 0)
		if err == nil {
			u.Use(year)
		}
		return err
	}
	clients, all := 0, 0
	for ; all < rules.MaxOverrides; clients++ {
		n, err := 0, error(nil)
		for err = bring(clients, n); err == nil; err = bring(clients, n) {
			n++
		}
		if n == 0 || n > 512 {
			t.Fatalf("client %d may have %d limits", clients+1, n)
		}
		if all += n; all < rules.MaxOverrides && !errors.Is(err, rules.ErrClientOverrides) {
			t.Fatalf("client %d, when %d are in use: %v", clients+1, all, err)
		}
	}
	if clients != 496 {
		t.Errorf("%d clients fill the table", clients)
	}
	if err := bring(clients, 0); !errors.Is(err, rules.ErrAllOverrides) {
		t.Errorf("a newcomer, when all are in use: %v", err)
	}
	if _, err := o.Admit("late", "late", year); err != nil {
		t.Errorf("when all are as never used: %v", err)
	}
}
