package daemon

import (
	"log/slog"
	"time"
)

// Reloaded are credentials that are read from files. Look reads them again if they have changed, and says whether they
// have; with an error beside that, those before stay active.
type Reloaded interface {
	Look(now time.Time, atOnce bool) (news bool, err error)
	// Failed is why the last change is not active, or empty.
	Failed() string
	// Exposed names a file that other users of the machine may read, or is empty.
	Exposed() string
}

// Watched are credentials that a program looks at again while it runs. Name is what its log calls them.
type Watched struct {
	Name  string
	Files Reloaded
}

// Look makes new credentials active, and logs that, or why those before stay. active is whether there are new ones.
func (w *Watched) Look(now time.Time, atOnce bool, log *slog.Logger) (active bool) {
	switch news, err := w.Files.Look(now, atOnce); {
	case !news:
		return false
	case err != nil:
		log.Error("credentials could not be reloaded; the old ones stay active", "credentials", w.Name, "error", err)
		return false
	}
	log.Info("credentials reloaded", "credentials", w.Name)
	w.SayExposed(log)
	return true
}

// SayExposed warns of a secret that other users may read.
func (w *Watched) SayExposed(log *slog.Logger) {
	if text := w.Files.Exposed(); text != "" {
		log.Warn("other users of this machine can read a secret", "credentials", w.Name, "file", text)
	}
}
