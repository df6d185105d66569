package rulestore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The bounds of what a store keeps. It refuses anything beyond one.
const (
	MaxName   = 128      // bytes of the name of a domain, team or actor
	MaxID     = 1 << 10  // bytes of a rule's ID
	MaxText   = 64 << 10 // bytes of a rule, or of what stands before the first
	MaxFile   = 8 << 20  // bytes of a domain's file
	MaxReason = 2000     // bytes of a reason, and of a comment
	MaxRules  = 10_000   // rules of a domain
	maxParts  = 400_000  // lines, keys and list items of its file: 40 a rule
	// MaxDomains is how many domains there may be: as many as package rules
	// reads documents of.
	MaxDomains = 10_000
)

// checkName refuses what is no name of a domain, team or actor: they are of
// ASCII letters, so that no two that differ look the same.
func checkName(field, name string) error {
	if name == "" {
		return invalid(field, "is empty; write a name")
	}
	if err := checkSegment(field, name); err != nil {
		return err
	}
	if len(name) > MaxName {
		return invalid(field, "has %d bytes; a name may have %d", len(name), MaxName)
	}
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.~/:|@+-", r) {
			return invalid(field, "%q has the character %s; write letters and digits of ASCII, and any of _ . ~ / : | @ + -", clip(name), show(r))
		}
	}
	return nil
}

// checkText refuses a key or value of a rule that people would take for another:
// with characters that are not seen, that are written in two ways, or of another
// script than they look like.
func checkText(field, text string) error {
	if !utf8.ValidString(text) || strings.Contains(text, lost) {
		return invalid(field, "is not UTF-8, or was read in another encoding; write it again")
	}
	var seen *unicode.RangeTable
	for _, r := range text {
		if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) && r != ' ' {
			return invalid(field, "has the character %s, which is invisible; leave it out", show(r))
		}
		for _, script := range alike() {
			if !unicode.Is(script, r) {
				continue
			}
			if seen != nil && seen != script {
				return invalid(field, "mixes letters of several scripts, from %s on, which look alike; write them in one", show(r))
			}
			seen = script
		}
	}
	if plain := strings.TrimSpace(text); plain != text {
		return invalid(field, "%q begins or ends with a blank, which is invisible; write %q", clip(text), clip(plain))
	}
	if plain := norm.NFKC.String(text); plain != text {
		return invalid(field, "%q has characters that look like other ones, such as wide letters, ligatures, or accents by themselves; write %q", clip(text), clip(plain))
	}
	if plain := asLatin(text); plain != "" {
		return invalid(field, "%q has letters of another script that all look Latin; write %q", clip(text), clip(plain))
	}
	return nil
}

// asLatin is a text in the Latin letters that it looks like, if it has letters and
// all of them are of another script and look Latin; else empty. A word with one
// letter of its own script shows what it is.
func asLatin(text string) string {
	found := false
	var b strings.Builder
	for _, r := range text {
		like, ok := looksLatin(r)
		switch {
		case ok:
			found, r = true, like
		case unicode.IsLetter(r):
			return ""
		}
		b.WriteRune(r)
	}
	if !found {
		return ""
	}
	return b.String()
}

// looksLatin is the Latin letter that one of another script looks like in most
// typefaces, as Unicode's confusables have it (UTS #39).
func looksLatin(r rune) (like rune, ok bool) {
	for _, pair := range [][2]string{
		{"асԁеһіјӏорԛѕԝхуүѵАВСԌЕНІЈКМОРԚЅТԜХУҮѴ", "acdehijlopqswxyyvABCGEHIJKMOPQSTWXYYV"}, // Cyrillic
		{"αγικνορυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ayiknopuABEZHIKMNOPTYX"},                               // Greek
		{"ցհոօզսՍՏՕ", "ghnoquUSO"}, // Armenian
		{"ᎠᎡᎢᎪᎫᎬᎳᎷᎻᎽᏀᏃᏒᏔᏕᏙᏚᏞᏟᏢᏦᏴ", "DRTAJEWMHYGZRWSVSLCPKB"}, // Cherokee
	} {
		if at := strings.IndexRune(pair[0], r); at >= 0 {
			return rune(pair[1][utf8.RuneCountInString(pair[0][:at])]), true
		}
	}
	return 0, false
}

// alike is the scripts whose letters are taken for each other's.
func alike() []*unicode.RangeTable {
	return []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee}
}

// checkReason refuses a reason that is too long or hides something; needed is
// whether there has to be one.
func checkReason(reason string, needed bool) error {
	if needed && strings.TrimSpace(reason) == "" {
		return invalid("reason", "is empty; say why, for readers of the history")
	}
	return checkProse("reason", reason)
}

// checkProse refuses what the audit can't keep of what somebody wrote to others, or hides something.
func checkProse(field, text string) error {
	switch {
	case len(text) > MaxReason:
		return invalid(field, "has %d bytes; it may have %d", len(text), MaxReason)
	case !utf8.ValidString(text):
		return invalid(field, "is not UTF-8")
	}
	for _, r := range text {
		if r != ' ' && r != '\n' && !unicode.IsGraphic(r) {
			return invalid(field, "has the character %s, which is invisible; leave it out", show(r))
		}
	}
	return nil
}

func checkID(id string) error {
	if len(id) > MaxID {
		return invalid("rule", "its key and value have %d bytes; they may have %d", len(id), MaxID)
	}
	return checkSegment("rule", id)
}

// checkSegment refuses what can be no segment of a URL's path: browsers and
// other clients take . and .. out of it, escaped or not.
func checkSegment(field, name string) error {
	if name == "." || name == ".." {
		return invalid(field, "is %s, which no URL can name; write another name", name)
	}
	return nil
}

// show is a character as people can read and look it up.
func show(r rune) string {
	if unicode.IsGraphic(r) {
		return fmt.Sprintf("%q (%U)", r, r)
	}
	return fmt.Sprintf("%U", r)
}

// clip is text short enough to be quoted.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// lost stands for what is no character. No name has it, so that what is asked for
// by other bytes is not there.
const lost = "\uFFFD"

// printable is text that any database keeps, of at most most bytes.
func printable(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, lost), "\x00", lost)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
