package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/pgstore"
)

// The numbers that weir doctor judges PostgreSQL by.
const (
	manyDead     = 10 // times as many rows that vacuum has to clear away as rows
	fewDead      = 100_000
	usedUp       = 90 // percent of the connections
	postgresSkew = time.Second
	pingCount    = 200
)

// examinedPostgres is what is told of PostgreSQL alone.
type examinedPostgres struct {
	Table          string `json:"table"`
	Unlogged       bool   `json:"unlogged"`
	Rows           int64  `json:"rows"`
	Dead           int64  `json:"dead_rows"`
	Commit         string `json:"synchronous_commit"`
	Fsync          bool   `json:"fsync"`
	Autovacuum     bool   `json:"autovacuum"`
	Connections    int    `json:"connections"`
	MaxConnections int    `json:"max_connections"`
	// SkewBound is how far the clock that decides may be from the server's, with clock=server.
	SkewBound float64 `json:"skew_bound_seconds,omitempty"`
}

func (p *examinedPostgres) print(b *strings.Builder, n *examinedNode) {
	logged := "logged"
	if p.Unlogged {
		logged = "unlogged"
	}
	fmt.Fprintf(b, "  %s, %s, %d replicas, %d of %d connections used\n", n.Version, n.Role, n.Replicas, p.Connections, p.MaxConnections)
	fmt.Fprintf(b, "  table  %s, %s, %s, about %d rows and %d dead\n", p.Table, logged, megabytes(n.Used), p.Rows, p.Dead)
	fmt.Fprintf(b, "  disk   synchronous_commit %s, fsync %s\n", p.Commit, onOff(p.Fsync))
	if p.SkewBound > 0 {
		fmt.Fprintf(b, "  skew   %v at most from the server's clock, which decides\n", seconds(p.SkewBound).Round(time.Microsecond))
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// examinePostgres fails when no server answers. It makes the table where there is none, as a daemon does.
func examinePostgres(ctx context.Context, url string) (*examined, error) {
	s, err := pgstore.Dial(url, pgstore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	x := &examined{Server: "PostgreSQL", Kind: "primary", Nodes: []examinedNode{}, Findings: []examinedFinding{}}
	st := s.Status(ctx)
	if st.Err != nil {
		if !pgstore.Answers(st.Err) {
			return nil, st.Err
		}
		x.unfit(st.Addr, st.Err)
		return x, nil
	}
	if x.Ping, err = pingTimes(ctx, s); err != nil {
		return nil, err
	}
	x.TLS, x.Skew = st.TLS, new(st.Skew.Seconds())
	x.takes(ctx, s, false)
	x.Nodes = append(x.Nodes, examinedNode{
		Address: st.Addr, Version: st.Version, Role: "primary", Used: st.Bytes, Replicas: st.Replicas, Postgres: &examinedPostgres{
			st.Table, st.Unlogged, st.Rows, st.Dead, st.Commit, st.Fsync, st.Autovacuum, st.Connections, st.MaxConnections, s.Stats().SkewBound.Seconds(),
		},
	})
	x.postgres(&st)
	return x, nil
}

// postgres finds what is unwise.
func (x *examined) postgres(st *pgstore.Status) {
	warn := func(is bool, text, remedy string) {
		if is {
			x.find(severityWarning, st.Addr, text, remedy)
		}
	}
	warn(!st.Fsync, "fsync is off: a crash of the machine may damage all databases of the server", "set fsync on; for speed write synchronous_commit=off into the URL")
	warn(!st.Autovacuum, "autovacuum is off: the table grows without end", "set autovacuum on")
	warn(st.Dead > max(fewDead, manyDead*st.Rows), fmt.Sprintf("the table has %d dead rows", st.Dead), "look for a transaction that was left open, in pg_stat_activity, or let autovacuum_naptime be shorter")
	warn(st.Connections*100 > usedUp*st.MaxConnections, fmt.Sprintf("%d of %d connections are used", st.Connections, st.MaxConnections), "raise max_connections, or put PgBouncer before it")
	warn(st.Unlogged, "the table is unlogged: a crash or a failover empties it, and each key may pass its limit once more", "leave unlogged=1 out, unless that is fine")
	warn(st.Skew.Abs() > postgresSkew, fmt.Sprintf("its clock is %v apart from this machine's", st.Skew.Round(time.Millisecond)), "run NTP on all machines")
}

// pingTimes is how long small statements took, one after the other.
func pingTimes(ctx context.Context, s *pgstore.Store) (*examinedLatency, error) {
	took := make([]time.Duration, pingCount)
	for i := range took {
		begin := time.Now()
		if err := s.Ping(ctx, 0); err != nil {
			return nil, err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return &examinedLatency{took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds()}, nil
}
