package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// patience is how long a change may take to be told on a machine that has much
// else to do.
const patience = 20 * time.Second

func text(domain, limit string) string {
	return "domain: " + domain + "\ndescriptors:\n  - key: user\n    limits: [" + limit + "]\n"
}

// must ends the test when something could not be done.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600))
	return name
}

// rename puts text in the place of a file at once.
func rename(t testing.TB, text, name string) {
	t.Helper()
	must(t, os.Rename(put(t, text, filepath.Dir(name), ".new"), name))
}

// watched is a source at work.
type watched struct {
	*source.Source

	t    testing.TB
	told chan string
}

// watch loads place and watches it until the test ends.
func watch(t testing.TB, place string, o source.Options) *watched {
	t.Helper()
	s, err := source.Open(place, o)
	must(t, err)
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &watched{s, t, make(chan string, 100)}
	w.run()
	return w
}

func (w *watched) run() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Watch(ctx, func(set *rules.Set, err error) { w.told <- brief(set, err) })
	}()
	w.t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(patience):
			w.t.Error("Watch did not end")
		}
	})
}

// brief is domains and limits, or what is wrong without folders.
func brief(set *rules.Set, err error) string {
	if err != nil {
		return source.Result(err) + ": " + err.Error()
	}
	var limits []string
	for _, r := range set.Rules() {
		limits = append(limits, r.Domain+" "+r.Limit.String())
	}
	return strings.Join(limits, ", ")
}

// until waits until what is told holds want. Between two writes of a slow
// machine, other things may be told before.
func (w *watched) until(want string) string {
	w.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case told := <-w.told:
			if strings.Contains(told, want) {
				return told
			}
			w.t.Logf("on the way: %s", told)
		case <-limit:
			w.t.Fatalf("nobody told %q", want)
		}
	}
}

// next is what is told next, which must be want.
func (w *watched) next(want string) {
	w.t.Helper()
	select {
	case told := <-w.told:
		if told != want {
			w.t.Errorf("%q, want %q", told, want)
		}
	case <-time.After(patience):
		w.t.Fatalf("nobody told %q", want)
	}
}

// silent makes sure that nothing was told until now: what is forced comes after
// all that came before.
func (w *watched) silent(inForce string) {
	w.t.Helper()
	w.Reload()
	w.next(inForce)
}

// polling is a source that no event reaches in time, or all of them.
var pollings = map[string]source.Options{"told": {Poll: time.Hour}, "looking": {Poll: 50 * time.Millisecond}}

// TestChanges: a file and a folder, changed in every way that people have.
func TestChanges(t *testing.T) {
	for name, o := range pollings {
		t.Run(name, func(t *testing.T) {
			t.Run("rename", func(t *testing.T) {
				file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
				w := watch(t, file, o)
				rename(t, text("a", "2/s"), file)
				w.next("a 2/s")
				rename(t, text("a", "3/s"), file)
				w.next("a 3/s")
			})
			t.Run("in place", func(t *testing.T) {
				file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
				w := watch(t, file, o)
				put(t, text("a", "2/s"), file)
				w.until("a 2/s")
				put(t, text("a", "3/s"), file)
				w.until("a 3/s")
			})
			t.Run("gone and back", func(t *testing.T) {
				file := put(t, text("a", "1/s"), t.TempDir(), "sub", "rules.yaml")
				w := watch(t, file, o)
				must(t, os.Remove(file))
				w.until("missing: load rules: stat ")
				put(t, text("a", "2/s"), file)
				w.until("a 2/s")
				if o.Poll == time.Hour {
					return // nobody watches folders above, but by looking
				}
				must(t, os.RemoveAll(filepath.Dir(file)))
				w.until("missing")
				put(t, text("a", "3/s"), file)
				w.until("a 3/s")
				put(t, text("a", "4/s"), file)
				w.until("a 4/s")
			})
			t.Run("folder", func(t *testing.T) {
				dir := t.TempDir()
				a := put(t, text("a", "1/s"), dir, "a.yaml")
				put(t, "nonsense", dir, "notes.txt")
				w := watch(t, dir, o)
				b := put(t, text("b", "1/s"), dir, "b.yml")
				w.until("a 1/s, b 1/s")
				// "Removing one file of several removes its domain"
				must(t, os.Remove(a))
				w.until("b 1/s")
				// "none left in the folder, counts as missing"
				must(t, os.Remove(b))
				w.until("missing: load rules: no *.yaml or *.yml in ")
				put(t, text("c", "1/s"), dir, "c.yaml")
				w.until("c 1/s")
			})
			t.Run("folder renamed", func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "rules")
				put(t, text("a", "1/s"), dir, "a.yaml")
				w := watch(t, dir, o)
				put(t, text("a", "2/s"), dir+".new", "a.yaml")
				must(t, os.Rename(dir, dir+".old"), os.Rename(dir+".new", dir))
				w.until("a 2/s")
				put(t, text("a", "3/s"), dir, "a.yaml")
				w.until("a 3/s")
			})
		})
	}
}

// turn makes name a link to to, at once.
func turn(t testing.TB, to, name string) {
	t.Helper()
	must(t, os.Symlink(to, name+".new"), os.Rename(name+".new", name))
}

// TestLinks: a ConfigMap as Kubernetes mounts it, given as its folder and as its
// file; and links elsewhere, before and behind the rules.
func TestLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege here")
	}
	for name, o := range pollings {
		t.Run(name, func(t *testing.T) {
			for _, place := range []string{".", "shop.yaml"} {
				t.Run("ConfigMap "+place, func(t *testing.T) {
					mount := t.TempDir()
					version := func(n int) string { return fmt.Sprintf("..2026_11_20_%d", n) }
					put(t, text("shop", "1/s"), mount, version(1), "shop.yaml")
					must(t, os.Symlink(version(1), filepath.Join(mount, "..data")), os.Symlink("..data/shop.yaml", filepath.Join(mount, "shop.yaml")))
					w := watch(t, filepath.Join(mount, place), o)
					for n := 2; n < 5; n++ { // as kubelet does it
						put(t, text("shop", fmt.Sprintf("%d/s", n)), mount, version(n), "shop.yaml")
						must(t, os.Symlink(version(n), filepath.Join(mount, "..data_tmp")))
						must(t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")), os.RemoveAll(filepath.Join(mount, version(n-1))))
						w.next(fmt.Sprintf("shop %d/s", n))
					}
				})
			}
			t.Run("release", func(t *testing.T) { // current → 2/, given through current
				dir := t.TempDir()
				put(t, text("a", "1/s"), dir, "1", "etc", "a.yaml")
				put(t, text("a", "2/s"), dir, "2", "etc", "a.yaml")
				turn(t, "1", filepath.Join(dir, "current"))
				w := watch(t, filepath.Join(dir, "current", "etc", "a.yaml"), o)
				turn(t, filepath.Join(dir, "2"), filepath.Join(dir, "current"))
				w.until("a 2/s")
				put(t, text("a", "3/s"), dir, "2", "etc", "a.yaml")
				w.until("a 3/s")
			})
			t.Run("file behind a link", func(t *testing.T) {
				dir, other := t.TempDir(), t.TempDir()
				file := put(t, text("a", "1/s"), other, "real.yaml")
				turn(t, file, filepath.Join(dir, "a.yaml"))
				w := watch(t, dir, o)
				rename(t, text("a", "2/s"), file)
				w.until("a 2/s")
				must(t, os.Remove(file))
				w.until("missing")
			})
		})
	}
}

// TestRefused: whatever is wrong, it is told once with all findings, and what is
// good again is told again.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ bad, want string }{
		"YAML":         {"domain: [", "refused: F:2:1: error: YAML: "},
		"empty":        {"", "refused: F:1:1: error: the file is empty"},
		"half written": {"domain: a\n", "refused: F:1:1: error: there is no descriptors key, as in a file half written"},
		"half a word":  {"domain: a\ndescript", "refused: F:"},
		"unknown key":  {"domain: a\ndescriptors:\n  - kee: x\n", "\nF:3:5: error: unknown key \"kee\""},
		"duplicate":    {"domain: a\ndescriptors:\n  - key: x\n  - key: x\n", "refused: F:4:5: error: duplicate descriptor, also in line 3"},
		"bad unit":     {"domain: a\ndescriptors:\n  - {key: x, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n", "refused: F:3:"},
		"empty domain": {"domain: ''\ndescriptors: []\n", "refused: F:1:9: error: empty domain"},
		"all that is":  {"domain: a\ndescriptors:\n  - {key: x, limits: [1/x]}\n  - {key: y, limits: [1/y]}\n", "\nF:4:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
			w := watch(t, file, source.Options{})
			rename(t, c.bad, file)
			select {
			case told := <-w.told:
				if told = strings.ReplaceAll(told, file, "F"); !strings.Contains(told, c.want) {
					t.Errorf("%s\nwant %s", told, c.want)
				}
			case <-time.After(patience):
				t.Fatal("nobody told")
			}
			must(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
			rename(t, text("a", "1/s"), file) // as before, and told for the error was
			w.next("a 1/s")
			rename(t, text("a", "1/s"), file)
			w.silent("a 1/s")
		})
	}
}

// TestHalfWritten: "bad config written in place (two `write`s)": what was there
// before stays until the whole file stands.
func TestHalfWritten(t *testing.T) {
	for range 10 {
		file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
		w := watch(t, file, source.Options{})
		f, err := os.Create(file)
		must(t, err)
		whole := text("a", "2/s") + "  - key: other\n    limits: [3/s]\n"
		for _, half := range []string{whole[:5], whole[5:12], whole[12:60], whole[60:]} {
			_, err := f.WriteString(half)
			must(t, err)
			runtime.Gosched()
		}
		must(t, f.Close())
		w.next("a 2/s, a 3/s")
	}
}

// TestBetweenLoadAndWatch: what changes in between is told.
func TestBetweenLoadAndWatch(t *testing.T) {
	file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
	s, err := source.Open(file, source.Options{Poll: time.Hour})
	must(t, err)
	if set, err := s.Load(t.Context()); err != nil || brief(set, nil) != "a 1/s" {
		t.Fatal(set, err)
	}
	rename(t, text("a", "2/s"), file)
	w := &watched{s, t, make(chan string, 100)}
	w.run()
	w.next("a 2/s")
}

// TestReload: told by hand, it is told back, changed or not.
func TestReload(t *testing.T) {
	file := put(t, text("a", "1/s"), t.TempDir(), "rules.yaml")
	w := watch(t, file, source.Options{Poll: time.Hour})
	for range 3 {
		w.Reload()
		w.next("a 1/s")
	}
	must(t, os.Remove(file))
	w.until("missing")
	w.Reload()
	w.until("missing")
}

// TestManyChanges: the last one counts, however fast they come, and however many
// files and links there are.
func TestManyChanges(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for i := range 100 { // more folders than are watched
		file := put(t, text(fmt.Sprintf("d%03d", i), "1/s"), elsewhere, fmt.Sprint(i), "rules.yaml")
		must(t, os.Symlink(file, filepath.Join(dir, fmt.Sprintf("%03d.yaml", i))))
	}
	w := watch(t, dir, source.Options{Poll: 50 * time.Millisecond})
	for n := range 300 {
		put(t, text("d099", fmt.Sprintf("%d/s", n+2)), elsewhere, "99", "rules.yaml")
	}
	w.until("d098 1/s, d099 301/s")
}

// TestLoadFails: as rules.Load does, and a first file may be without descriptors.
func TestLoadFails(t *testing.T) {
	dir := t.TempDir()
	for place, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "missing",
		dir:                             "missing",
		put(t, "domain: [", t.TempDir(), "r.yaml"):     "refused",
		put(t, "domain: none", t.TempDir(), "r.yaml"):  "loaded",
		filepath.Join(put(t, "", dir, "file"), "none"): "unreadable",
	} {
		s, err := source.Open(place, source.Options{})
		must(t, err)
		set, err := s.Load(t.Context())
		if got := source.Result(err); got != want || (set == nil) != (err != nil) {
			t.Errorf("%s: %v %v", place, set, err)
		}
		if want == "missing" && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestKilledWriter: a writer that died in the middle leaves its temporary file
// and nothing else.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	put(t, text("a", "1/s"), dir, "a.yaml")
	w := watch(t, dir, source.Options{})
	put(t, "domain: b\ndescr", dir, ".b.yaml.tmp")
	put(t, "domain: b\ndescr", dir, "b.yaml~")
	w.silent("a 1/s")
	if d := cmp.Diff(0, len(w.told)); d != "" {
		t.Error(d)
	}
}
