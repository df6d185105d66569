package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limit/weir/natsstore"
)

// muchNATSSkew is from when on a clock is told of: the servers' clocks say when counts that are over
// go, and those of processes decide.
const muchNATSSkew = time.Second

// examineNATS fails when no server answers.
func examineNATS(ctx context.Context, url string) (*examined, error) {
	s, err := natsstore.Dial(url, natsstore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	st, err := s.Status(ctx)
	if natsstore.Answers(err) {
		x := &examined{Server: "NATS, JetStream", Nodes: []examinedNode{}, Findings: []examinedFinding{}}
		x.unfit("", err)
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	x := &examined{
		Server: "NATS", Kind: "JetStream", TLS: st.TLS, Skew: new(st.Skew.Seconds()), Findings: []examinedFinding{},
		Nodes: []examinedNode{{Address: st.Server, Version: st.Version, Used: st.Bytes, Max: st.MaxBytes, Bucket: &examinedBucket{
			Name: st.Bucket, Memory: st.Memory, Replicas: st.Replicas, Leader: st.Leader, Behind: st.Behind, Keys: st.Keys,
		}}},
	}
	x.bucket(st)
	took, err := takeTimes(ctx, s)
	if err != nil {
		text, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), "natsstore: "), "; ")
		x.find(severityFault, "", "takes fail: "+text, remedy)
		return x, nil
	}
	x.Take = &examinedLatency{took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds()}
	if p99 := took[len(took)*99/100]; p99 > envoyCall {
		x.find(severityWarning, "", fmt.Sprintf("one take of 100 needs %v; by way of Envoy none is given more than %v", p99.Round(time.Microsecond), envoyCall), "go nearer to the servers, or give them faster disks")
	}
	return x, nil
}

// bucket finds what is unwise in a bucket.
func (x *examined) bucket(st *natsstore.Status) {
	switch {
	case st.Memory && st.Replicas == 1:
		x.find(severityWarning, "", "the bucket is in the memory of one server: its restart forgets all counts, and each key may pass its limit once more", "make it with replicas=3 or storage=file")
	case st.Replicas == 1:
		x.find(severityWarning, "", "the bucket has one replica: while its server is away the fallbacks decide", "make it with replicas=3")
	case st.Replicas == 2:
		x.find(severityWarning, "", "the bucket has two replicas, and writes need both", "make it with replicas=3")
	}
	for _, name := range st.Behind {
		x.find(severityWarning, name, "this replica is away, or has not all counts", "see that it runs, and that the others reach it")
	}
	if st.MaxBytes > 0 && st.Bytes > st.MaxBytes/100*80 {
		x.find(severityWarning, "", "the bucket is nearly full; new counts are then refused, and the fallbacks decide", "raise its max bytes")
	}
	if st.Skew.Abs() > muchNATSSkew {
		x.find(severityWarning, "", fmt.Sprintf("the leader's clock is %v apart from this machine's; each process decides by its own", st.Skew.Round(time.Millisecond)), "run NTP on all machines")
	}
}

// examinedBucket is a bucket of NATS.
type examinedBucket struct {
	Name     string   `json:"name"`
	Memory   bool     `json:"memory"`
	Replicas int      `json:"replicas"`
	Leader   string   `json:"leader,omitempty"`
	Behind   []string `json:"behind,omitempty"`
	Keys     int64    `json:"keys"`
}

func (n *examinedNode) printBucket(b *strings.Builder) {
	of, storage, led := n.Bucket, "file", ""
	if of.Memory {
		storage = "memory"
	}
	if of.Leader != "" {
		led = ", led by " + of.Leader
	}
	fmt.Fprintf(b, "  %s, bucket %s: %s, replicas: %d%s\n", n.Version, of.Name, storage, of.Replicas, led)
	fmt.Fprintf(b, "  keys   %d, %s of %s\n", of.Keys, megabytes(n.Used), bound(n.Max))
}
