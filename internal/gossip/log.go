package gossip

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// grumbleEvery is how often a warning of memberlist is logged as one. Whoever
// reaches the port can make it warn.
const grumbleEvery = 10 * time.Second

// grumbles is where memberlist logs to: lines such as "[WARN] memberlist: text".
type grumbles struct {
	log *slog.Logger

	mu      sync.Mutex
	told    time.Time
	leftOut int
}

func (w *grumbles) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	// Others look for the process that was here before: so it is after each restart.
	unexpected := []byte("Got ping for unexpected node")
	level, text, ok := bytes.Cut(text, []byte("] memberlist: "))
	if !ok {
		text = level
	}
	if bytes.HasPrefix(text, unexpected) {
		level = nil
	}
	if !ok || bytes.HasSuffix(level, []byte("[WARN")) || bytes.HasSuffix(level, []byte("[ERR")) {
		w.warn(string(text))
	} else {
		w.log.Debug("memberlist", "text", string(text))
	}
	return len(line), nil
}

func (w *grumbles) warn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.told) < grumbleEvery {
		w.leftOut++
		w.log.Debug("memberlist warns", "text", text)
		return
	}
	w.log.Warn("memberlist warns", "text", text, "left_out", w.leftOut)
	w.told, w.leftOut = now, 0
}
