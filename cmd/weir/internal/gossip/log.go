package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"
)

// grumbleEvery is how often a warning of memberlist is logged as one. Any client that reaches the
// port can make it warn.
const grumbleEvery = 10 * time.Second

// grumbles is where memberlist logs to: lines such as "[WARN] memberlist: text".
type grumbles struct {
	log      *slog.Logger
	stranger func() // something came that was not sealed with a key of this cluster

	mu            sync.Mutex
	others, alien seldom // of strangers, which would drown in others, or drown them
}

// seldom says of what happens often that it did, now and then.
type seldom struct {
	told    time.Time
	leftOut int
}

func (w *grumbles) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	// Other members look for the process that was here before: so it is after each restart.
	unexpected := []byte("Got ping for unexpected node")
	level, text, ok := bytes.Cut(text, []byte("] memberlist: "))
	if !ok {
		text = level
	}
	if bytes.HasPrefix(text, unexpected) {
		level = nil
	}
	switch warns := !ok || bytes.HasSuffix(level, []byte("[WARN")) || bytes.HasSuffix(level, []byte("[ERR")); {
	case warns && strange(string(text)):
		w.stranger()
		w.warn(&w.alien, "a node has another cluster key, or none, and its messages are refused; give all nodes of a cluster the same", string(text))
	case warns:
		w.warn(&w.others, "memberlist warns", string(text))
	default:
		w.log.Debug("memberlist", "text", string(text))
	}
	return len(line), nil
}

// warn says what has happened, if it has not done so just before.
func (w *grumbles) warn(s *seldom, what, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, level := time.Now(), slog.LevelWarn
	if now.Sub(s.told) < grumbleEvery {
		level = slog.LevelDebug
	}
	//nolint:sloglint // what is one of two constants
	w.log.Log(context.Background(), level, what, "text", text, "left_out", s.leftOut)
	if level == slog.LevelDebug {
		s.leftOut++
		return
	}
	s.told, s.leftOut = now, 0
}
