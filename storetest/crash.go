package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
)

// crashLimits leave something of every form in a store.
var crashLimits = [...]string{
	"10/s", "10/s debt 2", "10/h leaky-queue queue 9", "3/month fixed-window", "100/h sliding-window 6", "9/day sliding-log",
	"2 concurrent ttl 1h", "5/day fixed-window count-denied",
}

const (
	crashCount = 20
	crashCost  = 3
	crashNow   = 1_800_000_000_000_000
)

// runCrash: a process that dies between any two things that it says to its server
// or hears from it leaves what it had in hand charged, passes nothing twice, and
// leaves nothing that stays for ever.
func runCrash(t *testing.T, open Open, o Options) {
	for after := 0; ; after++ {
		name := fmt.Sprint("crash", after)
		s := &story{store: o.Dying(t, name, after), limit: weir.MustParseLimit(fmt.Sprint(crashCount, "/day fixed-window"))}
		err := s.run()
		alive := open(t, name)
		asks, out, rest := s.asks(0, "a#1"), make([]weir.Decision, 1), int64(0)
		for asks[0].Cost = 1; rest <= crashCount; rest++ {
			if err := alive.TakeAt(crashNow, asks, out); err != nil {
				t.Fatal(err)
			}
			if out[0].Outcome != weir.Allowed {
				break
			}
		}
		if n := rest + s.inHand; n > crashCount || n < crashCount-crashCost {
			t.Errorf("dead after %d steps: %d in hand, then %d passed of %d (%v)", after, s.inHand, rest, crashCount, err)
		}
		o.check(t)
		if err == nil {
			if after < 8 {
				t.Errorf("the process lived through the story after %d steps", after)
			}
			t.Logf("died at %d steps", after)
			return
		}
	}
}

// story does all that leaves something in a store, one thing after the other, and
// knows what it has in hand.
type story struct {
	store  Clocked
	limit  *weir.Limit
	inHand int64
}

func (s *story) asks(id uint64, rules ...string) []weir.Ask {
	var asks []weir.Ask
	for _, rule := range rules {
		asks = append(asks, weir.Ask{State: weir.StateKey{Rule: rule, Key: "k"}, Limit: s.limit, Cost: crashCost, Receipt: id})
	}
	return asks
}

func (s *story) run() error {
	out := make([]weir.Decision, 2)
	if err := s.store.TakeAt(crashNow, s.asks(0, "a#1"), out[:1]); err != nil {
		return err
	}
	s.inHand += crashCost
	if err := s.store.TakeAt(crashNow, s.asks(11, "a#1"), out[:1]); err != nil {
		return err
	}
	s.inHand += crashCost
	receipt, once := out[0].Receipt, s.asks(12, "a#1")
	once[0].Once = true
	for n := range 2 {
		if err := s.store.TakeAt(crashNow, once, out[:1]); err != nil {
			return err
		}
		if n == 0 {
			s.inHand += crashCost
		}
	}
	s.inHand -= crashCost // what a settlement may give back is not in hand while it is on its way
	for range 2 {
		err := s.store.SettleAt(crashNow, []weir.Settlement{{Receipt: receipt}})
		if err != nil && !errors.Is(err, weir.ErrSettled) {
			return err
		}
	}
	if err := s.store.TakeAt(crashNow, s.asks(13, "a#1", "b"), out); err != nil {
		return err
	}
	s.inHand += crashCost
	return s.more()
}

// more uses other limits, and resets them.
func (s *story) more() error {
	out := make([]weir.Decision, 1)
	for i, text := range crashLimits {
		limit := weir.MustParseLimit(text)
		if !fits(s.store, limit) {
			continue
		}
		asks := s.asks(uint64(20+i), fmt.Sprint("more#", i))
		asks[0].Limit, asks[0].Cost = limit, 1
		if err := s.store.TakeAt(crashNow, asks, out); err != nil {
			return err
		}
		if err := s.store.SettleAt(crashNow, []weir.Settlement{{Receipt: out[0].Receipt}}); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := s.store.ResetAt(crashNow, []weir.StateKey{asks[0].State}); err != nil {
				return err
			}
		}
	}
	return nil
}
