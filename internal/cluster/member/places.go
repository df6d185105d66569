package member

import (
	"slices"
	"sync"
)

// maxPlaces is how many places views keep that many keys have. Keys of further ones have their own.
const maxPlaces = 256

// places are those that keys have by the views of one version, so that keys that have the same share it.
type places struct {
	mu  sync.Mutex // nodes of one process share a view
	all []*Place
}

// Shared is a place like p that other keys have, too. It is not to be changed.
func (v *View) Shared(p *Place) *Place {
	if v.places == nil {
		return p
	}
	v.places.mu.Lock()
	defer v.places.mu.Unlock()
	for _, of := range v.places.all {
		if of.same(p) {
			return of
		}
	}
	if len(v.places.all) < maxPlaces {
		v.places.all = append(v.places.all, p)
	}
	return p
}

func (p *Place) same(o *Place) bool {
	return p.Version == o.Version && p.Owner == o.Owner && p.First == o.First && p.Owns == o.Owns && p.Most == o.Most && p.Count == o.Count &&
		p.Backup == o.Backup && p.Keeper == o.Keeper && slices.Equal(p.Voters, o.Voters) && slices.Equal(p.idle, o.idle)
}
