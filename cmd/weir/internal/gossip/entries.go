package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weir-limit/weir/internal/packing"
)

// maxEntries is how many entries a message has at most.
const maxEntries = MaxMembers + maxGone

var errEntries = errors.New("no entries of this version")

// formatEntries writes entries as they are told to others. Times go as ages.
func formatEntries(now time.Duration, entries []entry) []byte {
	b := binary.AppendUvarint([]byte{version}, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = append(b, byte(e.standing), flag(e.lost))
		b = binary.AppendUvarint(b, uint64(max(now-e.since, 0)/time.Millisecond))
		for _, text := range [][]byte{[]byte(e.name), []byte(e.address.String()), e.appendMeta(nil)} {
			b = packing.AppendText(b, text)
		}
	}
	return b
}

// parseEntries reads what formatEntries has written. The time of an entry is its
// age, below zero.
func parseEntries(b []byte) ([]entry, error) {
	if len(b) == 0 || b[0] != version {
		return nil, errEntries
	}
	r := packing.Reader{Rest: b[1:]}
	n := r.Below(maxEntries + 1)
	entries := make([]entry, 0, min(n, uint64(len(r.Rest))))
	for range n {
		e, err := readEntry(&r)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if r.Bad || len(r.Rest) > 0 {
		return nil, errEntries
	}
	return entries, nil
}

func readEntry(r *packing.Reader) (e entry, err error) {
	begin, age := r.Take(2), r.Below(uint64(24*time.Hour/time.Millisecond)+1)
	texts := [3][]byte{r.Bytes(), r.Bytes(), r.Bytes()}
	if r.Bad || begin[0] > byte(gone) || begin[1] > 1 {
		return e, errEntries
	}
	e.standing, e.lost = standing(begin[0]), begin[1] == 1
	e.since = -time.Duration(age) * time.Millisecond
	address, err := netip.ParseAddrPort(string(texts[1]))
	if err != nil {
		return e, errEntries
	}
	n := memberlist.Node{Addr: address.Addr().AsSlice(), Port: address.Port(), Meta: texts[2]}
	if len(texts[2]) >= 18 {
		n.Name = fmt.Sprintf("%s#%x", texts[0], texts[2][2:10])
	}
	e.process, err = parseNode(&n)
	return e, err
}
