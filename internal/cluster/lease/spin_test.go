package lease_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var spec = flag.Bool("spec", false, "have Spin find all mutants of spec/leases.pml, not two alone")

// TestSpin has Spin look at every state of spec/leases.pml, and find its mutants. The comment of
// the model says which invariants it has.
func TestSpin(t *testing.T) {
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the model of leases is not checked: %v; tools/debian-packages installs it", err)
		}
	}
	model, err := filepath.Abs("../../../spec/leases.pml")
	if err != nil {
		t.Fatal(err)
	}
	errors, states := spin(t, model)
	if t.Logf("nothing wrong: %s states", states); errors != "0" {
		t.Errorf("%s errors: more passes than the limit lets pass", errors)
	}
	mutants := []string{"LONG_LIFE", "NO_MARGIN", "NO_OUTSTANDING", "CREDIT", "ANY_ANSWER", "ADDS"}
	if !*spec {
		mutants = mutants[:2] // to compile one takes seconds
	}
	for _, mutant := range mutants {
		errors, states := spin(t, model, "-D"+mutant)
		if t.Logf("%s: found after %s states", mutant, states); errors != "1" {
			t.Errorf("%s is not found: %s errors", mutant, errors)
		}
	}
}

// spin is how many errors a model has, at most one, and how many states were looked at.
func spin(t *testing.T, model string, defines ...string) (errors, states string) {
	t.Helper()
	var out []byte
	dir := t.TempDir()
	for _, command := range [][]string{
		append(append([]string{"spin", "-a"}, defines...), model),
		{"gcc", "-O0", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=1000", "-o", "pan", "pan.c"},
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
