package webui

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestDid: the page has words for each action, and says one of a newer Weir as it is.
func TestDid(t *testing.T) {
	seen := map[string]string{"": ""}
	for _, action := range rulestore.Actions() {
		words := did(action)
		if words == action || strings.Contains(words, ".") || seen[words] != "" {
			t.Errorf("%s: %q, as %q", action, words, seen[words])
		}
		seen[words] = action
	}
	if got := did("new.action"); got != "new.action" {
		t.Error(got)
	}
}
