package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The bounds and times of discovery.
const (
	// MaxJoin is how many addresses Options.Join may name.
	MaxJoin = 256

	aloneEvery  = time.Second      // others are looked for, while there are none
	lookupEvery = 30 * time.Second // else
	retryEvery  = 5 * time.Second  // while members are dead to memberlist
	maxFound    = 1024             // addresses of one name; the rest is left out
	joinsAtOnce = 8
	lookupTime  = 2 * time.Second
)

// find looks for members until the context is done.
func (g *Gossip) find(ctx context.Context) {
	g.join(ctx)
	close(g.searched)
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.lookNow:
		case <-time.After(g.pause()):
		}
		g.announce()
		g.join(ctx)
		if g.sleep(aloneEvery / 4) { // however often it is asked to look
			return
		}
	}
}

// pause is how long nobody need be looked for.
func (g *Gossip) pause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	dead, alive := 0, 0
	for _, e := range g.table.entries {
		switch {
		case e.standing != agreed && e.standing != gone:
		case e.alive:
			alive++
		default:
			dead++
		}
	}
	switch {
	case alive == 0:
		return aloneEvery
	case dead > 0:
		return retryEvery
	default:
		return lookupEvery
	}
}

// candidates are addresses at which there may be members that memberlist does not reach. before
// tells at which of them there was a member before. failed are names that stand for no address.
func (g *Gossip) candidates(ctx context.Context) (found []netip.AddrPort, before map[netip.AddrPort]bool, failed []Unjoined) {
	before = map[netip.AddrPort]bool{}
	for _, address := range g.joins {
		at, err := resolve(ctx, g.lookup, address)
		if err != nil && ctx.Err() == nil {
			g.complain("cannot look up a node to join", address, err.Error())
			failed = append(failed, Unjoined{Address: address, Why: oneLine(err.Error())})
		}
		found = append(found, at...)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	reached := map[netip.AddrPort]bool{g.port.advertise: true}
	for _, e := range g.table.entries {
		switch {
		case e.alive:
			reached[e.address] = true
		case e.standing == agreed || e.standing == gone:
			found = append(found, e.address)
			before[e.address] = true
		}
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	found = slices.Compact(found)
	return slices.DeleteFunc(found, func(a netip.AddrPort) bool { return reached[a] }), before, failed
}

// lookup is net.Resolver.LookupNetIP.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// resolve is what an address of Options.Join stands for.
func resolve(ctx context.Context, look lookup, address string) ([]netip.AddrPort, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := look(ctx, "ip", host)
	var found []netip.AddrPort
	for _, ip := range ips[:min(len(ips), maxFound)] {
		found = append(found, netip.AddrPortFrom(ip.Unmap(), port))
	}
	return found, err
}

// splitAddress reads host:port, where the port is a number and not 0.
func splitAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("%q is no host:port; write a name or an address and a port, as in 10.0.0.1:8083", address)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q has no port from 1 to 65535; write host:port, as in 10.0.0.1:8083", address)
	}
	return host, uint16(n), nil
}

// join has memberlist ask each candidate for its members. An address where a member was before is
// known already not to answer.
func (g *Gossip) join(ctx context.Context) {
	addresses, before, failed := g.candidates(ctx)
	var joins errgroup.Group
	joins.SetLimit(joinsAtOnce)
	var mu sync.Mutex // held for failed
	for _, a := range addresses {
		if ctx.Err() != nil {
			break
		}
		joins.Go(func() error {
			_, err := g.list.Join([]string{a.String()})
			if err == nil {
				g.met(a)
			}
			if err == nil || ctx.Err() != nil {
				return nil
			}
			u := g.refused(a.String(), before[a], err)
			mu.Lock()
			defer mu.Unlock()
			if u.OtherKey { // which matters most
				failed = slices.Insert(failed, 0, u)
			} else {
				failed = append(failed, u)
			}
			return nil
		})
	}
	_ = joins.Wait() // each has told of its own
	failed = failed[:min(len(failed), maxUnjoined)]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unjoined = failed
}

// complainEvery is how often the log says that an address does not answer.
const complainEvery = time.Minute

// complain logs what is wrong with an address, not each time.
func (g *Gossip) complain(what, address, why string) {
	complaint := [2]string{what, address}
	g.mu.Lock()
	now := time.Now()
	often := now.Sub(g.complained[complaint]) < complainEvery
	if !often {
		if len(g.complained) > MaxMembers {
			clear(g.complained)
		}
		g.complained[complaint] = now
	}
	g.mu.Unlock()
	if !often {
		//nolint:sloglint // what is one of a few constants
		g.log.Warn(what, "address", address, "error", why)
	}
}
