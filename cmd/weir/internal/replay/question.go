package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/accesslog"
	"github.com/weir-limit/weir/rules"
)

// MaxQuestions is how many questions each line may be asked. Rules with more
// key paths, which takes many patterns among their keys, are refused.
const MaxQuestions = 1000

// question is one key path of a domain: a descriptor to be asked about each
// line that has all of its fields.
type question struct {
	domain     string
	fields     []accesslog.Field // one for each entry
	columns    []int             // where a request has their values
	descriptor rules.Descriptor
}

// questionsOf is the key paths of rules, each once, in the order of the rules.
// A rule with a key that no line has makes none.
func questionsOf(asked []*rules.Rule) ([]question, error) {
	type path struct{ domain, fields string }
	seen := map[path]bool{}
	var questions []question
	for _, r := range asked {
		paths, ok := pathsOf(r)
		if !ok {
			return nil, tooMany(r)
		}
		for _, fields := range paths {
			p := path{r.Domain, string(fields)}
			if seen[p] {
				continue
			}
			seen[p] = true
			if len(questions) == MaxQuestions {
				return nil, tooMany(r)
			}
			questions = append(questions, newQuestion(r.Domain, fields))
		}
	}
	return questions, nil
}

func tooMany(r *rules.Rule) error {
	return &accesslog.InputError{Err: fmt.Errorf("the rules make more than %d key paths; replay a single domain, or use fewer patterns as keys (rule %s)", MaxQuestions, r.Name)}
}

// pathsOf is the paths of fields that a rule's keys stand for: one, unless keys
// are patterns. It is false when there are more than MaxQuestions.
func pathsOf(r *rules.Rule) (paths [][]accesslog.Field, ok bool) {
	paths = [][]accesslog.Field{nil}
	for _, e := range r.Path {
		var longer [][]accesslog.Field
		for _, p := range paths {
			for _, f := range fieldsFor(e.Key) {
				longer = append(longer, append(slices.Clone(p), f))
			}
		}
		if len(longer) > MaxQuestions {
			return nil, false
		}
		paths = longer
	}
	return paths, true
}

// fieldsFor is the fields whose names fit a rule's key, in which a * stands for
// any text.
func fieldsFor(key string) (fields []accesslog.Field) {
	for f := range accesslog.Field(accesslog.FieldCount) {
		if fits(key, f.String()) {
			fields = append(fields, f)
		}
	}
	return fields
}

func fits(pattern, text string) bool {
	head, pattern, wild := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, head)
	for ok && wild {
		// Where a part first occurs it leaves the most for those after it.
		var part string
		if part, pattern, wild = strings.Cut(pattern, "*"); wild {
			_, text, ok = strings.Cut(text, part)
		} else {
			return strings.HasSuffix(text, part)
		}
	}
	return ok && text == ""
}

func newQuestion(domain string, fields []accesslog.Field) question {
	q := question{domain: domain, fields: fields}
	for _, f := range fields {
		q.descriptor.Entries = append(q.descriptor.Entries, rules.Entry{Key: f.String()})
	}
	return q
}

// look tells the question in which order requests have their values.
func (q *question) look(order []accesslog.Field) {
	for _, f := range q.fields {
		q.columns = append(q.columns, slices.Index(order, f))
	}
}

// fill asks the question about r. It is false when r lacks a field.
func (q *question) fill(r *request) bool {
	for i, c := range q.columns {
		v := r.values[c]
		if v == "" {
			return false
		}
		q.descriptor.Entries[i].Value = v
	}
	return true
}

// fieldsOf is the fields that questions are about, each once.
func fieldsOf(questions []question) []accesslog.Field {
	var fields []accesslog.Field
	for i := range questions {
		fields = append(fields, questions[i].fields...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}
