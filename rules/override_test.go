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

// TestMaxOverrides: requests that bring ever new limits are refused, those with
// known ones are not, and when the others have not come for a while there is
// room again.
func TestMaxOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rules.NewLimiter(memstore.New(memstore.Options{}), rules.Demo())
		bring := func(n int) error {
			d := rules.Descriptor{Entries: []rules.Entry{{Key: "k", Value: "v"}}, Cost: 1}
			d.Override = weir.MustParseLimit(fmt.Sprint(n, "/h fixed-window"))
			_, err := l.Check(t.Context(), &rules.Request{Domain: "demo", Descriptors: []rules.Descriptor{d}})
			return err
		}
		for n := range rules.MaxOverrides {
			if err := bring(n + 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := errors.AsType[*rules.RequestError](bring(1_000_000)); !ok {
			t.Errorf("one limit too many: %v", bring(1_000_000))
		}
		if err := bring(7); err != nil {
			t.Errorf("one that is known: %v", err)
		}
		time.Sleep(16 * time.Minute)
		if err := bring(7); err != nil {
			t.Errorf("after a while: %v", err)
		}
		time.Sleep(16 * time.Minute)
		for _, n := range []int{7, 1_000_000, 1_000_001} {
			if err := bring(n); err != nil {
				t.Errorf("%d, when the others have gone: %v", n, err)
			}
		}
	})
}
