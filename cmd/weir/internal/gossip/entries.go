package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
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
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
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
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > maxEntries || n > uint64(len(b)) {
		return nil, errEntries
	}
	b = b[1+size:]
	entries := make([]entry, 0, n)
	for range n {
		e, rest, err := parseEntry(b)
		if err != nil {
			return nil, err
		}
		entries, b = append(entries, e), rest
	}
	if len(b) > 0 {
		return nil, errEntries
	}
	return entries, nil
}

func parseEntry(b []byte) (e entry, rest []byte, err error) {
	if len(b) < 2 || b[0] > byte(gone) || b[1] > 1 {
		return e, nil, errEntries
	}
	e.standing, e.lost = standing(b[0]), b[1] == 1
	age, size := binary.Uvarint(b[2:])
	if size <= 0 || age > uint64(24*time.Hour/time.Millisecond) {
		return e, nil, errEntries
	}
	e.since = -time.Duration(age) * time.Millisecond
	b = b[2+size:]
	var texts [3][]byte
	for i := range texts {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return e, nil, errEntries
		}
		texts[i], b = b[size:size+int(n)], b[size+int(n):]
	}
	address, err := netip.ParseAddrPort(string(texts[1]))
	if err != nil {
		return e, nil, errEntries
	}
	n := memberlist.Node{Addr: address.Addr().AsSlice(), Port: address.Port(), Meta: texts[2]}
	if len(texts[2]) >= 18 {
		n.Name = fmt.Sprintf("%s#%x", texts[0], texts[2][2:10])
	}
	e.process, err = parseNode(&n)
	return e, b, err
}
