package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/synced"
)

const (
	// contactEvery is how often daemons that are away are asked whether they are back.
	// contactTime is how long one may take to answer.
	contactEvery = time.Second
	contactTime  = 50 * time.Millisecond
	// lookUpEvery is how often a name is looked up whose addresses are daemons, in
	// contacts, and lookUpTime is how long that may take.
	lookUpEvery = 10
	lookUpTime  = time.Second
	// firstContact is how long daemons that are new may take to say what they promise,
	// and one to say whether it can keep a limit.
	firstContact = time.Second
	// leaveTime is how long daemons that change are told what they have not heard, and
	// maxClose those of a store that is closed.
	leaveTime = time.Second
	maxClose  = 5 * time.Second
)

// lookUps say how names are looked up, and every how many contacts.
type lookUps struct {
	resolver *net.Resolver
	every    int
}

// watch finds daemons that are back, and those that a name stands for now, until ctx
// ends.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.contact(ctx)
		is := s.current.Load().daemons
		all := is.all
		if s.place != nil && n%s.names.every == 0 {
			all = s.follow(ctx, all)
		}
		if is.shared != oneStore(all) || !slices.Equal(is.all, all) {
			s.arrange(all)
		}
	}
}

// contact asks those that are away whether they are back.
func (s *Store) contact(ctx context.Context) {
	is := s.current.Load()
	if is.daemons.shared {
		is.daemons.contact(ctx)
	}
	if is.guard.Stats().Away > 0 {
		is.guard.Contact(ctx, is.daemons.ping)
	}
}

// follow is the daemons that the name stands for now; those of before where it can't
// be looked up.
func (s *Store) follow(ctx context.Context, all []*daemon) []*daemon {
	places, err := s.lookUp(ctx)
	if err != nil {
		return all
	}
	_ = closeAll(s.gone) // nobody has asked these for a while
	s.gone = nil
	now, err := s.dial(places, all)
	if err != nil {
		_ = closeAll(without(now, all)) // nobody has asked these
		return all
	}
	gone, fresh := without(all, now), without(now, all)
	if len(gone)+len(fresh) == 0 {
		return all
	}
	s.gone = gone
	_ = meet(fresh) // one that refuses is away
	return now
}

// without is those of all that are not among others.
func without(all, others []*daemon) []*daemon {
	return slices.DeleteFunc(slices.Clone(all), func(d *daemon) bool { return slices.Contains(others, d) })
}

// lookUp is the places that the name stands for. It fails where there are none.
func (s *Store) lookUp(ctx context.Context) ([]*place, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	host, port, err := net.SplitHostPort(s.place.name)
	if err != nil {
		return nil, err
	}
	found, err := s.names.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.Addr // of a machine that has both, one is enough
	for _, a := range found {
		if a = a.Unmap(); a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	if found = v4; len(v4) == 0 {
		found = v6
	}
	slices.SortFunc(found, netip.Addr.Compare) // all programs take the same ones
	found = slices.Compact(found)
	places := make([]*place, 0, len(found))
	for _, a := range found[:min(len(found), maxDaemons)] {
		at := net.JoinHostPort(a.String(), port)
		places = append(places, &place{name: at, target: "passthrough:///" + at, authority: s.place.name, token: s.place.token, safe: s.place.safe.Clone()})
	}
	return places, nil
}

// dial is daemons at places: of those known, the same.
func (s *Store) dial(places []*place, known []*daemon) (all []*daemon, err error) {
	for _, p := range places {
		if i := slices.IndexFunc(known, func(d *daemon) bool { return d.name == p.name }); i >= 0 {
			all = append(all, known[i])
			continue
		}
		d, err := dial(p, &s.limits, &s.counts)
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	return all, nil
}

// arrange makes the daemons the ones to ask. It tells the daemons before them what they have not
// heard, as far as they are there.
func (s *Store) arrange(all []*daemon) {
	is := newDaemons(all, s.changed)
	g := &guarded{guard: guard.New(is, guard.Options{Changed: s.changed}), daemons: is}
	g.Store = synced.New(g.guard)
	g.guard.Contact(context.Background(), is.ping)
	if before := s.current.Swap(g); before != nil {
		s.counts.home.Add(before.daemons.home.Answered())
		_ = before.leave(leaveTime) // what is away will not hear
	}
}

// oneStore is whether the daemons, as far as they were heard, share a store.
func oneStore(all []*daemon) bool {
	heard := false
	for _, d := range all {
		if t := d.traits.Load(); t != nil {
			if !t.Shared {
				return false
			}
			heard = true
		}
	}
	return heard && len(all) > 1
}

// inAnyOrder is the daemons in an order of this store's own: of those that share a
// store, each program asks another one first.
func inAnyOrder(all []*daemon) []*daemon {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// meet asks daemons what they promise. It fails when one refuses.
func meet(all []*daemon) error {
	ctx, cancel := context.WithTimeout(context.Background(), firstContact)
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, d := range all {
		wg.Go(func() {
			_, err := d.describe(ctx)
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				errs[i] = refused
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// closeAll closes connections when calls on their way have ended.
func closeAll(all []*daemon) error {
	var errs []error
	for _, d := range all {
		d.lane.Close()
		errs = append(errs, d.conn.Close())
	}
	return errors.Join(errs...)
}
