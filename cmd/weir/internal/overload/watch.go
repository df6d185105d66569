package overload

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probeEvery is how often the wait is measured.
	probeEvery = 5 * time.Millisecond
	// restEvery is how often, once nothing was in flight for calm measurements, so that a daemon which nobody asks
	// costs next to nothing. Too much is noticed so much later then.
	restEvery = 50 * time.Millisecond
	calm      = 20
	// fewest is how many measurements say something: a process that was held up
	// for once, as by a quota of processor time, has one that does not.
	fewest = 5
)

// Watcher measures how long work waits, and sets gates by it.
type Watcher struct {
	gates       []*Gate
	controllers []controller
	wait        atomic.Int64 // the last one
	rests       atomic.Bool  // nothing is in flight
}

// NewWatcher watches for gates. A gate that has a standing limit has it at once.
func NewWatcher(gates ...*Gate) *Watcher {
	w := &Watcher{gates: gates, controllers: make([]controller, len(gates))}
	for i, g := range gates {
		c := &w.controllers[i]
		c.first, c.standing = float64(perProcessor*runtime.GOMAXPROCS(0)), g.Standing
		if g.Standing {
			c.limit = c.first
			g.SetLimit(int(c.first))
		}
	}
	return w
}

// Wait is how long work waited when it was last measured.
func (w *Watcher) Wait() time.Duration { return time.Duration(w.wait.Load()) }

// Run measures until ctx ends, and returns nil then. A byte through a pipe waits
// as requests do: until the process looks for what has come, and then until it
// is its turn.
func (w *Watcher) Run(ctx context.Context) error {
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch for overload: %w", err)
	}
	var g sync.WaitGroup
	start := time.Now()
	g.Go(func() {
		defer out.Close()
		w.send(ctx, out, start)
	})
	w.receive(in, start)
	g.Wait()
	return in.Close()
}

// send writes the time, until the reader is gone.
func (w *Watcher) send(ctx context.Context, out *os.File, start time.Time) {
	again := time.NewTimer(probeEvery)
	defer again.Stop()
	var stamp [8]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		every := probeEvery
		if w.rests.Load() {
			every = restEvery
		}
		again.Reset(every)
		binary.LittleEndian.PutUint64(stamp[:], uint64(time.Since(start)))
		if _, err := out.Write(stamp[:]); err != nil {
			return
		}
	}
}

// receive reads until the writer is gone.
func (w *Watcher) receive(in *os.File, start time.Time) {
	var stamp [8]byte
	var waits []time.Duration // in this interval
	began, quiet := time.Duration(0), 0
	for {
		if _, err := io.ReadFull(in, stamp[:]); err != nil {
			return
		}
		now := time.Since(start)
		wait := now - time.Duration(binary.LittleEndian.Uint64(stamp[:]))
		w.wait.Store(int64(wait))
		for _, g := range w.gates {
			g.SetLate(wait > target)
			// It opens later than it shuts, so that it does not flutter.
			g.SetShut(g.Limit() == least && (wait > lost || wait > most && g.Shut()))
		}
		if quiet++; wait > target || slices.ContainsFunc(w.gates, (*Gate).busy) {
			quiet = 0
		}
		w.rests.Store(quiet >= calm)
		waits = append(waits, wait)
		if now-began < interval || len(waits) < fewest {
			continue
		}
		slices.Sort(waits)
		for i, g := range w.gates {
			g.SetLimit(w.controllers[i].tick(waits[len(waits)/2], g.taken(), g.deciding.Load()))
		}
		began, waits = now, waits[:0]
	}
}
