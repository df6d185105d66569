//go:build !race

package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

var update = flag.Bool("update", false, "write what happens into the stories in testdata; read the diff")

// says is a message in words.
func says(m *protocol.Message) string {
	switch m.Kind {
	case protocol.Ask:
		return fmt.Sprintf("ask %d for %d event%s of %s; under lease %d it has let %d pass", m.ID, m.Want, plural(m.Want), m.Limit, m.Lease, m.Spent)
	case protocol.Grant:
		s := fmt.Sprintf("grant for ask %d: lease %d of %d for %v", m.ID, m.Lease, m.Granted, m.Life)
		if m.Lease == 0 {
			s = fmt.Sprintf("grant for ask %d: no lease", m.ID)
		}
		if m.Wait > 0 {
			s += fmt.Sprintf(", come back in %v", m.Wait)
		}
		return s
	case protocol.Release:
		return fmt.Sprintf("release of lease %d: %d passed", m.Lease, m.Spent)
	case protocol.Handoff:
		if m.Lost != "" {
			return fmt.Sprintf("handoff %d: the backup of %s, which is gone", m.ID, m.Lost)
		}
		return fmt.Sprintf("handoff %d: %d outstanding, entitled to %d/%d before", m.ID, m.Spent, m.Part, m.Of)
	case protocol.Taken:
		return fmt.Sprintf("taken for handoff %d", m.ID)
	case protocol.Backup:
		return fmt.Sprintf("backup %d, by which as much is used as will be granted", m.ID)
	case protocol.Stored:
		return fmt.Sprintf("stored backup %d", m.ID)
	}
	return fmt.Sprint("message ", m.Kind)
}

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// tells notes what a process has to say. A message that is sent again while it is on its way is told once.
func (w *world) tells(i int, fx *protocol.Effects) {
	if a := w.actors[i]; a.view.Converged() != w.converged[i] {
		w.converged[i] = a.view.Converged()
		w.note(w, "%s: %s", w.names[i], map[bool]string{true: "converged: it hears all members, and all ledgers are where they belong", false: "not converged any more"}[w.converged[i]])
	}
	for _, a := range fx.Answers {
		d := a.Decision
		w.note(w, "%s: %s %d; %d remaining, retry after %v", w.names[i], d.Outcome, d.Cost, d.Remaining, d.RetryAfter)
	}
	for _, e := range fx.Messages {
		again := func(p parcel) bool {
			return p.from == i && w.names[p.to] == e.Peer && says(&p.message) == says(&e.Message)
		}
		if slices.ContainsFunc(w.flight, again) {
			continue
		}
		w.note(w, "%s → %s: %s", w.names[i], e.Peer, says(&e.Message))
	}
}

// theater plays stories.
type theater struct {
	*world
	b strings.Builder
}

// opens is the cluster that the first command asks for.
func (p *theater) opens(nodes, joins int, limit string) {
	x := newExplorer(scope{nodes: nodes, keys: 1, limit: weir.MustParseLimit(limit), most: 8, may: budget{joins: int8(joins)}}, NoMutant)
	x.converged = make([]bool, nodes)
	x.note = func(w *world, format string, args ...any) {
		fmt.Fprintf(&p.b, "%8v  %s\n", (w.now-start).Duration()-2*time.Second, fmt.Sprintf(format, args...))
	}
	p.world = x.first()
	p.b.Reset() // how they met is not told
	p.may = budget{asks: [4]int8{100}, cuts: 100, waits: 100, crashes: 100, leaves: 100, joins: int8(joins)}
}

// plays does what a command says.
func (p *theater) plays(command string) (err error) {
	var a, b, cost int
	var d string
	scan := func(format string, to ...any) bool {
		n, scanned := fmt.Sscanf(command, format, to...)
		return scanned == nil && n == len(to)
	}
	switch {
	case strings.HasPrefix(command, "cluster"):
		var joins int
		if !scan("cluster of %d, %d of them later, limit", &a, &joins) {
			return fmt.Errorf("%q: cluster of N, N of them later, limit TEXT", command)
		}
		_, limit, _ := strings.Cut(command, "limit ")
		p.opens(a, joins, limit)
	case scan("ask node%d for %d", &a, &cost):
		p.world = p.after(action{do: "ask", node: a, cost: int64(cost)})
	case command == "deliver":
		p.delivers()
	case command == "lose":
		p.world = p.after(action{})
		for _, l := range p.flight {
			p.note(p.world, "lost: %s → %s: %s", p.names[l.from], p.names[l.to], says(&l.message))
		}
		p.flight = nil
	case scan("wait %s", &d), scan("run %s", &d):
		return p.passes(d, strings.HasPrefix(command, "run"))
	case scan("cut node%d node%d", &a, &b):
		p.world = p.after(action{do: "cut", node: a, to: b}).after(action{do: "cut", node: b, to: a})
	case scan("heal node%d node%d", &a, &b):
		p.world = p.after(action{do: "heal", node: a, to: b}).after(action{do: "heal", node: b, to: a})
	case scan("crash node%d", &a), scan("join node%d", &a), scan("leave node%d", &a):
		p.world = p.after(action{do: command[:strings.Index(command, " ")], node: a})
	case scan("pause node%d for %s", &a, &d):
		long, err := time.ParseDuration(d)
		p.world = p.after(action{})
		p.actor(a).away = p.now + weir.Instant(long/time.Microsecond)
		return err
	case scan("reset node%d", &a):
		p.world = p.after(action{})
		err = p.host(a).nodes[0].Reset(p.now, p.states[0], &p.fx)
		p.effects(a)
		p.audits[0] = *audit(p.limit, 0).(*debtAuditor)
	case strings.HasPrefix(command, "limit "):
		p.limit = weir.MustParseLimit(command[len("limit "):])
		p.audits[0] = *audit(p.limit, 0).(*debtAuditor)
	default:
		err = fmt.Errorf("%q is no command", command)
	}
	return err
}

// delivers delivers all messages, and those that follow.
func (p *theater) delivers() {
	for n := 0; len(p.flight) > n; {
		if to := p.actors[p.flight[n].to]; to != nil && to.away > 0 {
			n++
			continue
		}
		p.world = p.after(action{do: "deliver", node: n})
	}
}

// passes lets time pass, in which messages arrive or not.
func (p *theater) passes(d string, arrive bool) error {
	long, err := time.ParseDuration(d)
	for step := long; long > 0 && err == nil; long -= step {
		if arrive {
			step = min(10*time.Millisecond, long)
		}
		p.world = p.after(action{do: "wait", wait: step})
		p.may.waits = 100
		if arrive {
			p.delivers()
		}
	}
	return err
}

// TestStories plays each story in testdata: a transcript has commands, which begin with ">", and what
// happened. Nothing over in any.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d stories: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			p := &theater{}
			for line := range strings.Lines(string(want)) {
				if !strings.HasPrefix(line, ">") && !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
					continue
				}
				got.WriteString(line)
				if command, ok := strings.CutPrefix(line, ">"); ok {
					p.b.Reset()
					if err := p.plays(strings.TrimSpace(command)); err != nil {
						t.Error(err)
						fmt.Fprintln(&p.b, "  ", err)
					}
					got.WriteString(p.b.String())
				}
			}
			if slices.ContainsFunc(p.audits, func(a debtAuditor) bool { return a.over() > 0 }) {
				t.Error("more passed than the limit lets pass")
			}
			if *update {
				err = os.WriteFile(file, []byte(got.String()), 0o600)
			} else if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("something else happened (-want +got):\n%s", diff)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
