package gossip

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// What memberlist sends begins with a mark, the length of a label and the label, which is made
// of the name of the cluster. So a node refuses what another cluster sends before memberlist
// sees it, and tells the one that opened a stream which cluster it has reached.
const (
	labelMark  = 244
	labelBegin = "weir"
	// maxCluster is how many bytes the name of a cluster may have.
	maxCluster = 64
)

// labelOf is the label of a cluster; that of clusters without a name has no slash.
func labelOf(cluster string) string {
	if cluster == "" {
		return labelBegin
	}
	return labelBegin + "/" + cluster
}

// CheckCluster refuses what can be no name of a cluster.
func CheckCluster(name string) error {
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return fmt.Errorf("the name of a cluster has %q; write letters, digits, dots, underscores and hyphens", r)
		}
	}
	if len(name) > maxCluster {
		return fmt.Errorf("the name of a cluster has %d bytes; write %d at most", len(name), maxCluster)
	}
	return nil
}

// packetLabel is the label of a packet that begins with the mark.
func packetLabel(b []byte) (label string, ok bool) {
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return "", false
	}
	return string(b[2 : 2+int(b[1])]), true
}

// readLabel reads the label of a stream whose mark is read. head is all that was, with the mark.
func readLabel(r io.Reader) (head []byte, label string, err error) {
	head = []byte{labelMark, 0}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return nil, "", err
	}
	text := make([]byte, head[1])
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, "", err
	}
	return append(head, text...), string(text), nil
}

// turnAway tells a node of another cluster which one this is, and closes its stream.
func (t *transport) turnAway(c net.Conn) {
	defer t.accepted.remove(c)
	_ = c.SetDeadline(time.Now().Add(firstBytes)) // fails when it is closed, and so does the write
	if _, err := c.Write(append([]byte{labelMark, byte(len(t.label))}, t.label...)); err != nil {
		return
	}
	// What comes is read: bytes that are left would make the system drop what was written.
	_, _ = io.CopyN(io.Discard, c, maxState)
}

// elsewhere is how the error begins of a stream to a node of another cluster.
const elsewhere = "a node is there that is in "

// reply is what comes back on a stream to another node. It begins with a label only where that node
// is in another cluster: memberlist's own answers have none.
type reply struct {
	from  io.Reader
	label string // of this node
	begun bool
}

func (r *reply) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if r.begun || n == 0 {
		return n, err
	}
	r.begun = true
	if b[0] != labelMark {
		return n, err
	}
	_, theirs, err := readLabel(io.MultiReader(bytes.NewReader(b[1:n]), r.from))
	if err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s%s, and this node is in %s", elsewhere, spoken(theirs), spoken(r.label))
}

// spoken is a label as texts have it.
func spoken(label string) string {
	if name, named := strings.CutPrefix(label, labelBegin+"/"); named {
		return fmt.Sprintf("cluster %q", name)
	}
	return "a cluster without a name"
}

// foreign counts what a node of another cluster has sent, and says so.
func (g *Gossip) foreign(from, label string) {
	g.in.drop(OtherCluster)
	host, _, err := net.SplitHostPort(from) // its port may be another each time
	if err != nil {
		host = from
	}
	g.complain("a node of another cluster was refused", host, "it is in "+spoken(label)+", and this node in "+spoken(g.port.label))
}
