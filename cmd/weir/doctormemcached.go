package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memcachestore"
)

// The numbers that weir doctor judges memcached and PostgreSQL by.
const (
	doctorTakes = 200
	muchSkew    = 2 * time.Second // its clock tells whole seconds
	envoyCall   = 15 * time.Millisecond
	fullPart    = 95 // percent; memcached is to be nearly full
)

// examineMemcached fails when no server answers.
func examineMemcached(ctx context.Context, url string) (*examined, error) {
	s, err := memcachestore.Dial(url, memcachestore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	x := &examined{Server: "memcached", Nodes: []examinedNode{}, Findings: []examinedFinding{}}
	var away []error
	all := s.Status(ctx)
	for i := range all {
		if all[i].Err != nil {
			away = append(away, all[i].Err)
		}
		x.memcached(&all[i])
	}
	if len(away) == len(all) {
		return nil, errors.Join(away...)
	}
	x.takes(ctx, s, len(away) > 0)
	return x, nil
}

// takes measures takes. known is that some fail for what was found before.
func (x *examined) takes(ctx context.Context, s weir.Store, known bool) {
	took, err := takeTimes(ctx, s)
	switch {
	case err != nil && known:
	case err != nil:
		_, text, _ := strings.Cut(err.Error(), ": ") // whose it is, is said
		text, remedy, _ := strings.Cut(text, "; ")
		x.find(severityFault, "", "takes fail: "+text, remedy)
	default:
		x.Take = &examinedLatency{took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds()}
		if p99 := took[len(took)*99/100]; p99 > envoyCall {
			x.find(severityWarning, "", fmt.Sprintf("one take of 100 needs %v; by way of Envoy none is given more than %v", p99.Round(time.Microsecond), envoyCall), "go nearer to the servers")
		}
	}
}

func (x *examined) find(severity, node, text, remedy string) {
	x.Findings = append(x.Findings, examinedFinding{severity, node, text, remedy})
}

// unfit finds why a store that answers decides nothing, and what to do, from its error.
func (x *examined) unfit(node string, err error) {
	_, text, _ := strings.Cut(err.Error(), "nothing was decided: ")
	text, remedy, _ := strings.Cut(strings.TrimPrefix(text, "it was not sent: "), "; ")
	x.find(severityFault, node, text, remedy)
}

func (x *examined) memcached(s *memcachestore.Status) {
	if s.Err != nil {
		text, remedy, _ := strings.Cut(strings.TrimPrefix(s.Err.Error(), "memcachestore: "), "; ")
		x.find(severityFault, s.Addr, text, remedy)
		return
	}
	x.Nodes = append(x.Nodes, examinedNode{Address: s.Addr, Version: s.Version, Used: s.Bytes, Max: s.MaxBytes, Evictions: new(s.Evictions)})
	if s.Evictions > 0 {
		x.find(severityWarning, s.Addr, fmt.Sprintf("%d items were dropped before their time; of Weir's, each may pass its limit again", s.Evictions), "raise memcached's -m, or give Weir one of its own")
	}
	if s.Bytes > s.MaxBytes/100*fullPart {
		x.find(severityWarning, s.Addr, "it is full", "raise memcached's -m")
	}
	if s.Skew.Abs() > muchSkew {
		x.find(severityWarning, s.Addr, fmt.Sprintf("its clock is %v apart from this machine's; each process decides by its own", s.Skew), "run NTP on all machines")
	}
}

// takeTimes is how long takes took, one after the other, sorted.
func takeTimes(ctx context.Context, s weir.Store) ([]time.Duration, error) {
	limit, err := weir.ParseLimit("1000000/s")
	if err != nil {
		return nil, err
	}
	of := strconv.FormatUint(rand.Uint64(), 36)
	took := make([]time.Duration, doctorTakes)
	for i := range took {
		key := weir.StateKey{Rule: "weir-doctor#1", Key: of + strconv.Itoa(i%20)}
		start := time.Now()
		if err := s.Take(ctx, []weir.Ask{{State: key, Limit: limit, Cost: 1}}, make([]weir.Decision, 1)); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}
