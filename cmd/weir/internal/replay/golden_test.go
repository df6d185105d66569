package replay

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestExamples(t *testing.T) {
	for _, json := range []bool{true, false} {
		var got bytes.Buffer
		o := Options{Rules: "../../../../examples/rules.yaml", Log: "../../../../examples/access.log", JSON: json}
		if err := Run(t.Context(), o, &got); err != nil {
			t.Fatal(err)
		}
		if json {
			golden(t, "examples.golden", got.String())
		} else {
			golden(t, "examples.txt", got.String())
		}
	}
}

// TestApache replays a log that is too large, and not ours, to lie here: 10,000
// requests to a real site, of elastic/examples (Apache-2.0). It is looked for
// beside the module. As it has addresses of people, only numbers are kept.
func TestApache(t *testing.T) {
	const name = "../../../../../shared/data/apache-access.log"
	log, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: it is no part of the project; take elastic/examples, Common Data Formats/apache_logs", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	set, err := rules.Load("testdata/apache.yaml")
	if err != nil {
		t.Fatal(err)
	}
	report, err := Log(t.Context(), Question{Rules: set}, accesslog.NewReader(log, accesslog.Auto, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Rules {
		for i := range r.TopDenied {
			r.TopDenied[i].Key = "not kept"
		}
	}
	var got bytes.Buffer
	if err := report.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	golden(t, "apache.golden", got.String())
}

// golden compares got with a file of testdata, or with -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
