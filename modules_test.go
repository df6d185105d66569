package weir_test

import (
	"cmp"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// smallLeaves is all that the library may require, itself and for what it requires:
// a program that imports it requires these too, at these versions or later ones.
var smallLeaves = []string{
	"github.com/anishathalye/porcupine", // tests
	"github.com/dlclark/regexp2",        // of jsonschema's own tests
	"github.com/fsnotify/fsnotify",
	"github.com/google/go-cmp",              // tests
	"github.com/santhosh-tekuri/jsonschema", // tests
	"go.yaml.in/yaml",
	"golang.org/x/sys",  // of fsnotify
	"golang.org/x/text", // of jsonschema
	"pgregory.net/rapid",
}

// maxDirect is how many modules the library may require itself.
const maxDirect = 6

// heavy is what a module of the product may require only where it is named below.
var heavy = regexp.MustCompile(`grpc|protobuf|genproto|redis|pgx|sqlite|sql|opentelemetry|prometheus|chromedp|memberlist|go-control-plane|cobra|franz-go|nats-io`)

// brings is what of that each module is for.
var brings = map[string]*regexp.Regexp{
	".":          regexp.MustCompile(`^$`),
	"client":     regexp.MustCompile(`^google\.golang\.org/(grpc|protobuf|genproto/)`),
	"grpclimit":  regexp.MustCompile(`^google\.golang\.org/(grpc|protobuf|genproto/)`),
	"natsstore":  regexp.MustCompile(`^github\.com/nats-io/(nats\.go|nkeys|nuid)$`),
	"pgstore":    regexp.MustCompile(`^github\.com/jackc/`),
	"redisstore": regexp.MustCompile(`^github\.com/redis/rueidis$`),
	"cmd/weir":   regexp.MustCompile(``),
}

// TestModules holds each module of the product to what it may require.
func TestModules(t *testing.T) {
	all := goMods(t)
	for dir, m := range all {
		if brings[dir] == nil {
			t.Fatalf("%s is a module that is not here: what may it require?", dir)
		}
		if m.path != path.Join(module, dir) {
			t.Errorf("%s calls itself %s", dir, m.path)
		}
		if strings.Contains(m.text, "replace") || strings.Contains(m.text, "exclude") {
			t.Errorf("%s/go.mod replaces or excludes: go install of what requires it fails, or ignores it", dir)
		}
		for required := range m.requires {
			if to, ours := siblingOf(required); ours {
				if all[to] == nil || to == "cmd/weir" {
					t.Errorf("%s requires %s", dir, required)
				}
			} else if heavy.MatchString(required) && !brings[dir].MatchString(required) {
				t.Errorf("%s requires %s", dir, required)
			}
		}
	}
	library := all["."]
	direct := 0
	for _, indirect := range library.requires {
		if !indirect {
			direct++
		}
	}
	if direct > maxDirect {
		t.Errorf("the library requires %d modules, at most %d", direct, maxDirect)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		name, _, _ := strings.Cut(line, " ")
		name = regexp.MustCompile(`/v\d+$`).ReplaceAllString(name, "")
		if !slices.Contains(smallLeaves, name) {
			t.Errorf("the library or what it requires brings %s", name)
		}
	}
}

// TestWorkspace: modules require one another at one version, at which the workspace has
// their folders in place of what is published.
func TestWorkspace(t *testing.T) {
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]bool{}
	for dir, m := range goMods(t) {
		for required, version := range m.versions {
			to, ours := siblingOf(required)
			if !ours {
				continue
			}
			versions[version] = true
			folder := "./" + to
			if to == "." {
				folder = to
			}
			if line := "\t" + required + " " + version + " => " + folder + "\n"; !strings.Contains(string(work), line) {
				t.Errorf("%s requires what go.work does not have as %q", dir, line)
			}
		}
	}
	if len(versions) != 1 {
		t.Errorf("modules require one another at versions %v", versions)
	}
}

// TestOutside: a module outside the workspace requires each version that a module of
// this repository brings it, or go refuses to build it.
func TestOutside(t *testing.T) {
	for _, dir := range []string{"bench", "bench/envoyratelimit", "bench/memory", "integrations", "integrations/helm", "tools"} {
		m := readMod(t, dir)
		for _, folder := range m.replaces {
			for name, version := range readMod(t, folder).versions {
				if has := m.versions[name]; has != "" && older(has, version) {
					t.Errorf("%s requires %s %s, and %s brings %s: run go mod tidy there", dir, name, has, folder, version)
				}
			}
		}
	}
}

// older reports whether version a comes before b.
func older(a, b string) bool {
	split := func(v string) []string {
		return strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("v.-+", r) })
	}
	return slices.CompareFunc(split(a), split(b), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	}) < 0
}

// goMod is what a go.mod says.
type goMod struct {
	text, path string
	requires   map[string]bool // indirectly
	versions   map[string]string
	replaces   map[string]string // folders, from the root
}

// siblingOf is the folder of a module of this repository.
func siblingOf(name string) (dir string, ours bool) {
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}

// modules is the folders of the product's modules, which go.work uses.
func modules(t *testing.T) (dirs []string) {
	t.Helper()
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllSubmatch(work, -1) {
		dirs = append(dirs, path.Clean(string(m[1])))
	}
	return dirs
}

func goMods(t *testing.T) map[string]*goMod {
	t.Helper()
	all := map[string]*goMod{}
	for _, dir := range modules(t) {
		all[dir] = readMod(t, dir)
	}
	return all
}

func readMod(t *testing.T, dir string) *goMod {
	t.Helper()
	text, err := os.ReadFile(path.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := &goMod{text: string(text), requires: map[string]bool{}, versions: map[string]string{}, replaces: map[string]string{}}
	for line := range strings.Lines(m.text) {
		line, comment, _ := strings.Cut(strings.TrimPrefix(line, "require "), "//")
		switch words := strings.Fields(strings.TrimPrefix(line, "replace ")); {
		case len(words) == 2 && words[0] == "module":
			m.path = words[1]
		case len(words) == 2 && strings.HasPrefix(words[1], "v"):
			m.requires[words[0]] = strings.TrimSpace(comment) == "indirect"
			m.versions[words[0]] = words[1]
		case len(words) == 3 && words[1] == "=>":
			m.replaces[words[0]] = path.Join(dir, words[2])
		}
	}
	return m
}
