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

	"github.com/weir-limit/weir/edge"
)

const (
	// contactEvery is how often daemons that are away are asked whether they are back.
	// contactTime is how long one may take to answer. To ask many may take longer than
	// contactEvery; the next round then begins as soon as that one has ended.
	contactEvery = time.Second
	contactTime  = 50 * time.Millisecond
	// lookUpEvery is how often a name is looked up whose addresses are daemons, in
	// contacts, and lookUpTime is how long that may take. The pause is longer than an edge
	// takes to close: then nobody needs the connections of daemons that are gone.
	lookUpEvery = 10
	lookUpTime  = time.Second
	// firstContact is how long daemons that are new may take to say what they promise,
	// and one to say whether it can keep a limit.
	firstContact = time.Second
)

// lookUps say how names are looked up, and every how many contacts.
type lookUps struct {
	resolver *net.Resolver
	every    int
}

// watch finds daemons that are back, and those that a name stands for now, until ctx
// ends.
//
// There are two reasons to arrange the daemons anew. The name stands for others. Or the daemons turn out
// to share a store, or not to, once they have answered: at Open some may have been away. Else the
// arrangement stays, and with it all that its edge knows.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := s.current.Load().daemons
		is.contact(ctx)
		all := is.all
		if s.place != nil && n%s.names.every == 0 {
			all = s.follow(ctx, all)
		}
		if is.shared != oneStore(all) || !slices.Equal(is.all, all) {
			first, cancel := context.WithTimeout(ctx, firstContact)
			s.arrange(first, all)
			cancel()
		}
	}
}

// follow is the daemons that the name stands for now; those of before where it can't
// be looked up. A name server that is down, or a name without addresses, takes no daemon away.
//
// It asks new daemons what they promise before they are used, and waits firstContact for them. Those that
// are gone keep their connections until the next look-up. Daemons that stay are the same values as before,
// which watch compares.
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
	first, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	_ = meet(first, fresh) // one that refuses is away
	return now
}

// without is those of all that are not among others.
func without(all, others []*daemon) []*daemon {
	return slices.DeleteFunc(slices.Clone(all), func(d *daemon) bool { return slices.Contains(others, d) })
}

// lookUp is the places that the name stands for. It fails where there are none. All programs must come to
// the same daemons, or they would count a key at different ones: so the addresses are sorted, and the
// first maxDaemons of them stay. An address has no name of its own, so certificates are for the URL's.
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

// dial is daemons at places: of those known, the same. When it fails it gives those that it has so far,
// for the caller to close those that are new.
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

// arrange makes the daemons the ones to ask, and waits until one of them answers, or ctx ends. The
// daemons before them are told meanwhile what they have not heard, as far as they are there.
//
// Calls go to the arrangement before until the new one is in place: so none of them pays a deadline to find
// out which of the new daemons are there. The one before closes beside, in up to 5 s, and Close waits for it.
func (s *Store) arrange(ctx context.Context, all []*daemon) {
	is := newDaemons(all, s.changed)
	now := &arrangement{edge.New(is, edge.Options{Changed: s.changed}), is}
	now.Meet(ctx)
	if before := s.current.Swap(now); before != nil {
		s.counts.remembered.Add(before.daemons.denials.Answered())
		s.leaving.Go(func() { _ = before.Close() }) // what is away will not hear
	}
}

// oneStore is whether the daemons, as far as they were heard, share a store. One that counts by itself
// settles it. Where none was heard, they are taken to count by themselves: then each key has one daemon,
// which is right for both kinds, though takes of several keys are decided apart.
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
// store, each program asks another one first. When one goes away, its programs come to different ones.
func inAnyOrder(all []*daemon) []*daemon {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// meet asks daemons what they promise. It fails when one refuses. One that does not answer in the time of
// ctx is no failure: it is asked again later.
func meet(ctx context.Context, all []*daemon) error {
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

// closeAll closes connections when calls on their way have ended. Calls that come later fail with
// weir.ErrAway.
func closeAll(all []*daemon) error {
	var errs []error
	for _, d := range all {
		d.lane.Close()
		errs = append(errs, d.conn.Close())
	}
	return errors.Join(errs...)
}
