package lease_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var spec = flag.Bool("spec", false, "have Spin find all mutants of the models of spec, not two of each alone")

// TestSpin has Spin look at every state of the models of spec, and find their mutants. The comment of
// each model says which invariants it has.
func TestSpin(t *testing.T) {
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the models of leases and shares are not checked: %v; tools/debian-packages installs it", err)
		}
	}
	for _, of := range []struct {
		model   string
		defines []string // of the model that is right
		short   []string // beside them without -spec, where that would take long
		mutants []string // without -spec, those before quick alone: to compile one takes seconds
		quick   int
	}{
		{"leases.pml", nil, nil, []string{"LONG_LIFE", "NO_MARGIN", "NO_OUTSTANDING", "CREDIT", "ANY_ANSWER", "ADDS"}, 2},
		{"shares.pml", nil, nil, []string{"LONG_SILENCE", "NO_SETTLE", "EARLY", "NO_MARGIN", "STARTS"}, 1},
		{"shares.pml", []string{"-DBUCKET"}, []string{"-DRUNS=0"}, []string{"TURN", "FULL", "NO_CHARGE", "KEPT"}, 1},
		{"shares.pml", []string{"-DBUCKET", "-DOWN"}, []string{"-DRUNS=0"}, []string{"TURN"}, 0},
	} {
		t.Run(strings.Join(append([]string{of.model}, of.defines...), ""), func(t *testing.T) {
			model, err := filepath.Abs(filepath.Join("../../../spec", of.model))
			if err != nil {
				t.Fatal(err)
			}
			right, mutants := slices.Clone(of.defines), of.mutants
			if !*spec {
				right, mutants = append(right, of.short...), mutants[:of.quick]
			}
			errors, states := spin(t, model, right...)
			if t.Logf("nothing wrong: %s states", states); errors != "0" {
				t.Errorf("%s errors: more passes than the limit lets pass, or two use a share", errors)
			}
			for _, mutant := range mutants {
				errors, states := spin(t, model, append(slices.Clone(of.defines), "-D"+mutant)...)
				if t.Logf("%s: found after %s states", mutant, states); errors != "1" {
					t.Errorf("%s is not found: %s errors", mutant, errors)
				}
			}
		})
	}
}

// spin is how many errors a model has, at most one, and how many states were looked at.
func spin(t *testing.T, model string, defines ...string) (errors, states string) {
	t.Helper()
	var out []byte
	dir := t.TempDir()
	for _, command := range [][]string{
		append(append([]string{"spin", "-a"}, defines...), model),
		{"gcc", "-O1", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=1000", "-o", "pan", "pan.c"},
		{"./pan", "-m1000000"},
	} {
		run := exec.CommandContext(t.Context(), command[0], command[1:]...)
		run.Dir = dir
		var err error
		if out, err = run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	found := regexp.MustCompile(`errors: (\d+)\s+(\d+) states, stored`).FindSubmatch(out)
	if found == nil || regexp.MustCompile(`search not completed|depth too small|memory limit`).Match(out) && string(found[1]) == "0" {
		t.Fatalf("not all was looked at:\n%s", out)
	}
	return string(found[1]), string(found[2])
}
