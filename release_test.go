package weir_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestReleaseSaysWhatItDoes: a release requires and tags each module at its version, and a
// dry one changes nothing.
func TestReleaseSaysWhatItDoes(t *testing.T) {
	before := goMods(t)
	out, err := exec.CommandContext(t.Context(), "tools/release", "-n", "v0.99.0-test").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := strings.Split(string(out), "\n")
	for dir, m := range before {
		tag := "v0.99.0-test"
		if dir != "." {
			tag = dir + "/" + tag
		}
		want := []string{"git tag -a -m " + tag + " " + tag}
		for required := range m.requires {
			if _, ours := siblingOf(required); ours {
				want = append(want, "go mod edit -require="+required+"@v0.99.0-test ./"+strings.TrimPrefix(dir+"/go.mod", "./"))
			}
		}
		for _, line := range want {
			if !slices.Contains(said, line) {
				t.Errorf("it does not say %q:\n%s", line, out)
			}
		}
	}
	for dir, m := range goMods(t) {
		if m.text != before[dir].text {
			t.Errorf("%s/go.mod has changed", dir)
		}
	}
}

// TestReleaseRefuses what is no version of modules whose paths have none.
func TestReleaseRefuses(t *testing.T) {
	before, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"1.2.3"}, {"v2.0.0"}, {"v1.2"}, {"v01.2.3"}, {"v1.2.3", "v1.2.4"}, {"--help"}} {
		if out, err := exec.CommandContext(t.Context(), "tools/release", append([]string{"-n"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("%q is released:\n%s", args, out)
		}
	}
	if after, err := os.ReadFile("go.work"); err != nil || string(after) != string(before) {
		t.Error("go.work has changed", err)
	}
}
