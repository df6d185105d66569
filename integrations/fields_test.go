package integrations

import (
	"os"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
)

// TestFieldsAreStructured: another reader of structured fields (RFC 9651) reads
// those of httplimit, and they hold what draft-ietf-httpapi-ratelimit-headers-10
// wants.
func TestFieldsAreStructured(t *testing.T) {
	text, err := os.ReadFile("../httplimit/testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	for story := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, fields, _ := strings.Cut(story, "\n")
		kind, _, _ := strings.Cut(title, ",")
		for line := range strings.Lines(fields) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case name == "Ratelimit" && strings.HasPrefix(kind, "Draft10"):
				named(t, title, value, "r", "t")
			case name == "Ratelimit-Policy" && strings.HasPrefix(kind, "Draft10"):
				named(t, title, value, "q", "w", "qu")
			case name == "Ratelimit-Policy":
				quotas(t, title, value)
			case name == "Ratelimit":
				dictionary(t, title, value)
			case name == "X-Ratelimit-Limit" && kind == "Envoy03":
				quotas(t, title, value)
			default:
				item, err := httpsfv.UnmarshalItem([]string{value})
				if _, ok := item.Value.(int64); err != nil || !ok {
					t.Errorf("%s: %s: %s: %v", title, name, value, err)
				}
			}
			read[kind+" "+name]++
		}
	}
	if len(read) < 20 || read["Draft10 Ratelimit"] < 10 {
		t.Errorf("only these fields were read: %v", read)
	}
}

func list(t *testing.T, title, value string) []httpsfv.Item {
	t.Helper()
	members, err := httpsfv.UnmarshalList([]string{value})
	if err != nil || len(members) == 0 {
		t.Fatalf("%s: %s: %v", title, value, err)
	}
	var items []httpsfv.Item
	for _, m := range members {
		item, ok := m.(httpsfv.Item)
		if !ok {
			t.Fatalf("%s: %s has a list in it", title, value)
		}
		items = append(items, item)
	}
	return items
}

// named reads a List of Strings, the first of whose parameters must be there.
func named(t *testing.T, title, value string, parameters ...string) {
	t.Helper()
	for _, item := range list(t, title, value) {
		if _, ok := item.Value.(string); !ok {
			t.Errorf("%s: %v in %s is no String", title, item.Value, value)
		}
		if first, ok := item.Params.Get(parameters[0]); !ok || first.(int64) < 0 {
			t.Errorf("%s: %s lacks %s", title, value, parameters[0])
		}
		for _, name := range item.Params.Names() {
			v, _ := item.Params.Get(name)
			switch v := v.(type) {
			case int64:
				if v < 0 || name == "w" && v == 0 {
					t.Errorf("%s: %s: %s is %d", title, value, name, v)
				}
			case string:
				if name != "qu" {
					t.Errorf("%s: %s: %s is a String", title, value, name)
				}
			default:
				t.Errorf("%s: %s: %s is a %T", title, value, name, v)
			}
		}
	}
}

// quotas reads a List of Integers with windows, as drafts 3 to 7 have it.
func quotas(t *testing.T, title, value string) {
	t.Helper()
	for _, item := range list(t, title, value) {
		if n, ok := item.Value.(int64); !ok || n < 0 {
			t.Errorf("%s: %v in %s is no count", title, item.Value, value)
		}
	}
}

func dictionary(t *testing.T, title, value string) {
	t.Helper()
	d, err := httpsfv.UnmarshalDictionary([]string{value})
	if err != nil {
		t.Fatalf("%s: %s: %v", title, value, err)
	}
	for _, name := range []string{"limit", "remaining", "reset"} {
		if v, ok := d.Get(name); !ok || v.(httpsfv.Item).Value.(int64) < 0 {
			t.Errorf("%s: %s lacks %s", title, value, name)
		}
	}
}
