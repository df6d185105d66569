package cas

import (
	"errors"
	"fmt"
	"time"
)

// maxApart is how far the clock of a process, which decides, may be from its server's. One that is ahead has others
// deny for as long.
const maxApart = 10 * time.Second

// ErrApart is of a process whose clock may not decide.
var ErrApart = errors.New("this machine's clock decides, and the server's is apart from it by")

// Near fails with ErrApart where this process's clock is far from the server's, which has told its time since it was
// asked. A server that tells the zero time has told none.
func Near(server, asked time.Time) error {
	off := server.Sub(asked)
	if server.IsZero() || off >= -maxApart && off <= time.Since(asked)+maxApart {
		return nil
	}
	return fmt.Errorf("%w %v", ErrApart, off.Round(time.Second))
}
