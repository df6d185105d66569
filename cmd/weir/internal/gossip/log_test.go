package gossip

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGrumbles holds what memberlist logs to one warning in a while.
func TestGrumbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		strangers := 0
		w := &grumbles{stranger: func() { strangers++ }, log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		for _, c := range []struct{ line, want string }{
			{"[DEBUG] memberlist: Stream connection", `level=DEBUG msg=memberlist text="Stream connection"`},
			{"[WARN] memberlist: Got ping for unexpected node 'a'", `level=DEBUG msg=memberlist text="Got ping for unexpected node 'a'"`},
			{"[ERR] memberlist: Failed to send", `level=WARN msg="memberlist warns" text="Failed to send" left_out=0`},
			{"[WARN] memberlist: again", `level=DEBUG msg="memberlist warns" text=again`},
			{"of no form", `level=DEBUG msg="memberlist warns" text="of no form"`},
			{"[ERR] memberlist: Decrypt packet failed", `level=WARN msg="a node has another cluster key, or none, and its messages are refused; give all nodes of a cluster the same" text="Decrypt packet failed" left_out=0`},
			{"[ERR] memberlist: Decrypt packet failed", `level=DEBUG msg="a node has another cluster key`},
		} {
			b.Reset()
			if _, err := fmt.Fprintln(w, c.line); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), c.want) {
				t.Errorf("%q: logs %q; want %q", c.line, b.String(), c.want)
			}
		}
		if strangers != 2 {
			t.Errorf("counts %d of 2 strangers", strangers)
		}
		time.Sleep(grumbleEvery)
		b.Reset()
		_, _ = fmt.Fprintln(w, "[ERR] memberlist: later") // a log has nowhere to tell
		if want := "level=WARN msg=\"memberlist warns\" text=later left_out=2"; !strings.Contains(b.String(), want) {
			t.Errorf("logs %q; want %q", b.String(), want)
		}
	})
}
