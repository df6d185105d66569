package main

import (
	"strconv"
	"strings"
)

// broken is the text of a rule file that was changed at one to three places, so
// that it may be a good one or not.
func (g *generator) broken(f *ruleFile) string {
	lines := strings.Split(strings.TrimSuffix(f.yaml(), "\n"), "\n")
	for range 1 + g.IntN(3) {
		i := 1 + g.IntN(len(lines)) // the first line has the domain
		if i == len(lines) {
			i = 0
			if !g.chance(4) {
				i = len(lines) - 1
			}
		}
		lines = g.damage(lines, i)
		if len(lines) == 0 {
			return ""
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	if g.chance(20) {
		text = pick(g,
			strings.ReplaceAll(text, "\n", "\r\n"), "\uFEFF"+text, "---\n"+text, text+"---\ndomain: other\n", text+"...\n",
			"# comment\n\n"+text, strings.ReplaceAll(text, "  ", "\t"), text+"--- [\n", "%YAML 1.1\n---\n"+text)
	}
	return text
}

// damage changes line i.
func (g *generator) damage(lines []string, i int) []string {
	line := lines[i]
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	dash := ""
	if strings.HasPrefix(line[len(indent):], "- ") {
		dash = "- "
	}
	key, value, _ := strings.Cut(strings.TrimPrefix(line[len(indent):], dash), ":")
	value = strings.TrimSpace(value)
	put := func(key, value string) { lines[i] = indent + dash + key + ": " + value }
	switch g.IntN(9) {
	case 0:
		return append(lines[:i:i], lines[i+1:]...)
	case 1:
		return append(lines[:i+1:i+1], lines[i:]...)
	case 2:
		lines[i] = pick(g, " ", "  ", "    ") + line
	case 3:
		lines[i] = strings.TrimPrefix(line, "  ")
	case 4:
		put(g.name(), value)
	case 5:
		extra := indent + strings.Repeat(" ", len(dash)) + g.name() + ": " + g.scalar()
		return append(append(lines[:i+1:i+1], extra), lines[i+1:]...)
	default:
		if value == "" && !g.chance(4) {
			value = g.scalar()
		}
		put(key, pick(g, g.scalar(), g.scalar(), "&x "+value, "!!str "+value, "'"+value+"'", value+" # said"))
	}
	return lines
}

// name is a key that a rule file may have, somewhere, or not.
func (g *generator) name() string {
	return pick(g,
		"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "name",
		"replaces", "detailed_metric", "value_to_metric", "share_threshold", "quota_mode", "Key", "KEY", "values", "ratelimit", "<<",
		"'key'", "\"unit\"", "? key", "1", "true", "null", "rate-limit", "requests_per_units")
}

// scalar is a value that some key may have, in one of the ways of YAML.
func (g *generator) scalar() string {
	number := strconv.Itoa(g.IntN(12))
	return pick(g,
		number, number, "0x1F", "010", "0o17", "0b101", "1_000", "1e3", "10.0", "2.5", "-1", "+5", "4294967295", "4294967296", "1:30", "'10'", `"10"`, ".inf",
		"99999999999999999999", "true", "false", "yes", "no", "on", "off", "y", "n", "True", "TRUE", "'true'", "~", "null", "", "''", `""`, "[]", "{}",
		"[{}]", "[1]", "[{key: user}]", "{key: user}", "[{name: n1}]", "{name: n1}", "minute", "MINUTE", "Minute", "minutes", "fortnight", "unknown", "second", "user", "a*",
		"2001-01-01", "!!binary dXNlcg==", "!!int '5'", "!!bool yes", "!!float 3", "!!null x", "*x", "&y 5", "|", ">", "@", "%", "- x", "a: b", "{unit: hour, requests_per_unit: 3}",
		"{unlimited: true}", "[{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]")
}
