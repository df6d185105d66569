package rules

import _ "embed" // for the schema

//go:embed schema.json
var schema string

// Schema is the JSON Schema (draft-07) of a rule file, for editors. It takes
// all files that Parse takes, and some more: what YAML alone shows, such as
// quotes and tags, and what takes reckoning or a second look, such as a limit
// that is out of range and a name that stands there twice, only Parse finds.
func Schema() string { return schema }
