package gossip

import (
	"fmt"
	"net/netip"
	"time"
)

// remember begins with the members that the last process of this name knew. Their incarnations are
// not known: any process that tells one is later.
func (t *table) remember(now time.Duration, members []Member) error {
	if len(members) >= MaxMembers {
		return fmt.Errorf("%d members are remembered; there may be %d", len(members), MaxMembers-1)
	}
	names := map[string]bool{t.me.name: true}
	for _, m := range members {
		at, err := netip.ParseAddrPort(m.Address)
		switch {
		case err != nil:
			return fmt.Errorf("a remembered member: %w", err)
		case names[m.Name] || m.Name == "" || len(m.Name) > MaxName || t.entries[m.ID] != nil || m.ID == t.me.id:
			return fmt.Errorf("the remembered member %q is there twice, or can't be one", m.Name)
		}
		names[m.Name] = true
		t.entries[m.ID] = &entry{process: process{identity: identity{id: m.ID, name: m.Name}, address: at}, since: now, remembered: true}
		t.lasts[m.ID] = true
	}
	return nil
}

// replace makes place for a process of a name, of which another was only remembered.
func (t *table) replace(name string) {
	for id, e := range t.entries {
		if e.remembered && e.name == name {
			delete(t.entries, id)
		}
	}
}

// meet takes note that another node has told all members that it knows of. If it is the process that
// this node's last one knew, it has been a member ever since: whoever it has not spoken of has left,
// or was given up.
func (t *table) meet(id uint64) {
	if !t.lasts[id] {
		return
	}
	for id, e := range t.entries {
		if e.remembered {
			delete(t.entries, id)
			t.version++
		}
	}
}

// met hears that memberlist has joined the node at an address.
func (g *Gossip) met(at netip.AddrPort) {
	g.change(func(time.Duration) {
		for id, e := range g.table.entries {
			if e.alive && e.address == at {
				g.table.meet(id)
			}
		}
	})
}
