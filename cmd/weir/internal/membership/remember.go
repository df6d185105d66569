package membership

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/internal/atomicfile"
	"github.com/weir-limit/weir/internal/sleep"
)

// A node keeps a list of the other members in a file. A process that starts begins as one of them:
// one that hears nobody would else begin with all of each limit.
const (
	// maxListFile is how many bytes of the file are read.
	maxListFile = 1 << 20
	// listVersion is of the file's format.
	listVersion = 1
	// rememberEvery is how often a node looks whether the others count its vote, and saves the list
	// again that could not be saved.
	rememberEvery = time.Second
	// sayUnmetEvery is how often the log says that a node has met no other.
	sayUnmetEvery = time.Minute
)

// list is the file.
type list struct {
	Version int    `json:"version"`
	Cluster string `json:"cluster"` // its name
	Key     string `json:"key"`     // a digest of the key that seals; empty: there was none
	// Met is whether the node has met others, or was told that it is the first.
	Met bool `json:"met"`
	// Counted is whether all members counted the vote of the node, until it left.
	Counted bool     `json:"counted"`
	Members []listed `json:"members"` // the others
}

type listed struct {
	Name    string `json:"name"`
	ID      uint64 `json:"id"` // of its process
	Address string `json:"address"`
}

// ListError says why the list of members can't be used, and what to do.
type ListError struct{ Text string }

func (e *ListError) Error() string { return e.Text }

const (
	unmet       = "this node has met no other node of its cluster, and decides by itself; if it is the first of a new one, tell it once with --bootstrap"
	beginsWhole = "if it is restarted while it is cut off, it begins with all of each limit"
)

const anew = "if this node is to be the first of a new cluster, start it once with --bootstrap; the file is "

// readList reads the list of the last process of this name. There may be none.
func readList(o *Options) (l list, err error) {
	if _, err := os.Stat(o.List); err != nil {
		return list{}, nil //nolint:nilerr // there is none; where none can be made, save tells of it
	}
	text, err := readFile(o.List)
	if err == nil {
		err = l.parse(text, o.Address)
	}
	if err != nil {
		return list{}, &ListError{fmt.Sprintf("the list of the members that this node knew can't be read: %v; remove it if other nodes can be reached; %s%s", err, anew, o.List)}
	}
	switch {
	case l.Cluster != o.Cluster:
		return list{}, &ListError{fmt.Sprintf("this node was in cluster %q, and is now given the name %q; give it the former name; %s%s", l.Cluster, o.Cluster, anew, o.List)}
	case !slices.Contains(keyDigests(o.Keys), l.Key):
		return list{}, &ListError{"the key file has not the key that this node and its members had; give it that key, too; " + anew + o.List}
	}
	return l, nil
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxListFile+1))
}

// parse reads a list, and refuses what no node of a name has written.
func (l *list) parse(text []byte, self string) error {
	if len(text) > maxListFile {
		return fmt.Errorf("it has more than %d bytes", maxListFile)
	}
	if err := json.Unmarshal(text, l); err != nil {
		return err
	}
	if l.Version != listVersion {
		return fmt.Errorf("it has version %d, not %d", l.Version, listVersion)
	}
	return gossip.CheckRemembered(self, l.others())
}

// others are the members of the list.
func (l *list) others() (all []gossip.Member) {
	for _, one := range l.Members {
		all = append(all, gossip.Member{Name: one.Name, ID: one.ID, Address: one.Address})
	}
	return all
}

// keyDigests tell keys apart, the one that seals first.
func keyDigests(keys [][]byte) (all []string) {
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write([]byte("weir: the list of the members of a cluster"))
		all = append(all, hex.EncodeToString(h.Sum(nil)))
	}
	if len(all) == 0 {
		all = []string{""}
	}
	return all
}

// memory is what a node keeps of its members. Node.mu is held for all of it.
type memory struct {
	file    string // empty: nowhere
	key     string
	cluster string
	now     list // as it is to be
	saved   []byte
	failed  error // why it is not saved
	said    time.Time
}

// begin is the members that the process remembers.
func (m *memory) begin(o *Options) (members []gossip.Member, err error) {
	m.file, m.key, m.cluster = o.List, keyDigests(o.Keys)[0], o.Cluster
	if m.file == "" {
		m.failed = o.NoList
		return nil, nil
	}
	atomicfile.RemoveAbandoned(m.file)
	if !o.Bootstrap {
		if m.now, err = readList(o); err != nil {
			return nil, err
		}
	}
	m.now.Met = m.now.Met || o.Bootstrap
	m.save()
	return m.now.others(), nil
}

// save writes the list if it has changed.
func (m *memory) save() {
	if m.file == "" {
		return
	}
	m.now.Version, m.now.Cluster, m.now.Key = listVersion, m.cluster, m.key
	text, err := json.Marshal(&m.now)
	if err == nil && string(text) == string(m.saved) {
		return
	}
	if err == nil {
		err = atomicfile.Put(m.file, text)
	}
	if m.failed = err; err == nil {
		m.saved = text
	}
}

// know takes note of the members.
func (m *memory) know(members []gossip.Member, self string) {
	m.now.Members = nil
	for _, one := range members {
		if one.Name != self {
			m.now.Members = append(m.now.Members, listed{one.Name, one.ID, one.Address})
		}
	}
	m.now.Met = m.now.Met || len(m.now.Members) > 0
	m.save()
}

// KeepRemembering keeps the list of members, until ctx ends.
func (n *Node) KeepRemembering(ctx context.Context) {
	sleep.Every(ctx, rememberEvery, n.remember)
}

func (n *Node) remember(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &n.memory
	m.now.Counted = m.now.Counted || !n.leaving && n.Store.Counted()
	failed := m.failed
	if m.save(); m.failed != nil && failed == nil {
		n.sayForgetful()
	}
	if n.gossip.Load() != nil && !m.now.Met && now.Sub(m.said) >= sayUnmetEvery {
		m.said = now
		n.log.Warn(unmet)
	}
}

// sayForgetful tells the log why the list of members is not kept. n.mu is held.
func (n *Node) sayForgetful() {
	n.log.Error("the list of members can't be saved; "+beginsWhole, "error", n.memory.failed)
}

// forgetful is what /readyz says of a node that has met nobody, or can't remember whom.
func (n *Node) forgetful() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.memory.now.Met {
		lines = append(lines, unmet)
	}
	if n.memory.failed != nil {
		lines = append(lines, "this node can't remember its members: "+n.memory.failed.Error()+"; "+beginsWhole)
	}
	return lines
}
