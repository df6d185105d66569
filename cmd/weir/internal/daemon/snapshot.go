package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/internal/storeurl"
	"github.com/weir-limit/weir/memstore"
)

// SnapshotEvery is how often the counts of memory:?snapshot=FILE are saved: a
// daemon that is killed loses what was counted since, and no more.
const SnapshotEvery = 10 * time.Second

// snapshotFile is the file of a URL of the scheme memory, or empty.
func snapshotFile(rawURL string) (string, error) {
	_, query, ok := strings.Cut(rawURL, ":")
	if !ok || query == "" {
		return "", nil
	}
	options, ok := strings.CutPrefix(query, "?")
	values, err := storeurl.Options(options, "snapshot")
	if !ok || err != nil || values["snapshot"] == "" {
		return "", &ConfigError{"--store", "this is no store; write memory:, or memory:?snapshot=FILE to keep its counts over a restart"}
	}
	return values["snapshot"], nil
}

// snapshots keep the counts of a memory store in its file.
type snapshots struct {
	store  *memstore.Store
	unread error // why the file that was there was not used; nil when it was
	failed bool  // the last time

	saved, missed atomic.Int64
	last          atomic.Int64 // Unix milliseconds
	took          atomic.Int64 // a time.Duration
}

// openSnapshots opens a memory store whose counts are kept in file. A file that
// can't be used does not keep a daemon from starting; a folder that is not there
// does.
func openSnapshots(file string) (*snapshots, error) {
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, &ConfigError{"--store", "snapshot: " + err.Error() + "; make the folder, or write the path of another file"}
	}
	store, err := memstore.Open(file, memstore.Options{})
	if _, ok := errors.AsType[*memstore.SnapshotError](err); err != nil && !ok {
		return nil, &ConfigError{"--store", "snapshot: " + err.Error()}
	}
	return &snapshots{store: store, unread: err}, nil
}

func (s *snapshots) metrics() []prometheus.Metric {
	return append([]prometheus.Metric{
		telemetry.Gauge("weir_memory_snapshot_timestamp_seconds",
			"When the counts were last saved in the snapshot file.", float64(s.last.Load())/1000),
		telemetry.Gauge("weir_memory_snapshot_duration_seconds",
			"How long the last save of the counts took.", time.Duration(s.took.Load()).Seconds()),
	}, telemetry.By(telemetry.Counter, "weir_memory_snapshots_total",
		"Attempts to save the counts in the snapshot file, by whether they were saved.",
		"saved", map[string]int64{"true": s.saved.Load(), "false": s.missed.Load()})...)
}

// saveSnapshot saves the counts. A failure is logged once, and so is its end.
func (d *Daemon) saveSnapshot() {
	s, start := d.storage.snapshots, time.Now()
	err := s.store.Save()
	s.took.Store(int64(time.Since(start)))
	switch {
	case err != nil:
		s.missed.Add(1)
		if !s.failed {
			d.config.Log.Error("the counts can't be saved; a restart would lose the counts since then", "error", err)
		}
	default:
		s.saved.Add(1)
		s.last.Store(time.Now().UnixMilli())
		if s.failed {
			d.config.Log.Info("the counts are saved again")
		}
	}
	s.failed = err != nil
}
