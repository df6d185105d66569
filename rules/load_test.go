package rules_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

func domainText(name string) string {
	return "domain: " + name + "\ndescriptors: [{key: a, limits: [1/s]}]\n"
}

// write fills a new folder; a text "-> X" makes a link to X, a name ending in /
// a folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(to, path)
		} else if !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// "A folder: its *.yaml and *.yml, symlinks followed, no recursion, dot names
// skipped".
func TestLoadFolder(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml":            domainText("b"),
		"a.yml":             domainText("a"),
		"..data/c.yaml":     domainText("c"), // as Kubernetes mounts a ConfigMap
		"c.yaml":            "-> ..data/c.yaml",
		".hidden.yaml":      "nonsense",
		"notes.txt":         "nonsense",
		"old.yaml.bak":      "nonsense",
		"UPPER.YAML":        "nonsense",
		"sub/d.yaml":        "nonsense",
		"folder.yaml/":      "",
		"folder.yaml/e.yml": "nonsense",
	})
	set, err := rules.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, set.Domains()); d != "" {
		t.Error(d)
	}
	var places []string
	for _, r := range set.Rules() {
		places = append(places, filepath.Base(r.File)+" "+r.Name)
	}
	if d := cmp.Diff([]string{"a.yml a/a", "b.yaml b/a", "c.yaml c/a"}, places); d != "" {
		t.Error("rules are in the order of the files:\n" + d)
	}

	// "Removing one file of several removes its domain"
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if set, err = rules.Load(dir); err != nil || !cmp.Equal([]string{"a", "c"}, set.Domains()) {
		t.Error(set, err)
	}
}

// TestParseFolder: texts at hand are read as the files of a folder are.
func TestParseFolder(t *testing.T) {
	for _, files := range []map[string]string{
		{"b.yaml": domainText("b"), "a.yml": domainText("a"), ".hidden.yaml": "nonsense", "notes.txt": "nonsense", "UPPER.YAML": "nonsense"},
		{"1.yaml": domainText("same"), "2.yaml": "domain: two\ndescriptors: [{key: a, limits: [x]}]\n", "3.yaml": domainText("same"), "5.yaml": "domain: five\ndescriptors: [{key: a, limits: [0/s]}]\n"},
		{"notes.txt": "nonsense"},
		{},
	} {
		texts := map[string][]byte{}
		for name, text := range files {
			texts[name] = []byte(text)
		}
		set, err := rules.ParseFolder(texts)
		dir := write(t, files)
		loaded, want := rules.Load(dir)
		if (set == nil) != (loaded == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
			t.Fatalf("%v, %v; Load: %v, %v", set, err, loaded, want)
		}
		if set != nil && !cmp.Equal(set.Domains(), loaded.Domains()) {
			t.Errorf("%q, Load: %q", set.Domains(), loaded.Domains())
		}
		if bad, ok := errors.AsType[*rules.Error](err); ok && bad.Error() != strings.ReplaceAll(want.Error(), dir+"/", "") {
			t.Errorf("%v\nLoad: %v", err, want)
		}
	}
	if _, err := rules.ParseFolder(map[string][]byte{"a.yaml": make([]byte, rules.MaxFileSize), "b.yaml": []byte("#")}); err == nil || !strings.Contains(err.Error(), "b.yaml") {
		t.Errorf("more than %d bytes: %v", rules.MaxFileSize, err)
	}
}

// "the single file gone, or none left in the folder, counts as missing".
func TestLoadMissing(t *testing.T) {
	dir := write(t, map[string]string{"notes.txt": "x", "sub/a.yaml": domainText("a")})
	for _, path := range []string{dir, filepath.Join(dir, "gone.yaml"), filepath.Join(dir, "gone", "a.yaml")} {
		if _, err := rules.Load(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want fs.ErrNotExist", path, err)
		}
	}
	if _, err := rules.Load(write(t, map[string]string{"a.yaml": domainText("a"), "b.yaml": "-> nowhere"})); err == nil {
		t.Error("a link to nowhere is no error")
	}
}

// All errors of all files come at once, and nothing is loaded.
func TestLoadErrors(t *testing.T) {
	dir := write(t, map[string]string{
		"1.yaml": domainText("same"),
		"2.yaml": "domain: two\ndescriptors: [{key: a, limits: [x]}]\n",
		"3.yaml": "# another\ndomain: same\n",
		"4.yaml": "domain: [\n",
		"5.yaml": "domain: five\ndescriptors: [{key: a, limits: [0/s]}]\n",
	})
	set, err := rules.Load(dir)
	e, ok := errors.AsType[*rules.Error](err)
	if !ok || set != nil {
		t.Fatalf("%v, %v", set, err)
	}
	var got []string
	for _, f := range e.Findings {
		f.File = filepath.Base(f.File)
		got = append(got, strings.ReplaceAll(f.String(), dir+"/", ""))
	}
	want := []string{
		`2.yaml:2:33: error: limit "x": "x" is not a whole number; a limit begins with its count, as in 100/min or 20 concurrent (rule two/a)`,
		`3.yaml:2:9: error: duplicate domain "same", also in 1.yaml:1`,
		`4.yaml:2:1: error: YAML: while parsing a flow node: did not find expected node content`,
		`5.yaml:2:33: warning: never passes: a count of 0 denies all (rule five/a)`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 3 || strings.Contains(err.Error(), "warning") {
		t.Errorf("the error is %q, want the 3 errors", err)
	}
}

// "a reload whose file has no `descriptors` key is refused (write `descriptors:
// []` to empty a domain)".
func TestComplete(t *testing.T) {
	for text, want := range map[string]string{
		"domain: a\ndescriptors: []\n": "",
		"domain: a\ndescriptors:\n":    "",
		"{domain: a, descriptors: ~}":  "",
		"domain: a\n":                  "f:1:1: error: there is no descriptors key, as in a file half written; write descriptors: [] for a domain without rules",
		"# c\n\n  domain: a":           "f:3:3: error: there is no descriptors key, as in a file half written; write descriptors: [] for a domain without rules",
	} {
		set, err := rules.Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%q: to begin with it is fine, but: %v", text, err)
			continue
		}
		got := ""
		if err := set.Complete(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	dir := write(t, map[string]string{"a.yaml": domainText("a"), "b.yaml": "domain: b\n", "c.yaml": "domain: c\n"})
	set, err := rules.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*rules.Error](set.Complete())
	if !ok || len(e.Findings) != 2 || filepath.Base(e.Findings[0].File) != "b.yaml" {
		t.Errorf("%v", e)
	}
}

func TestLoadBounds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(rules.MaxFileSize/2+1), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rules.Load(dir); err == nil || !strings.Contains(err.Error(), "b.yaml: rule files have at most 67108864 bytes, all together") {
		t.Error(err)
	}
}

// TestMerge: what << takes over means what it would mean written out, and a
// rate_limit keeps what the one in its place does not say. make compare-ratelimit
// finds that envoyproxy/ratelimit reads it so.
func TestMerge(t *testing.T) {
	set, err := rules.Parse("rules.yaml", []byte(`
domain: shop
descriptors:
  - &base
    key: path
    value: /a
    rate_limit: &limit {unit: minute, requests_per_unit: 5}
  - <<: *base
    value: /b
  - <<: [{value: /c}, *base]
    rate_limit:
      <<: *limit
      requests_per_unit: 7
  - <<: *base
    value: /d
    rate_limit: {unit: hour}
  - value: /e
    rate_limit: {requests_per_unit: 9}
    <<: {key: path, rate_limit: {unit: day}}
  - <<: [{rate_limit: {unit: second}}, *base]
    key: ~
    <<: {key: path, value: /f}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range set.Rules() {
		got = append(got, r.Name+" "+r.Limit.String())
	}
	want := []string{
		"shop/path=/a 5/min fixed-window", "shop/path=/b 5/min fixed-window", "shop/path=/c 7/min fixed-window",
		"shop/path=/d 5/h fixed-window", "shop/path=/e 9/24h fixed-window", "shop/path=/f 5/s fixed-window",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
