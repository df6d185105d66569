package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/internal/storeurl"
)

// The bounds of what is told to statsd.
const (
	// statsdEvery is how often statistics are told, unless the URL says otherwise.
	statsdEvery = 10 * time.Second
	// minStatsdEvery is the least that it may say.
	minStatsdEvery = 100 * time.Millisecond
	// statsdTime is how long a server may take to be connected, and to take a packet.
	statsdTime = time.Second
	// statsdPacket is how many bytes are told at a time: what a packet of UDP carries in one piece.
	statsdPacket = 1432
)

// statsdForm is how the URL of a server is written.
const statsdForm = "write tcp://HOST:PORT or udp://HOST:PORT, and behind it ?every=10s or tags=dogstatsd"

// Statsd tells a statsd server what statistics have grown by. The next packets tell what the server did not take: no queue
// grows while it is away.
type Statsd struct {
	network, address string
	every            time.Duration
	dogs             bool // tags stand behind the number, as Datadog has it
	statistics       *Statistics
	log              *slog.Logger

	mu     sync.Mutex        // held to tell
	told   map[string]uint64 // what the server knows, by name; guarded by mu
	conn   net.Conn          // nil: there is none; guarded by mu
	silent bool              // the log has said that the server is away; guarded by mu
	failed atomic.Uint64
}

// ParseStatsd reads the URL of a statsd server: tcp://HOST:PORT or udp://HOST:PORT, with the options every=DURATION and
// tags=dogstatsd behind a question mark.
func ParseStatsd(text string) (*Statsd, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "udp" || u.User != nil || u.Path != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no statsd server; %s", text, statsdForm)
	}
	if _, _, err := storeurl.HostPort(u.Host); err != nil {
		return nil, fmt.Errorf("%q is no statsd server: %w; %s", text, err, statsdForm)
	}
	values, err := storeurl.Options(u.RawQuery, "every", "tags")
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, statsdForm)
	}
	s := &Statsd{network: u.Scheme, address: u.Host, every: statsdEvery, told: map[string]uint64{}}
	if given := values["every"]; given != "" {
		if s.every, err = time.ParseDuration(given); err != nil || s.every < minStatsdEvery {
			return nil, fmt.Errorf("every=%s is no time from %v on; %s", given, minStatsdEvery, statsdForm)
		}
	}
	if s.dogs = values["tags"] == "dogstatsd"; !s.dogs && values["tags"] != "" {
		return nil, fmt.Errorf("tags=%s means nothing; %s", values["tags"], statsdForm)
	}
	return s, nil
}

// Open has the server told of statistics from now on, and the log of outages.
func (s *Statsd) Open(of *Statistics, log *slog.Logger) { s.statistics, s.log = of, log }

// Keep tells them until ctx ends.
func (s *Statsd) Keep(ctx context.Context) {
	sleep.Every(ctx, s.every, func(time.Time) { _ = s.Tell(ctx) }) // the log has it, and the next time tells what this did not
}

// Close tells them for the last time.
func (s *Statsd) Close(ctx context.Context) error {
	err := s.Tell(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close() // all was written
	}
	return err
}

// Tell tells what the statistics have grown by since the last time.
func (s *Statsd) Tell(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]uint64{}
	s.statistics.Each(func(name string, n uint64) { now[name] = n })
	for name := range s.told {
		if _, still := now[name]; !still { // its rule is gone, and would begin again at 0
			delete(s.told, name)
		}
	}
	var packet []byte
	in := map[string]uint64{}
	send := func() error {
		if len(packet) == 0 {
			return nil
		}
		if err := s.write(ctx, packet); err != nil {
			return err
		}
		for name, n := range in {
			s.told[name] = n
		}
		packet = packet[:0]
		clear(in)
		return nil
	}
	before, after := s.tags()
	for name, n := range now {
		grown := n - s.told[name]
		if n < s.told[name] {
			grown = n
		}
		if grown == 0 {
			continue
		}
		line := fmt.Sprintf("%s%s:%d|c%s\n", name, before, grown, after)
		if len(packet)+len(line) > statsdPacket {
			if err := send(); err != nil {
				return s.away(err)
			}
		}
		packet = append(packet, line...)
		in[name] = n
	}
	return s.away(send())
}

// tags are the labels of all statistics, as gostats puts them into names, or Datadog behind the number.
func (s *Statsd) tags() (before, after string) {
	var dogs []string
	for _, l := range s.statistics.labels {
		if s.dogs {
			dogs = append(dogs, sanitized(l.GetName())+":"+sanitized(l.GetValue()))
		} else {
			before += ".__" + sanitized(l.GetName()) + "=" + strings.ReplaceAll(sanitized(l.GetValue()), ".", "_")
		}
	}
	if len(dogs) > 0 {
		after = "|#" + strings.Join(slices.Sorted(slices.Values(dogs)), ",")
	}
	return before, after
}

// write writes a packet, on a new connection if there is none.
func (s *Statsd) write(ctx context.Context, packet []byte) error {
	if s.conn == nil {
		dialer := net.Dialer{Timeout: statsdTime}
		conn, err := dialer.DialContext(ctx, s.network, s.address)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	err := s.conn.SetWriteDeadline(time.Now().Add(statsdTime))
	if err == nil {
		_, err = s.conn.Write(packet)
	}
	if err != nil {
		err = errors.Join(err, s.conn.Close())
		s.conn = nil
	}
	return err
}

// away counts that the server did not take what it was told, and says it once.
func (s *Statsd) away(err error) error {
	if err != nil {
		s.failed.Add(1)
	}
	if away := err != nil; away != s.silent {
		s.silent = away
		if away {
			s.log.Warn("the statsd server takes nothing; it is told again, with all that was counted meanwhile", "server", s.network+"://"+s.address, "error", err)
		} else {
			s.log.Info("the statsd server takes statistics again", "server", s.network+"://"+s.address)
		}
	}
	return err
}

// Collector counts how often the server took nothing.
func (s *Statsd) Collector() prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		return []prometheus.Metric{Counter("weir_statsd_failures_total",
			"Times that the statsd server did not take statistics; it is told again.", s.failed.Load())}
	})
}
