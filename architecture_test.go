package weir_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const module = "github.com/weir-limit/weir"

// leaves are small packages that stand on the standard library alone, or, as bounds, on the
// root besides: to import one brings nothing else along.
const leaves = " -weir/internal/here -weir/internal/atomicfile -weir/internal/editdistance -weir/internal/packing -weir/internal/sleep -weir/internal/cluster/bounds"

// ofRoot is what the root imports of the module: who may import the root may import that.
const ofRoot = " -weir/internal/editdistance"

// forbidden is which packages may not import what, themselves or through other
// packages of the product, tests aside. Patterns are separated by spaces: "x/..."
// is x and all below it, "*" is one path element, "-x" takes x out again. "weir"
// stands for the library's module; "std" and "third-party" for all packages of that
// kind. A line may speak of packages that are still to come.
var forbidden = []struct{ packages, imports, why string }{
	{"weir", "third-party weir/..." + ofRoot, "importing the rules of limiting must cost nothing"},
	{
		"weir",
		"std -cmp -context -encoding -errors -fmt -iter -maps -math -math/bits -math/rand/v2 -slices -strconv -strings -time -unicode/utf8",
		"what decides does no I/O, starts no goroutine and locks nothing",
	},
	{"weir/memstore", "third-party weir/... -weir -weir/internal/record" + leaves, "a store brings one dependency, and memory needs none"},
	{"weir/rules/... -weir/rules/source", "third-party -go.yaml.in/yaml/...", "rules are used in process; all that they need is a YAML reader"},
	{"weir/rules/source", "third-party -go.yaml.in/yaml/... -github.com/fsnotify/...", "rules are fetched in process, too"},
	{"weir/rules", "weir/rules/source", "who has the rules already fetches none"},
	{"weir/rules/source", "log/... os/exec os/signal plugin syscall", "it asks for rules and logs nothing: its caller does"},
	{"weir/rules/...", "weir/... -weir -weir/rules/..." + leaves, "rules know limits, and nobody who uses them"},
	{"weir/sim/...", "third-party", "a simulation is the standard library and a seed"},
	{"weir/sim/...", "weir/... -weir -weir/internal/leased -weir/internal/limittext -weir/internal/record -weir/internal/cluster/... -weir/internal/storewire -weir/internal/unreported -weir/sim/..." + leaves, "what is simulated must be what decides, without a server around it"},
	{"weir/sim/textbook", "weir/... -weir", "an oracle shares no code with what it is held against, but its words"},
	{"weir/cmd/weir/internal/jointstest/...", "third-party weir/...", "an oracle shares no code with what it is held against"},
	{"weir/storetest", "third-party -pgregory.net/rapid/... weir/... -weir", "a store outside of this module must be able to run the suite"},
	{
		"weir weir/memstore weir/rules/... -weir/rules/source weir/sim/... weir/storetest weir/internal/cluster/...",
		"net/... log/... os/exec os/signal plugin syscall",
		"a library talks to nobody and logs nothing: its caller does",
	},
	{"weir/... -weir/cmd/...", "weir/cmd/...", "the library stands without the daemon"},
	{"weir/memcachestore", "third-party", "memcached is spoken to by a few hundred lines of our own"},
	{"weir/httplimit", "third-party -go.yaml.in/yaml/... weir/... -weir -weir/rules -weir/internal/admission -weir/internal/fields -weir/internal/pacing -weir/internal/address" + leaves, "middleware and transport are the standard library, limits and rules"},
	{"weir/edge", "third-party net/... log/... weir/... -weir -weir/memstore -weir/internal/guard -weir/internal/leased -weir/internal/record -weir/internal/synced -weir/internal/unreported" + leaves, "it goes around any store that is elsewhere"},
	{"weir/internal/cas", "net/... log/... third-party weir/... -weir -weir/internal/record" + leaves, "what decides over any store that can swap knows none of them"},
	{"weir/redisstore weir/memcachestore weir/pgstore", "weir/... -weir -weir/edge -weir/memstore -weir/internal/cas -weir/internal/guard -weir/internal/lane -weir/internal/leased -weir/internal/record -weir/internal/storeurl -weir/internal/synced -weir/internal/unreported" + leaves, "a store adapts one dependency to the contract of the root, and the edge goes around it"},
	{"weir/client", "third-party -google.golang.org/... weir/... -weir -weir/edge -weir/memstore -weir/internal/guard -weir/internal/lane -weir/internal/leased -weir/internal/synced -weir/internal/unreported -weir/internal/limittext -weir/internal/record -weir/internal/storeurl -weir/internal/storewire" + leaves, "a client brings gRPC, and no daemon"},
	{"weir/internal/storeurl", "net/http third-party weir/...", "a URL is read without what it leads to"},
	{"weir/internal/storewire", "net/... third-party weir/... -weir -weir/internal/record", "both sides of the wire read the same messages, and nothing else"},
	{"weir/internal/guard", "weir/... -weir -weir/memstore -weir/internal/record -weir/internal/unreported" + leaves, "it goes around any store that is outside, and decides in memory when that is away"},
	{"weir/internal/synced", "third-party weir/... -weir -weir/internal/guard -weir/internal/record -weir/internal/unreported -weir/memstore" + leaves, "it decides locally what a guarded store need not"},
	{"weir/internal/leased", "third-party net/... log/... weir/... -weir -weir/internal/record -weir/internal/unreported", "it takes portions of limits from any store"},
	{"weir/internal/unreported", "third-party net/... log/... weir/... -weir -weir/internal/record", "usage is reported the same way, whoever let it pass"},
	{"weir/internal/lane", "third-party net/... log/... weir/... -weir", "calls travel together, whatever carries them"},
	{"weir/internal/limittext", "third-party net/... log/... weir/... -weir", "a text means a limit, whoever sent it"},
	{"weir/internal/record", "third-party net/... weir/... -weir", "what a store keeps is computed, wherever it is kept"},
	{"weir/cmd/weir/internal/cluster", "net/... third-party -google.golang.org/protobuf/... -google.golang.org/grpc/... -golang.org/x/sys/... weir/... -weir -weir/cmd/weir/internal/boottime -weir/internal/here -weir/internal/limittext -weir/internal/record -weir/internal/cluster/... -weir/internal/packing -weir/internal/storewire", "it keeps limits with other nodes, whatever carries its messages"},
	{"weir/cmd/weir/internal/gossip", "net/http third-party -github.com/hashicorp/memberlist/... -golang.org/x/... weir/... -weir/internal/packing -weir/cmd/weir/internal/boottime", "it carries messages, and knows nothing of what is in them"},
	{"weir/... -weir/cmd/weir/internal/gossip -weir/cmd/weir/internal/membership -weir/cmd/weir/internal/telemetry -weir/cmd/weir/internal/daemon -weir/cmd/weir", "github.com/hashicorp/...", "a dependency lives in one package"},
	{"weir/internal/cluster/...", "third-party weir/... -weir -weir/internal/cluster/... -weir/internal/limittext -weir/internal/packing -weir/internal/record", "nodes agree without a network, so that it can be simulated"},
	{"weir/internal/cluster/table", "third-party weir/... -weir", "what a node keeps of keys does not depend on how nodes share"},
	{"weir/internal/cluster/rank", "third-party weir/... -weir -weir/internal/record", "members are ranked for a key by names alone"},
	{"weir/internal/cluster/member", "weir/internal/cluster/... -weir/internal/cluster/member -weir/internal/cluster/rank -weir/internal/cluster/bounds -weir/internal/cluster/frame", "who is there does not depend on what members share"},
	{"weir/internal/cluster/protocol", "weir/internal/cluster/... -weir/internal/cluster/protocol -weir/internal/cluster/member -weir/internal/cluster/rank -weir/internal/cluster/bounds -weir/internal/cluster/frame", "what nodes say does not depend on what they keep"},
	{"weir/internal/cluster/holder", "weir/internal/cluster/... -weir/internal/cluster/holder -weir/internal/cluster/protocol -weir/internal/cluster/member -weir/internal/cluster/rank -weir/internal/cluster/bounds -weir/internal/cluster/frame -weir/internal/cluster/table", "who holds a lease knows no ledger"},
	{"weir/internal/cluster/ledger", "weir/internal/cluster/... -weir/internal/cluster/ledger -weir/internal/cluster/protocol -weir/internal/cluster/member -weir/internal/cluster/rank -weir/internal/cluster/bounds -weir/internal/cluster/frame -weir/internal/cluster/table", "a ledger sends nothing, and knows no holder"},
	{"weir/internal/cluster/lease", "weir/internal/cluster/counter", "owners and leases need no node that decides by itself"},
	{"weir/internal/cluster/counter", "weir/internal/cluster/lease", "a node that decides by itself has no owner, and holds no lease"},
	{"weir/grpclimit", "third-party -google.golang.org/... -go.yaml.in/yaml/... weir/... -weir -weir/rules -weir/internal/admission -weir/internal/fields -weir/internal/pacing -weir/internal/address" + leaves, "interceptors are gRPC, limits and rules"},
	{"weir/internal/admission", "net/... log/... third-party -go.yaml.in/yaml/... weir/... -weir -weir/rules -weir/internal/fields" + leaves, "whether a request may go does not depend on what its client speaks"},
	{"weir/internal/pacing", "net/... third-party weir/... -weir" + leaves, "whose turn it is does not depend on what a client speaks"},
	{"weir/internal/fields", "net/... third-party -go.yaml.in/yaml/... weir/... -weir -weir/rules" + leaves, "how an answer is written is the same for every listener"},
	{"weir/cmd/weir/internal/membership", "net/http weir/cmd/weir/internal/httpapi weir/cmd/weir/internal/rls weir/cmd/weir/internal/resp weir/cmd/weir/internal/webui", "it knows the other nodes, and serves nobody"},
	{"weir/cmd/weir/internal/telemetry", "weir/cmd/weir/internal/daemon weir/cmd/weir/internal/webui", "it counts parts that know nothing of it"},
	{"weir/cmd/weir/internal/listen", "third-party -github.com/prometheus/... weir/... -weir/cmd/weir/internal/overload", "connections are opened and bounded, whatever is said on them"},
	{"weir/cmd/weir/internal/overload", "net/... log/... third-party weir/... -weir/cmd/weir/internal/overload", "how much to take is for any listener; what to answer is the listener's"},
	{"weir/internal/cluster/bounds", "third-party weir/... -weir", "who loads rules brings no machines along that share limits"},
	{"weir/internal/atomicfile weir/internal/editdistance weir/internal/packing weir/internal/sleep", "third-party weir/...", "what nearly all may import brings nothing along"},
	{"weir/cmd/weir/internal/accesslog", "third-party -github.com/klauspost/compress/... -github.com/go-json-experiment/... weir/... -weir", "reading a log knows nothing of rules"},
	{"weir/cmd/weir/internal/replay weir/cmd/weir/internal/suggest", "net/http third-party -go.yaml.in/yaml/... -github.com/klauspost/compress/... -github.com/go-json-experiment/...", "a replay is computed from a log alone"},
	{"weir/cmd/weir/internal/offenders", "net/... log/... third-party weir/... -weir", "who is denied most is counted, whoever asks"},
	{"weir/cmd/weir/internal/usagelog", "net/http log/... third-party -go.yaml.in/yaml/... -github.com/go-json-experiment/... weir/... -weir -weir/rules -weir/cmd/weir/internal/offenders" + leaves, "what is counted does not depend on where it is kept"},
	{"weir/cmd/weir/internal/broker", "net/http log/... third-party -github.com/twmb/... -github.com/nats-io/... -golang.org/x/crypto/... -github.com/klauspost/... -github.com/pierrec/... weir/... -weir/internal/storeurl", "it connects, and knows nothing of what is sent"},
	{"weir/cmd/weir/internal/shadow", "net/... log/... third-party -go.yaml.in/yaml/... weir/... -weir -weir/rules -weir/cmd/weir/internal/offenders" + leaves, "what a change would do is counted and judged, whoever asks"},
	{"weir/cmd/weir/internal/size", "third-party weir/... -weir" + leaves, "what a design takes is worked out from measured constants"},
	{"weir/cmd/weir/internal/rulestore", "net/http log/... third-party -go.yaml.in/yaml/... -modernc.org/... -github.com/jackc/pgx/... -golang.org/x/text/... weir/... -weir -weir/rules" + leaves, "rules are kept without a listener around them"},
	{"weir/cmd/weir/internal/auditlog", "net/http third-party -go.yaml.in/yaml/... -modernc.org/... -github.com/jackc/pgx/... -golang.org/x/text/... weir/... -weir -weir/rules -weir/cmd/weir/internal/rulestore" + leaves, "what is audited does not depend on the listener where it was done"},
	{"weir/cmd/weir/internal/webhooks", "third-party -go.yaml.in/yaml/... -modernc.org/... -github.com/jackc/pgx/... -golang.org/x/text/... weir/... -weir -weir/rules -weir/cmd/weir/internal/rulestore" + leaves, "who is told does not depend on the listener where it was done"},
	{"weir/cmd/weir/internal/changes", "net/http log/... weir/cmd/weir/internal/ruleapi weir/cmd/weir/internal/webui", "what a change must pass does not depend on the listener it comes by"},
	{"weir/cmd/weir/internal/ruleapi", "weir/cmd/weir/internal/httpapi weir/cmd/weir/internal/rls weir/cmd/weir/internal/resp", "a listener can be left out without the others noticing"},
	{"weir/cmd/weir/internal/rulefeed", "net/http log/... weir/... -weir -weir/rules -weir/cmd/weir/internal/rulestore" + leaves, "it brings rules to a node, and serves nobody"},
	{
		"weir/... -weir/pgstore -weir/cmd/weir/internal/rulestore -weir/cmd/weir/internal/auditlog -weir/cmd/weir/internal/rulefeed -weir/cmd/weir/internal/changes -weir/cmd/weir/internal/webhooks -weir/cmd/weir/internal/ruleapi -weir/cmd/weir/internal/webui -weir/cmd/weir/internal/membership -weir/cmd/weir/internal/telemetry -weir/cmd/weir/internal/daemon -weir/cmd/weir", "database/... modernc.org/... github.com/jackc/...",
		"only who keeps rules or counts there knows databases",
	},
	{"weir/cmd/weir/internal/credentials", "third-party weir/... log/...", "what is secret is read by little code, and never logged"},
	{"weir/cmd/weir/internal/importenv", "net/http third-party -go.yaml.in/yaml/...", "an environment is translated, not served"},
	{"weir/cmd/weir/internal/plot", "net/http third-party weir/...", "a picture is computed from integers alone"},
	{"weir/cmd/weir/internal/report weir/cmd/weir/internal/lesson", "net/http third-party", "a page and its pictures are computed from what was simulated alone"},
	{"weir/... -weir/cmd/weir/internal/browsertest", "github.com/chromedp/...", "only tests drive a browser"},
	{"weir/cmd/weir/internal/rls", "weir/cmd/weir/internal/httpapi weir/cmd/weir/internal/resp weir/cmd/weir/internal/webui", "a listener can be left out without the others noticing"},
	{"weir/cmd/weir/internal/httpapi", "weir/cmd/weir/internal/rls weir/cmd/weir/internal/resp weir/cmd/weir/internal/webui", "a listener can be left out without the others noticing"},
	{"weir/cmd/weir/internal/webui", "weir/cmd/weir/internal/rls weir/cmd/weir/internal/httpapi weir/cmd/weir/internal/resp", "a listener can be left out without the others noticing"},
	{"weir/cmd/weir/internal/resp", "weir/cmd/weir/internal/rls weir/cmd/weir/internal/httpapi weir/cmd/weir/internal/webui", "a listener can be left out without the others noticing"},
	{"weir/cmd/weir/internal/tracing/...", "weir/... -weir -weir/rules -weir/cmd/weir/internal/tracing/..." + leaves, "traces are told what was decided, by whichever listener"},
	{
		"weir/... -weir/cmd/weir/internal/tracing/... -weir/cmd/weir/internal/telemetry -weir/cmd/weir/internal/daemon -weir/cmd/weir", "go.opentelemetry.io/... weir/cmd/weir/internal/tracing/...",
		"who is traced calls a hook: without traces nothing of OpenTelemetry runs",
	},
	{"weir/... -weir/cmd/weir", "weir/cmd/weir/internal/daemon", "only the command knows the whole"},
	{"weir/... -weir/cmd/weir -weir/examples/...", "os/signal github.com/spf13/... github.com/schollz/...", "flags, signals and progress bars belong to main"},
	{"weir/... -weir/storetest -weir/internal/*test -weir/internal/*/*test -weir/cmd/weir/internal/*test -weir/cmd/weir/internal/*/*test", "testing/...", "test support does not belong in a shipped binary"},
	{"weir/...", "log math/rand unsafe", "take log/slog, handed in; math/rand/v2; and memory as Go gives it"},
}

func TestImports(t *testing.T) {
	packages := load(t)
	for _, f := range forbidden {
		if slices.Contains(strings.Fields(f.imports), "-weir") {
			f.imports += ofRoot
		}
		of := 0
		for _, p := range packages {
			if !matches(f.packages, p.name) {
				continue
			}
			of++
			for chain := range packages.imports(p) {
				if last := chain[len(chain)-1]; matches(f.imports, last) {
					t.Errorf("%s must not import %s: %s (%s)", p.name, last, f.why, strings.Join(chain, " → "))
				}
			}
		}
		if of == 0 {
			t.Logf("%s: no such package yet", f.packages)
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range load(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		switch {
		case p.Doc == "":
			t.Errorf("%s has no package comment", p.name)
		case p.Name != "main" && !strings.HasPrefix(p.Doc, "Package "+p.Name+" "):
			t.Errorf("%s: its comment %q must begin with \"Package %s\"", p.name, p.Doc, p.Name)
		}
	}
}

// TestPackagesAreOnTheMap holds the tree of ARCHITECTURE.md to the packages there are.
func TestPackagesAreOnTheMap(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(page), "## The tree\n\n```\n")
	tree, _, fenced := strings.Cut(tree, "```")
	if !fenced {
		t.Fatal("ARCHITECTURE.md has no tree")
	}
	packages, drawn := load(t), map[string]bool{}
	var folders []string // that the line is below, each indented by two
	for line := range strings.Lines(tree) {
		name, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		folders = append(folders[:min(depth, len(folders))], name)
		full := path.Join(append([]string{"weir"}, folders...)...)
		if name == "*.go" {
			full = "weir"
		}
		drawn[full] = true
		if packages[full] == nil && what != "" {
			t.Errorf("ARCHITECTURE.md draws %s: there is no such package", full)
		}
	}
	for name := range packages {
		if !drawn[name] {
			t.Errorf("%s is not in the tree of ARCHITECTURE.md", name)
		}
	}
}

func TestNoInit(t *testing.T) {
	for _, p := range load(t) {
		for _, file := range p.parse(t) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: func init: what is imported must not act by itself", p.fset.Position(f.Pos()))
				}
			}
		}
	}
}

// TestDeciding holds what decides to "now is a parameter": only limiter.go, the
// edge for callers in process, reads a clock, waits or draws a random number.
func TestDeciding(t *testing.T) {
	p := load(t).find(t, "weir")
	info := p.check(t)
	for id, o := range info.Uses {
		at := p.fset.Position(id.Pos())
		if o.Pkg() == nil || filepath.Base(at.Filename) == "limiter.go" || o.Parent() != o.Pkg().Scope() {
			continue // a method such as Time.After reads no clock
		}
		switch o.Pkg().Path() {
		case "time":
			if slices.Contains([]string{"After", "AfterFunc", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}, o.Name()) {
				t.Errorf("%s: time.%s: now is a parameter of what decides", at, o.Name())
			}
		case "math/rand/v2":
			t.Errorf("%s: rand.%s: a decision does not depend on chance", at, o.Name())
		}
	}
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: go: what decides starts no goroutine", p.fset.Position(g.Pos()))
			}
			return true
		})
	}
}

// TestNoFloat holds decisions, and what is told of them, to integers: no expression
// of these packages has a type that could round.
func TestNoFloat(t *testing.T) {
	packages := load(t)
	for _, name := range []string{"weir", "weir/memstore", "weir/sim", "weir/internal/cluster/member", "weir/internal/cluster/lease", "weir/internal/cluster/counter"} {
		p := packages.find(t, name)
		for e, tv := range p.check(t).Types {
			if b, ok := tv.Type.Underlying().(*types.Basic); ok && b.Info()&(types.IsFloat|types.IsComplex) != 0 {
				t.Errorf("%s: %s is a %s: decisions are exact, in integers", p.fset.Position(e.Pos()), types.ExprString(e), tv.Type)
			}
		}
	}
}

// TestFilesAreAtHomeAnywhere finds paths that only one machine has.
func TestFilesAreAtHomeAnywhere(t *testing.T) {
	home := regexp.MustCompile(`(^|[^\w.~-])/(work|root)/`)
	for name, text := range texts(t) {
		for i, line := range strings.Split(text, "\n") {
			if home.MatchString(line) && name != "architecture_test.go" {
				t.Errorf("%s:%d: %q is the path of one machine", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// TestLinks follows every link of the documents that stays in the repository,
// down to the heading.
func TestLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\[[^]]+\]:\s+(\S+)|(?:src|href)="([^"]+)"`)
	documents := texts(t)
	for name, text := range documents {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, line := range prose(text) {
			for _, m := range links.FindAllStringSubmatch(line, -1) {
				target := m[1] + m[2] + m[3]
				if err := follow(documents, name, target); err != nil {
					t.Errorf("%s:%d: link %s: %v", name, i+1, target, err)
				}
			}
		}
	}
}

// prose is the lines of a document, blank where they are code.
func prose(document string) []string {
	code := regexp.MustCompile("`[^`]*`")
	lines := strings.Split(document, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			lines[i] = ""
		}
		if fence {
			fenced = !fenced
		}
		lines[i] = code.ReplaceAllString(lines[i], "")
	}
	return lines
}

func follow(documents map[string]string, from, target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return err
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if _, err := os.Stat(filepath.FromSlash(to)); err != nil {
			return errors.New("no such file")
		}
	}
	if u.Fragment != "" && path.Ext(to) == ".md" && !slices.Contains(headings(documents[to]), u.Fragment) {
		return errors.New("no such heading")
	}
	return nil
}

// headings is the anchors of a document as code hosts make them: lower case,
// without punctuation, - for a space, and -1, -2, … after one that was there before.
func headings(document string) []string {
	var anchors []string
	seen := map[string]int{}
	fenced := false
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		title := strings.TrimLeft(line, "#")
		if fenced || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		if n := seen[anchor]; n > 0 {
			anchors = append(anchors, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			anchors = append(anchors, anchor)
		}
		seen[anchor]++
	}
	return anchors
}

// texts is the text files of the repository by their slashed names.
func texts(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	walk(t, func(name string, d fs.DirEntry) error {
		if d.IsDir() || !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err == nil && !bytes.Contains(b, []byte{0}) {
			files[filepath.ToSlash(name)] = string(b)
		}
		return err
	})
	return files
}

// walk visits the folders and files of the repository, without those that are
// made by building, testing or version control.
func walk(t *testing.T, visit func(name string, d fs.DirEntry) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch base := d.Name(); {
		case slices.Contains([]string{".git", "bin", "node_modules"}, base):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case slices.Contains([]string{".test", ".out", ".exe", ".prof"}, path.Ext(base)):
			return nil
		}
		return visit(name, d)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pkg is a package of the product's modules.
type pkg struct {
	*build.Package
	name  string // its import path, with "weir" for the library's module
	all   pkgs
	fset  *token.FileSet
	std   types.Importer
	files []*ast.File
	types *types.Package
	info  *types.Info
}

type pkgs map[string]*pkg

// load reads all packages of the product's modules by their import clauses. It runs no
// command, so that the cache of go test sees what the answer depends on.
func load(t *testing.T) pkgs {
	t.Helper()
	all, fset, ours := pkgs{}, token.NewFileSet(), modules(t)
	std := importer.ForCompiler(fset, "source", nil)
	walk(t, func(dir string, d fs.DirEntry) error {
		if !d.IsDir() {
			return nil
		}
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		foreign := err == nil && !slices.Contains(ours, filepath.ToSlash(dir))
		if dir != "." && (foreign || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")) {
			return fs.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		if _, empty := errors.AsType[*build.NoGoError](err); empty {
			return nil
		}
		name := path.Join("weir", filepath.ToSlash(dir))
		all[name] = &pkg{Package: p, name: name, all: all, fset: fset, std: std}
		return err
	})
	return all
}

func (all pkgs) find(t *testing.T, name string) *pkg {
	t.Helper()
	p := all[name]
	if p == nil {
		t.Skipf("no package %s yet", name)
	}
	return p
}

// short is an import path as forbidden writes it.
func short(importPath string) string {
	if rest, ok := strings.CutPrefix(importPath, module); ok && (rest == "" || rest[0] == '/') {
		return "weir" + rest
	}
	return importPath
}

// imports yields for every package that p imports, itself or through others of
// the product, a way from p to it.
func (all pkgs) imports(p *pkg) func(yield func(chain []string) bool) {
	return func(yield func([]string) bool) {
		seen := map[string]bool{}
		var visit func(p *pkg, chain []string) bool
		visit = func(p *pkg, chain []string) bool {
			for _, importPath := range p.Imports {
				name := short(importPath)
				if seen[name] {
					continue
				}
				seen[name] = true
				way := append(slices.Clone(chain), name)
				if !yield(way) || all[name] != nil && !visit(all[name], way) {
					return false
				}
			}
			return true
		}
		visit(p, []string{p.name})
	}
}

// matches is whether the last of the patterns that fits name is without a minus.
func matches(patterns, name string) bool {
	yes := false
	for pattern := range strings.FieldsSeq(patterns) {
		rest, out := strings.CutPrefix(pattern, "-")
		if fits(rest, name) {
			yes = !out
		}
	}
	return yes
}

func fits(pattern, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	switch pattern {
	case "third-party":
		return strings.Contains(first, ".")
	case "std":
		return first != "weir" && !strings.Contains(first, ".")
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// parse reads the files of p that are not tests.
func (p *pkg) parse(t *testing.T) []*ast.File {
	t.Helper()
	if p.files == nil {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(p.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, file)
		}
	}
	return p.files
}

// check finds the types of p and of the packages of this module below it.
func (p *pkg) check(t *testing.T) *types.Info {
	t.Helper()
	if p.info == nil {
		p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: importFunc(func(importPath string) (*types.Package, error) {
			if below := p.all[short(importPath)]; below != nil {
				below.check(t)
				return below.types, nil
			}
			return p.std.Import(importPath)
		})}
		var err error
		if p.types, err = config.Check(p.name, p.fset, p.parse(t), p.info); err != nil {
			t.Fatal(err)
		}
	}
	return p.info
}

type importFunc func(importPath string) (*types.Package, error)

func (f importFunc) Import(importPath string) (*types.Package, error) { return f(importPath) }
