package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocuments: what docs/integrations.md shows stands in a file that the tests
// run.
func TestDocuments(t *testing.T) {
	page, err := os.ReadFile(recipes + ".md")
	if err != nil {
		t.Fatal(err)
	}
	var tried strings.Builder
	for _, pattern := range []string{filepath.Join(recipes, "*"), "node/clients.js"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tried.Write(b)
		}
	}
	blocks := regexp.MustCompile("(?ms)^```\\w+\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		if !strings.Contains(tried.String(), strings.TrimSuffix(block[1], "\n")) {
			t.Errorf("no file that is tried has\n%s", block[1])
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks", len(blocks))
	}
}
