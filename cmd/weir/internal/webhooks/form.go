package webhooks

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// maxSlack is how long a text of a message for Slack is, in bytes: its blocks have 3,000 characters at most.
const maxSlack = 2900

// write is a message as its receiver takes it.
func write(form rulestore.Form, m *rulestore.Message) ([]byte, error) {
	if form != rulestore.Slack {
		return json.Marshal(m)
	}
	text := plain(m.Text)
	type words struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji *bool  `json:"emoji,omitempty"`
	}
	type block struct {
		Type string `json:"type"`
		Text words  `json:"text"`
	}
	off := false
	return json.Marshal(struct {
		Text   string  `json:"text"` // where blocks are not shown, as in notifications
		Blocks []block `json:"blocks"`
	}{escape(text), []block{{"section", words{"plain_text", text, &off}}}})
}

// plain is a text without what is not seen, and not too long.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	if len(text) > maxSlack {
		text = strings.ToValidUTF8(text[:maxSlack], "") + "…"
	}
	return text
}

// escape is a text in which Slack finds no links, and nobody to call.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
