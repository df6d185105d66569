package rulestore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCut: a file is cut into its rules, each with its comments, and put together
// as it was.
func TestCut(t *testing.T) {
	text := strings.Join([]string{
		"# Limits of the shop.", "domain: shop", "", "descriptors:", "", "    # Any user.", "    # By name.",
		"    - key: user", "      owner: web", "      limits: [1/s]", "", "    - key: path", "      value: /a=b", "      descriptors:",
		"      - key: user", "        metadata: {note: '", "          - key: no'}", "        limits:", "        - 1/s", "    # the end", "",
	}, "\n")
	o, err := cutFile("file", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, o.file()); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, it := range o.items {
		got = append(got, it.id+" "+it.owner+" "+it.text)
	}
	want := []string{
		"user web # Any user.\n# By name.\n- key: user\n  owner: web\n  limits: [1/s]\n\n",
		"path=/a=b  - key: path\n  value: /a=b\n  descriptors:\n  - key: user\n    metadata: {note: '\n      - key: no'}\n    limits:\n    - 1/s\n# the end\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCutOthers: forms that no line begins a rule in are written anew, and what
// can't be kept by rules is refused with what to write.
func TestCutOthers(t *testing.T) {
	for text, want := range map[string]string{
		"domain: shop\ndescriptors: []\n":                         "domain: shop\ndescriptors:\n",
		"domain: shop\ndescriptors: [] # none\n# yet\n":           "domain: shop\ndescriptors: # none\n# yet\n",
		"domain: shop\r\ndescriptors:":                            "domain: shop\ndescriptors:\n",
		"domain: shop\ndescriptors: [{key: user, limits: [1/s]}]": "domain: shop\ndescriptors:\n  - {key: user, limits: [1/s]}\n",
		"domain: shop\n":                               "error: text: is refused",
		"descriptors: []\ndomain: shop\n":              "error: text: descriptors must stand last",
		"{domain: shop, descriptors: []}\n":            "error: text: descriptors must stand last",
		"domain: a\ndescriptors: []\n---\ndomain: b\n": "error: text: there is a second document",
		"domain: \"a b\"\ndescriptors: []\n":           "error: domain: \"a b\" has the character ' ' (U+0020)",
		"domain: sh\u043ep\ndescriptors: []\n":         "error: domain: \"sh\u043ep\" has the character '\u043e' (U+043E)",
		"domain: shop\ndescriptors:\n- key: a\n  limits: &x [1/s]\n- key: b\n  limits: *x\n": "error: text: rule 2 can't be kept by itself",
	} {
		o, err := cutFile("file", text)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = o.file()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
