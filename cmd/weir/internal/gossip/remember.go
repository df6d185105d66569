package gossip

import (
	"fmt"
	"net/netip"
	"time"
)

// CheckRemembered says why the last process of a name can't have known these other members.
func CheckRemembered(name string, members []Member) error {
	if len(members) >= MaxMembers {
		return fmt.Errorf("it has %d members; there may be %d", len(members), MaxMembers-1)
	}
	names, ids := map[string]bool{name: true}, map[uint64]bool{}
	for _, m := range members {
		if _, err := netip.ParseAddrPort(m.Address); err != nil || m.Name == "" || len(m.Name) > MaxName || names[m.Name] || ids[m.ID] {
			return fmt.Errorf("the member %q can't be one, or is there twice", m.Name)
		}
		names[m.Name], ids[m.ID] = true, true
	}
	return nil
}

// remember begins with the members that the last process of this name knew. Their incarnations are
// not known: any process that tells one is later.
func (t *table) remember(now time.Duration, members []Member) error {
	if err := CheckRemembered(t.me.name, members); err != nil {
		return fmt.Errorf("the list of remembered members: %w", err)
	}
	for _, m := range members {
		at, err := netip.ParseAddrPort(m.Address)
		if err != nil || m.ID == t.me.id {
			return fmt.Errorf("the remembered member %q can't be one", m.Name)
		}
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
