package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// The bounds of what processes tell of themselves.
const (
	// MaxName is how long the name of a node may be, in bytes.
	MaxName = 255
	// MaxMeta is how long Options.Meta may be, in bytes.
	MaxMeta = 400
)

// memberlist knows processes, by names of their own: two of one node are no
// conflict to it. This package settles which of them has the name of the node.
func (p identity) memberlistName() string { return fmt.Sprintf("%s#%016x", p.name, p.id) }

// appendMeta is what memberlist tells all of a process beside its name and address.
func (p *process) appendMeta(b []byte) []byte {
	b = append(b, version, flag(p.tcp))
	b = binary.BigEndian.AppendUint64(b, p.id)
	b = binary.BigEndian.AppendUint64(b, p.incarnation)
	return append(b, p.meta...)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

var errForeign = errors.New("no node of this version of weir")

// parseNode is the process that memberlist speaks of.
func parseNode(n *memberlist.Node) (process, error) {
	if len(n.Meta) < 18 || len(n.Meta) > 18+MaxMeta || n.Meta[0] != version || n.Meta[1] > 1 {
		return process{}, errForeign
	}
	ip, ok := netip.AddrFromSlice(n.Addr)
	p := process{
		address: netip.AddrPortFrom(ip.Unmap(), n.Port), tcp: n.Meta[1] == 1,
		incarnation: binary.BigEndian.Uint64(n.Meta[10:]), meta: append([]byte(nil), n.Meta[18:]...),
	}
	p.id = binary.BigEndian.Uint64(n.Meta[2:])
	at := strings.LastIndexByte(n.Name, '#')
	if !ok || at < 1 || at > MaxName {
		return process{}, errForeign
	}
	if p.name = n.Name[:at]; n.Name != p.memberlistName() {
		return process{}, errForeign
	}
	return p, nil
}

// delegate is what memberlist calls. Some of it is called under memberlist's lock,
// so nothing here may call memberlist.
type delegate struct{ g *Gossip }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.AliveDelegate = delegate{}
)

// NotifyAlive refuses who can't be a member.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	p, err := parseNode(n)
	if err != nil {
		d.g.in.drop(Version)
		return err
	}
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	if p.id != d.g.me.id && !d.g.table.admits(p.id) {
		d.g.in.drop(Membership)
		return fmt.Errorf("there are %d members already", MaxMembers)
	}
	return nil
}

// NotifyJoin takes in a process that memberlist reaches.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.NotifyUpdate(n) }

// NotifyUpdate takes in what a process newly tells of itself.
func (d delegate) NotifyUpdate(n *memberlist.Node) {
	if p, err := parseNode(n); err == nil { // NotifyAlive has told of others
		d.g.change(func(now time.Duration) { d.g.table.join(now, p) })
	}
}

// NotifyLeave takes in that memberlist does not reach a process.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	if p, err := parseNode(n); err == nil {
		d.g.change(func(now time.Duration) { d.g.table.die(now, p.id) })
		d.g.look() // from now on more often
	}
}

// NodeMeta is what this process tells of itself.
func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	return d.g.table.me.appendMeta(nil)
}

// NotifyMsg hears that a process is no member any more, and tells it on if that is
// news.
func (d delegate) NotifyMsg(b []byte) {
	one, err := parseEntries(b)
	if err != nil || len(one) != 1 {
		d.g.in.drop(Garbled)
		return
	}
	d.g.departed(&one[0])
}

// GetBroadcasts is what is told on.
func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.broadcasts.GetBroadcasts(overhead, limit)
}

// LocalState is what memberlist does not tell: the processes that it does not reach.
func (d delegate) LocalState(bool) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	now := sinceBoot()
	return formatEntries(now, d.g.table.unreached(now))
}

// MergeRemoteState hears who another process does not reach.
func (d delegate) MergeRemoteState(b []byte, _ bool) {
	entries, err := parseEntries(b)
	if err != nil {
		d.g.in.drop(Garbled)
		return
	}
	d.g.change(func(now time.Duration) {
		for i := range entries {
			entries[i].since += now // it was told as an age
		}
		d.g.table.merge(now, entries, d.g.unheard(now))
	})
}
