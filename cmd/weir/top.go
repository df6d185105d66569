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
	"strings"
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
	// limitedClients is how many clients --all-nodes asks for: those that were denied last.
	limitedClients = 1000
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
	all          bool // nodes
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

With --all-nodes it shows the clients that were denied in the last minute by any
node of the rule database, without what rules pass.

Without a terminal, or with --once, it looks for a second, prints once and ends.
With --json it prints what GET /v1/top answers, or GET /v1/limited with --all-nodes,
one a line.`,
		Example: `  weir top
  weir top --all-nodes
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
	f.BoolVar(&o.all, "all-nodes", false, "clients that any node of the rule database has denied in the last minute")
	f.BoolVar(&o.once, "once", false, "print once and end")
	f.BoolVar(&o.asJSON, "json", false, "print what the daemon answers, one JSON object a line")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		if o.clients < 0 || o.clients > offenders.Names {
			return usagef("--n %d: write how many clients of each rule, from 0 to %d", o.clients, offenders.Names)
		}
		path := "/v1/top"
		if o.all {
			path = "/v1/limited"
		}
		d, err := o.addr.at(path, adminDoor)
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
	v := topView{daemon: d}
	err := o.renewOnce(ctx, &v)
	if err == nil && !o.all && sleep.For(ctx, topOnce) == nil {
		err = o.renewOnce(ctx, &v)
	}
	if err != nil {
		return err
	}
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
	if err = o.renewOnce(ctx, &v); err != nil {
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

// ask asks the daemon once. line is its answer as it came, and note what else there is to say of it.
// It asks for all clients of a rule that is named.
func (o *top) ask(ctx context.Context, d *daemonAt, only topRule) (answer *httpapi.Top, note string, line []byte, err error) {
	q := url.Values{"n": {strconv.Itoa(o.clients)}}
	if only == (topRule{}) {
		only = topRule{o.domain, o.rule}
	} else {
		q.Set("n", strconv.Itoa(offenders.Names))
	}
	if o.all {
		q.Set("n", strconv.Itoa(limitedClients))
	}
	if only.domain != "" {
		q.Set("domain", only.domain)
	}
	if only.rule != "" {
		q.Set("rule", only.rule)
	}
	if line, err = d.call(ctx, q, nil); err != nil {
		return nil, "", nil, err
	}
	answer = new(httpapi.Top)
	if o.all {
		answer, note, err = o.ofAll(line, only)
	} else {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("read what the daemon says: %w", err)
	}
	return answer, note, line, nil
}

// ofAll is an answer of GET /v1/limited by its rules, those that denied last first. Nobody knows what they pass.
func (o *top) ofAll(line []byte, only topRule) (answer *httpapi.Top, note string, err error) {
	var told httpapi.Limited
	if err := json.Unmarshal(line, &told); err != nil {
		return nil, "", err
	}
	if note = told.Alone; len(told.Silent) > 0 {
		note = "not told by " + strings.Join(told.Silent, ", ")
	}
	answer = &httpapi.Top{At: told.At}
	at := map[topRule]int{}
	for i := range told.Clients {
		c := &told.Clients[i]
		is := topRule{c.Domain, c.Rule}
		if only.domain != "" && only.domain != is.domain || only.rule != "" && only.rule != is.rule {
			continue // it only has that in its name
		}
		if _, there := at[is]; !there {
			at[is] = len(answer.Rules)
			answer.Rules = append(answer.Rules, httpapi.TopRule{TrafficRule: c.TrafficRule, Since: told.At})
		}
		of := &answer.Rules[at[is]].Clients
		of.Denied += c.Denied
		if len(of.Top) < o.clients || only == (topRule{c.Domain, c.Rule}) {
			of.Top = append(of.Top, httpapi.TopClient{Key: c.Key, Denied: c.Denied, Error: c.Error})
		}
	}
	return answer, note, nil
}

// lines prints the answers as they come.
func (o *top) lines(ctx context.Context, d *daemonAt, out io.Writer) error {
	for {
		_, _, line, err := o.ask(ctx, d, topRule{})
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
	err := o.renewOnce(ctx, v)
	if v.away = ""; err != nil {
		if asking, ok := errors.AsType[*url.Error](err); ok {
			err = asking.Err // whom was asked stands above, and a line is short
		}
		v.away = err.Error()
		return
	}
	v.choose("", len(v.shown())) // there may be fewer
}

// renewOnce asks the daemon what is new, and keeps the view where it does not answer.
func (o *top) renewOnce(ctx context.Context, v *topView) error {
	next, note, _, err := o.ask(ctx, v.daemon, v.only)
	if err == nil {
		v.before, v.now, v.note, v.all = v.now, next, note, o.all
	}
	return err
}
