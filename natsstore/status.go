package natsstore

import (
	"context"
	"time"
)

// Status is what the servers say of the bucket.
type Status struct {
	Server   string // that this process is connected to
	Version  string
	TLS      bool
	Latency  time.Duration // of the call
	Skew     time.Duration // the leader's clock less ours in the middle of the call
	Bucket   string
	Memory   bool // it is in memory
	Replicas int  // it is to have
	Leader   string
	Behind   []string // replicas that are away, or have not all
	Keys     int64
	Bytes    int64 // in use
	MaxBytes int64 // it may use; 0: no maximum
}

// Status asks the servers for the bucket.
func (s *Store) Status(ctx context.Context) (*Status, error) {
	l := s.link
	if _, err := l.open(ctx); err != nil {
		return nil, l.explain(err)
	}
	client := l.connection()
	var is stream
	begin := time.Now()
	if err := l.info(ctx, &is); err != nil {
		return nil, l.explain(err)
	}
	st := &Status{
		Server: client.ConnectedAddr(), Version: client.ConnectedServerVersion(),
		Latency: time.Since(begin), Bucket: l.bucket,
		Memory: is.Config.Storage == storageMemory, Replicas: is.Config.Replicas,
		Leader: is.Cluster.Leader, Keys: is.State.Messages, Bytes: is.State.Bytes, MaxBytes: max(is.Config.MaxBytes, 0),
	}
	if _, err := client.TLSConnectionState(); err == nil {
		st.TLS = true
	}
	if !is.Time.IsZero() {
		st.Skew = is.Time.Sub(begin.Add(st.Latency / 2))
	}
	for _, r := range is.Cluster.Replicas {
		if r.Offline || !r.Current {
			st.Behind = append(st.Behind, r.Name)
		}
	}
	return st, nil
}

// Ping asks whether counts can be written: a full bucket, and one whose quorum is lost, may still
// answer looks.
func (s *Store) Ping(ctx context.Context, _ int) error {
	_, err := s.link.open(ctx)
	if err == nil {
		err = s.link.probe(ctx)
	}
	return s.link.explain(err)
}
