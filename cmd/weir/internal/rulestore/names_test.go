package rulestore

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// TestLookAlikes: what people would take for another name is refused, wherever in a
// rule it stands, with what to write in its place; names of any script that show
// what they are pass.
func TestLookAlikes(t *testing.T) {
	for text, says := range map[string]string{
		"user ": `write "user"`, " user": `write "user"`, "ｕser": `write "user"`, "ﬁle": `write "file"`, "cafe\u0301": `write "café"`,
		"сору": `write "copy"`, "сору-1": `write "copy-1"`, "Αβ": "", "ΑΒ": `write "AB"`, "usеr": "mixes letters", "us\u200ber": "is invisible",
		"user": "", "café": "", "Россия": "", "товар": "", "東京": "", "ユーザー": "", "a b": "", "1/2": "", "": "",
	} {
		for _, rule := range []string{
			"- key: \"" + text + "\"\n  limits: [1/s]\n",
			"- key: a\n  value: \"" + text + "\"\n  limits: [1/s]\n",
			"- key: a\n  descriptors: [{key: b, descriptors: [{key: \"" + text + "\", limits: [1/s]}]}]\n",
			"- key: a\n  descriptors: [{key: b, value: \"" + text + "\", limits: [1/s]}]\n",
			"- key: a\n  rate_limit: {name: \"" + text + "\", unit: second, requests_per_unit: 1}\n",
			"- key: a\n  rate_limit: {name: b, unit: second, requests_per_unit: 1, replaces: [{name: \"" + text + "\"}]}\n",
		} {
			it, err := readItem("shop", rule)
			if err == nil {
				err = it.checkNames(nil)
			}
			if text == "" && err != nil { // a key is not empty
				continue
			}
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%q in %q: %v, want %q", text, rule, err, says)
			}
		}
	}
}

// TestOneSpelling: of the ways to write a text, one at most passes.
func TestOneSpelling(t *testing.T) {
	forms := []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aéüﬁｕ①Åе\u0301ñкﷺ "))).Draw(t, "text")
		passes := map[string]bool{}
		for _, f := range append(forms, forms[0]) {
			if way := f.String(text); checkText("rule", way) == nil {
				passes[way] = true
			}
		}
		if len(passes) > 1 {
			t.Error(passes)
		}
	})
}

// TestCheckSize: what has too many rules is refused before it is made to rules.
func TestCheckSize(t *testing.T) {
	many := func(n int, item string) string { return "domain: d\ndescriptors:\n" + strings.Repeat(item, n) }
	for name, c := range map[string]struct{ text, says string }{
		"as many as may be":  {many(MaxRules, "- {key: a, limits: [1/s]}\n"), ""},
		"one more":           {many(MaxRules+1, "- {key: a, limits: [1/s]}\n"), "there are 10001 rules; a domain may have 10000"},
		"one more, in a row": {"domain: d\ndescriptors: [" + strings.Repeat("{key: a}, ", MaxRules+1) + "]", "there are 10001 rules"},
		"very many":          {many(230_000, "- {key: a, limits: [1/s]}\n"), "and 10000 rules: begin another domain"},
		"no file":            {"[", ""},
		"nothing":            {"# nothing", ""},
	} {
		err := CheckSize(c.text)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScheme: a database that is none of ours is not taken for a folder.
func TestScheme(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, place := range []string{"sqlite:///var/lib/weir", "mysql://root@localhost/weir", "http://weir.example"} {
		s, err := Open(t.Context(), place)
		if err == nil {
			_ = s.Close()
		}
		if !IsKind(err, Invalid) || !strings.Contains(err.Error(), "DIR") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%s: %v", place, err)
		}
	}
	if made, err := os.ReadDir("."); len(made) > 0 || err != nil {
		t.Error(made, err)
	}
}

// TestPrivate: what lies in the folder of a database is for this user alone.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	s := shop(t, dir)
	if err := s.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if is, err := f.Info(); err != nil || is.Mode().Perm()&0o077 != 0 {
			t.Error(f.Name(), is.Mode(), err)
		}
	}
}
