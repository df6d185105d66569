package gossip

import (
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// Rotate replaces the cluster keys: the first seals from now on, each opens. Nothing is
// lost when all nodes get a new key as the last, then as the first, then
// without the old one.
func (g *Gossip) Rotate(keys [][]byte) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(keys) == 0 || g.keyring == nil {
		return fmt.Errorf("%w: a node begins with them, or does without until it is restarted", ErrKeys)
	}
	for _, p := range g.peers {
		s, err := newSeals(keys, g.me, p.identity)
		if err != nil {
			return err
		}
		p.seals.Store(s)
	}
	g.keys = keys
	return rotate(g.keyring, keys)
}

// rotate changes the keys of memberlist. A key is taken out at the end of the ring only:
// elsewhere it would be moved under those who read it.
func rotate(ring *memberlist.Keyring, keys [][]byte) error {
	var errs []error
	for _, k := range keys {
		errs = append(errs, ring.AddKey(k))
	}
	for i := range keys { // brings the others to the end
		if len(ring.GetKeys()) > len(keys) || i == len(keys)-1 {
			errs = append(errs, ring.UseKey(keys[len(keys)-1-i]))
		}
	}
	for old := ring.GetKeys(); len(old) > len(keys); old = ring.GetKeys() {
		errs = append(errs, ring.RemoveKey(old[len(old)-1]))
	}
	return errors.Join(errs...)
}
