package rules_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(rules.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	const name = "rules.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seen is a YAML document as an editor shows it to a schema: tags and quotes are
// gone. It gives false for what no editor can show to one: several documents,
// keys twice.
func seen(text []byte) (value any, ok bool) {
	var doc, more yaml.Node
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	if in.Decode(&doc) != nil || len(doc.Content) != 1 || in.Decode(&more) == nil {
		return nil, false
	}
	nodes := 0
	return valueOf(doc.Content[0], &nodes)
}

func valueOf(n *yaml.Node, nodes *int) (any, bool) {
	if *nodes++; *nodes > 100_000 {
		return nil, false // aliases of aliases
	}
	switch n.Kind {
	case yaml.AliasNode:
		return valueOf(n.Alias, nodes)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, ok := valueOf(item, nodes)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	case yaml.MappingNode:
		return membersOf(n, nodes)
	default:
		return scalarOf(n), true
	}
}

func membersOf(n *yaml.Node, nodes *int) (any, bool) {
	own, merged := map[string]any{}, map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, ok := valueOf(n.Content[i+1], nodes)
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if _, twice := own[key.Value]; !ok || twice || key.Kind != yaml.ScalarNode {
			return nil, false
		}
		if key.ShortTag() != "!!merge" {
			own[key.Value] = v
			continue
		}
		from, list := v.([]any)
		if !list {
			from = []any{v}
		}
		for _, it := range slices.Backward(from) {
			members, ok := it.(map[string]any)
			if !ok {
				return nil, false
			}
			maps.Copy(merged, members)
		}
	}
	maps.Copy(merged, own)
	return merged, true
}

func scalarOf(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		if yes, err := strconv.ParseBool(strings.ToLower(n.Value)); err == nil {
			return yes
		}
	case "!!int":
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64); err == nil {
			return json.Number(strconv.FormatInt(i, 10))
		}
	case "!!float":
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil && json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

// files is all rule files that lie about in this repository, good and bad, whole
// or in other files.
func files(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{"demo": rules.DemoText}
	inside := regexp.MustCompile(`(?m)^-- (\S+\.ya?ml) --\n((?:[^-]|-[^-]|--[^ ])*)`)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		switch ext := filepath.Ext(name); {
		case ext == ".yaml" || ext == ".yml":
			found[name] = string(text)
		case ext == ".txtar":
			for _, m := range inside.FindAllStringSubmatch(string(text), -1) {
				found[name+":"+m[1]] = m[2]
			}
		case ext == ".txt" && strings.Contains(string(text), "-- findings --"):
			found[name], _, _ = strings.Cut(string(text), "-- findings --")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// refused says why a text is refused by Parse and by the schema. It ends the
// test when only the schema does.
func refused(t rapid.TB, s *jsonschema.Schema, text string) (byParse, bySchema error) {
	t.Helper()
	_, byParse = rules.Parse("rules.yaml", []byte(text))
	value, ok := seen([]byte(text))
	if !ok {
		return byParse, byParse
	}
	if bySchema = s.Validate(value); bySchema != nil && byParse == nil {
		t.Fatalf("the schema refuses what Parse takes: %v\n%s", bySchema, text)
	}
	return byParse, bySchema
}

// TestSchemaTakesFiles: what Parse takes, the schema takes.
func TestSchemaTakesFiles(t *testing.T) {
	s := schema(t)
	taken := 0
	for name, text := range files(t) {
		t.Run(name, func(t *testing.T) {
			if byParse, _ := refused(t, s, text); byParse == nil {
				taken++
			}
		})
	}
	if taken < 10 {
		t.Errorf("only %d files are taken; are they still found?", taken)
	}
}

// TestSchemaRefuses: what people get wrong, an editor shows.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	for _, text := range []string{
		"descriptors: []", "domain:", "domain: ''", "domain: [a]", "[]", "domain: a\ndescriptor: []", "domain: a\ndescriptors: {key: a}",
		"domain: a\ndescriptors: [a]", "domain: a\ndescriptors: [{value: a}]", "domain: a\ndescriptors: [{key: ''}]",
	} {
		if byParse, bySchema := refused(t, s, text); byParse == nil || bySchema == nil {
			t.Errorf("%s\nParse: %v\nschema: %v", text, byParse, bySchema)
		}
	}
	for _, part := range []string{
		"limit: [1/s]", "Limits: [1/s]", "limits: 1/s", "limits: []", "limits:", "limits: [10]", "limits: ['']", "limits: [~]", "limits: [10/fortnight]",
		"limits: [10 per second]", "limits: [10/s brust 3]", "limits: [10/s burst]", "limits: [10/s concurrent]", "limits: [10 concurrent burst 5]",
		"limits: [1/s, 1/s]", "limits: [{name: a}]", "limits: [{name: a, limit: 1/s, burst: 5}]", "limits: [10/s warm-up 5]", "limits: [-1/s]", "limits: [1.5/s]",
		"limits: [1/s,2/s,3/s,4/s,5/s,6/s,7/s,8/s,9/s,10/s,11/s,12/s,13/s,14/s,15/s,16/s,17/s]",
		"limits: [1/s], rate_limit: {unit: day, requests_per_unit: 1}", "rate_limit: 10/s", "rate_limit: {requests_per_unit: 1}",
		"rate_limit: {unit: fortnight, requests_per_unit: 1}", "rate_limit: {unit: day, requests_per_unit: -1}", "rate_limit: {unit: day, requests_per_unit: many}",
		"rate_limit: {unit: day, requests_per_unit: 4294967296}", "rate_limit: {unit: day, unlimited: true}", "rate_limit: {unit: day, unlimited: perhaps}",
		"rate_limit: {unit: day, limit: 5}", "rate_limit: {unit: day, replaces: a}", "rate_limit: {unit: day, replaces: [a]}", "rate_limit: {unit: day, replaces: [{}]}",
		"limits: [1/s], shadow_mode: maybe", "limits: [1/s], fallback: opened", "limits: [1/s], charge: during", "limits: [1 concurrent], charge: after",
		"limits: [1/s, {limit: 1/s leaky-queue}], charge: after", "limits: [1/s], share_threshold: true", "value: a*, match: exact, limits: [1/s], share_threshold: true", "value: a*, match: regex", "limits: [1/s], sync: 5", "limits: [1/s], lease: 5", "limits: [1/s], sync: 5 minutes",
		"limits: [1/s], sharing: gossips", "limits: [1/s], partition: fair", "limits: [1/s], nodes: 0", "limits: [1/s], nodes: 1.5", "limits: [1/s], metadata: [1]",
		"value: [a]", "value: {a: b}", "descriptors: {}", "descriptors: [{kee: a}]", "owner: [me]", "limits: [1/s], name: {}",
	} {
		text := "domain: a\ndescriptors:\n- {key: a, " + part + "}\n"
		if byParse, bySchema := refused(t, s, text); byParse == nil || bySchema == nil {
			t.Errorf("%s\nParse: %v\nschema: %v", part, byParse, bySchema)
		}
	}
}

// TestSchemaTellsAll: an editor has words for each key, and no key is left out
// of the schema: what Parse knows and a mistyped key would be told of.
func TestSchemaTellsAll(t *testing.T) {
	var s struct {
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal([]byte(rules.Schema()), &s); err != nil {
		t.Fatal(err)
	}
	for name, d := range s.Definitions {
		for key, p := range d.Properties {
			if !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s.%s has no description", name, key)
			}
		}
	}
	if n := len(s.Definitions["descriptor"].Properties); n != 23 {
		t.Errorf("a descriptor has %d keys", n)
	}
}

// TestSchemaTellsWords: an editor has words for all that a limit may say, as ParseLimit reads it; and nothing else.
func TestSchemaTellsWords(t *testing.T) {
	var s struct {
		Definitions map[string]struct {
			Pattern string
			AnyOf   []struct {
				Const, Pattern, Description string
				Examples                    []string
			}
		}
	}
	if err := json.Unmarshal([]byte(rules.Schema()), &s); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{
		"sec": true, "secs": true, "second": true, "seconds": true, "mins": true, "minute": true, "minutes": true, "hour": true, "hours": true,
		"days": true, "weeks": true, "months": true, "years": true,
	} // other spellings
	for part, limits := range map[string][]string{
		"limit_unit":      {"10/%s", "10/%s fixed-window"},
		"limit_algorithm": {"10/min %s"},
		"limit_word":      {"10/min %s", "10/min burst 5 %s", "10/min sliding-window %s", "10/min leaky-queue %s", "10/h fixed-window %s", "10/day fixed-window %s", "10/min warm-up 10s %s"},
		"limit_permits":   {"10 %s", "10 concurrent %s"},
	} {
		for _, word := range s.Definitions[part].AnyOf {
			texts := word.Examples
			if word.Const != "" {
				texts = []string{word.Const}
			}
			if !strings.HasSuffix(word.Description, ".") || len(texts) == 0 {
				t.Errorf("%s: %v has no description, or no example", part, word)
			}
			for _, text := range texts {
				name, _, _ := strings.Cut(text, " ")
				told[name] = true
				if word.Pattern != "" && !regexp.MustCompile(word.Pattern).MatchString(text) {
					t.Errorf("%s: %s is not as %s", part, text, word.Pattern)
				}
				if !slices.ContainsFunc(limits, func(limit string) bool {
					_, err := weir.ParseLimit(strings.Replace(limit, "%s", text, 1))
					return err == nil
				}) {
					t.Errorf("%s: no limit has %s", part, text)
				}
			}
		}
	}
	for _, word := range regexp.MustCompile(`[a-z][a-z-]+|\b[sh]\b`).FindAllString(s.Definitions["limit"].Pattern, -1) {
		if !told[word] {
			t.Errorf("a limit may say %s, and an editor has no words for it", word)
		}
	}
}

// TestSchemaRefusesNothingElse changes good files at random: what the schema
// refuses then, Parse does, too.
func TestSchemaRefusesNothingElse(t *testing.T) {
	s := schema(t)
	var good []string
	for _, text := range files(t) {
		if _, err := rules.Parse("f", []byte(text)); err == nil && len(text) < 8<<10 {
			good = append(good, text)
		}
	}
	slices.Sort(good)
	if byParse, _ := refused(t, s, everyKey); byParse != nil {
		t.Fatal(byParse)
	}
	for range good { // every other time
		good = append(good, everyKey)
	}
	rapid.Check(t, func(t *rapid.T) {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(rapid.SampledFrom(good).Draw(t, "file")), &doc); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			change(t, &doc)
		}
		text, err := yaml.Marshal(&doc)
		if err != nil {
			t.Skip(err)
		}
		_, _ = refused(t, s, string(text))
	})
}

const everyKey = `
domain: a
descriptors:
  - {key: a*, value: "b*", limits: [1/s, {name: n, limit: 5/min sliding-window 6}], name: n, owner: o, shadow_mode: yes, fallback: open,
     charge: after, quota_mode: off, detailed_metric: true, value_to_metric: true, share_threshold: on, metadata: {a: [1, ~, 1.5]},
     sync: 5ms, sharing: lease, partition: open, nodes: 0x10, descriptors: [{key: b, limits: [5 concurrent ttl 5s]}]}
  - {key: c, rate_limit: {unit: DAY, requests_per_unit: 1_000, name: x, replaces: [{name: y}]}, descriptors: ~}
  - {key: f, limits: [1/s], lease: 5ms}
  - {key: "g*", value: "g*", match: exact, limits: [1/s]}
  - {key: d, rate_limit: {unlimited: True, unit: never, name: y}, domain: 5, unit: day}
`

// change does one thing to a document.
func change(t *rapid.T, doc *yaml.Node) {
	var all []*yaml.Node
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		all = append(all, n)
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(doc.Content[0])
	n := rapid.SampledFrom(all).Draw(t, "node")
	scalar := func() *yaml.Node {
		word := rapid.SampledFrom(words).Draw(t, "word")
		if word == "<<" {
			return &yaml.Node{Kind: yaml.ScalarNode, Value: word, Tag: "!!str"}
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: word}
	}
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0: // other words
		if n.Kind == yaml.ScalarNode {
			*n = *scalar()
		}
	case 1: // another part of the file
		*n = *copied(rapid.SampledFrom(all).Draw(t, "other"))
	case 2: // less
		size := 1
		if n.Kind == yaml.MappingNode {
			size = 2
		}
		if len(n.Content) > 0 {
			at := size * rapid.IntRange(0, len(n.Content)/size-1).Draw(t, "at")
			n.Content = slices.Concat(n.Content[:at], n.Content[at+size:])
		}
	case 3: // more
		switch n.Kind {
		case yaml.SequenceNode:
			n.Content = append(slices.Clip(n.Content), scalar())
		case yaml.MappingNode:
			n.Content = append(slices.Clip(n.Content), scalar(), scalar())
		default:
		}
	}
}

func copied(n *yaml.Node) *yaml.Node {
	other := *n
	other.Anchor, other.Content = "", nil // an anchor stands only once
	for _, c := range n.Content {
		other.Content = append(other.Content, copied(c))
	}
	return &other
}

var words = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "limits", "limit", "name", "owner", "shadow_mode", "fallback", "charge", "sync", "lease", "sharing",
	"partition", "nodes", "quota", "80%", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "replaces",
	"", "~", "null", "true", "Yes", "off", "y", "0", "1", "-1", "+7", "0x1F", "0o17", "1_000", "1e3", "1.5", ".inf", "4294967295", "4294967296", "2026-11-20",
	"local", "open", "closed", "before", "after", "lease", "share", "match", "exact", "pattern", "500ms", "24h", "25h", "1 s", "*", "a*b", "a",
	"second", "MINUTE", "Hour", "day", "weeks", "ſecond", "mınute", "weeK", "month", "year",
	"10/s", " 10/s ", "0/min", "10/5min burst 3", "10/s  burst  5 initial 2", "10/seconds", "5/day fixed-window zone Europe/Berlin", "5/month fixed-window",
	"5/24h fixed-window anchored count-denied", "10/s warm-up 5minutes cold 4", "10/s leaky-queue queue 0", "10 concurrent ttl 5mins", "10 concurrent",
	"10/min sliding-window 6 strict", "10/min strict sliding-window", "10/h sliding-log", "10/s token-bucket debt 5", "10/us gcra", "10/s anchored",
}

// FuzzSchema: what the schema refuses, Parse refuses.
func FuzzSchema(f *testing.F) {
	for _, text := range files(f) {
		f.Add([]byte(text))
	}
	f.Add([]byte(everyKey))
	s := schema(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := rules.Parse("f", text); err == nil && len(text) < 1<<16 {
			_, _ = refused(t, s, string(text))
		}
	})
}
