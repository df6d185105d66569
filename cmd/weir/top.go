package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/internal/sleep"
)

const (
	topEvery = 2 * time.Second
	// topLook is how often the size of the terminal is looked at.
	topLook = 200 * time.Millisecond
	// topOnce is how long --once counts to tell how much passes in a second.
	topOnce = time.Second
)

// The control sequences for terminals (ECMA-48, and xterm's second screen).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// top is what weir top is told.
type top struct {
	addr         address
	domain, rule string
	clients      int
	once, asJSON bool
}

func topCommand() *cobra.Command {
	var o top
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what rules pass and deny, and which clients",
		Long: `Watch what the rules of a daemon pass and deny each second, and which clients
they denied most in the last five to ten minutes. It asks the admin listener every
two seconds, and ends with q or ^C. Keys sort, pause, filter and choose rules; ? lists
them. There are no colours where NO_COLOR is set.

Each rule's own decisions are counted, as in weir_decisions_total; a shadow rule
denies no client. 120 ±7 is 113 to 120 denials: a rule tells 100 clients apart.

Without a terminal, or with --once, it looks for a second, prints once and ends.
With --json it prints what GET /v1/top answers, one a line.`,
		Example: `  weir top
  weir top --once --domain shop --n 20
  weir top --addr https://weir.example:8082 --ca ca.pem --token-file token
  weir top --once --json | jq '.rules[0].clients.top'`,
		Args: noArguments,
	}
	f := cmd.Flags()
	o.addr.rulesFlags(f)
	f.StringVar(&o.domain, "domain", "", "rules of this `DOMAIN` only")
	f.StringVar(&o.rule, "rule", "", "the rule of this `NAME` only")
	f.IntVar(&o.clients, "n", 5, fmt.Sprintf("how many clients of each rule, up to %d", offenders.Names))
	f.BoolVar(&o.once, "once", false, "print once and end")
	f.BoolVar(&o.asJSON, "json", false, "print what the daemon answers, one JSON object a line")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if o.clients < 0 || o.clients > offenders.Names {
			return usagef("--n %d: write how many clients of each rule, from 0 to %d", o.clients, offenders.Names)
		}
		d, err := o.addr.at("/v1/top", adminDoor)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), d, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	return cmd
}

func (o *top) run(ctx context.Context, d *daemonAt, in io.Reader, out io.Writer) error {
	if o.asJSON {
		return o.lines(ctx, d, out)
	}
	if screen, ok := terminalOf(out); ok && !o.once {
		return o.onTerminal(ctx, d, in, screen)
	}
	before, _, err := o.ask(ctx, d, topRule{})
	if err != nil || sleep.For(ctx, topOnce) != nil {
		return err
	}
	now, _, err := o.ask(ctx, d, topRule{})
	if err != nil {
		return err
	}
	v := topView{daemon: d, before: before, now: now}
	_, err = io.WriteString(out, v.text())
	return err
}

// terminalOf is the terminal that a stream is, if it is one.
func terminalOf(stream any) (*os.File, bool) {
	file, ok := stream.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// onTerminal watches on a terminal, and reads keys where they come from one, too.
func (o *top) onTerminal(ctx context.Context, d *daemonAt, in io.Reader, screen *os.File) error {
	v := topView{daemon: d, colours: os.Getenv("NO_COLOR") == ""}
	var err error
	if v.now, _, err = o.ask(ctx, d, topRule{}); err != nil {
		return err // before the screen is taken
	}
	var keys <-chan topKey
	if keyboard, ok := terminalOf(in); ok {
		was, err := term.MakeRaw(int(keyboard.Fd()))
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = term.Restore(int(keyboard.Fd()), was) }()
		done := make(chan struct{})
		defer close(done)
		keys = readKeys(keyboard, done)
	}
	return o.watch(ctx, v, screen, keys, func() (width, height int, err error) { return term.GetSize(int(screen.Fd())) })
}

// ask asks the daemon once. line is its answer as it came.
// It asks for all clients of a rule that is named.
func (o *top) ask(ctx context.Context, d *daemonAt, only topRule) (answer *httpapi.Top, line []byte, err error) {
	q := url.Values{"n": {strconv.Itoa(o.clients)}}
	if only == (topRule{}) {
		only = topRule{o.domain, o.rule}
	} else {
		q.Set("n", strconv.Itoa(offenders.Names))
	}
	if only.domain != "" {
		q.Set("domain", only.domain)
	}
	if only.rule != "" {
		q.Set("rule", only.rule)
	}
	if line, err = d.call(ctx, q, nil); err != nil {
		return nil, nil, err
	}
	answer = new(httpapi.Top)
	if err := json.Unmarshal(line, answer); err != nil {
		return nil, nil, fmt.Errorf("read what the daemon says: %w", err)
	}
	return answer, line, nil
}

// lines prints the answers as they come.
func (o *top) lines(ctx context.Context, d *daemonAt, out io.Writer) error {
	for {
		_, line, err := o.ask(ctx, d, topRule{})
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
		if o.once {
			return nil
		}
		if err := sleep.For(ctx, topEvery); err != nil {
			return nil //nolint:nilerr // it was told to stop
		}
	}
}

// watch draws on a terminal until ctx ends, or a key says so. A daemon that is away is asked again. keys may be
// nil: none are read.
func (o *top) watch(ctx context.Context, v topView, out io.Writer, keys <-chan topKey, size func() (int, int, error)) error {
	v.keys = keys != nil
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leaveScreen) }() // who is gone needs no screen
	look := time.NewTicker(topLook)
	defer look.Stop()
	drawn, asked := topView{}, time.Now()
	for {
		var err error
		if v.width, v.height, err = size(); err != nil {
			return fmt.Errorf("size of the terminal: %w", err)
		}
		if v != drawn {
			if _, err := io.WriteString(out, v.screen()); err != nil {
				return err
			}
			drawn = v
		}
		asks := false
		select {
		case <-ctx.Done():
			return nil
		case key, ok := <-keys:
			if !ok {
				keys = nil // the terminal is gone, and the context will tell
				continue
			}
			var quit bool
			if quit, asks = v.press(key); quit {
				return nil
			}
		case <-look.C:
			asks = time.Since(asked) >= topEvery && !v.paused
		}
		if asks {
			asked = time.Now()
			o.renew(ctx, &v)
		}
	}
}

// renew asks the daemon what is new.
func (o *top) renew(ctx context.Context, v *topView) {
	next, _, err := o.ask(ctx, v.daemon, v.only)
	if v.away = ""; err != nil {
		if asking, ok := errors.AsType[*url.Error](err); ok {
			err = asking.Err // whom was asked stands above, and a line is short
		}
		v.away = err.Error()
		return
	}
	v.before, v.now = v.now, next
	v.choose("", len(v.shown())) // there may be fewer
}
