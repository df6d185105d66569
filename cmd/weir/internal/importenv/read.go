package importenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// Environment is what was read.
type Environment struct {
	Variables map[string]string
	// Unset are variables that others stand for and that have no value here, nor a default: they are empty.
	Unset []string
}

// Read reads an env file or a compose file.
//
// An env file has lines of NAME=VALUE, perhaps after export and with quotes around the value; empty lines and those that
// begin with # say nothing. Lines of a compose list, - NAME=VALUE, may stand there, too. From a compose file it takes the environment
// of one service, with what its env_file has; service names it, or is empty where one service alone runs ratelimit. ${X}
// and ${X:-Y} are resolved in environ.
//
// It fails with an *InputError that begins with name and the line.
func Read(name string, from io.Reader, environ func(string) (string, bool), service string) (*Environment, error) {
	text, err := readAll(name, from)
	if err != nil {
		return nil, err
	}
	r := &resolver{environ: environ, unset: map[string]bool{}}
	env := &Environment{}
	if isCompose(text) || service != "" {
		env.Variables, err = r.compose(name, text, service)
	} else {
		env.Variables, err = r.lines(name, text)
	}
	env.Unset = slices.Sorted(maps.Keys(r.unset))
	return env, err
}

// lines reads lines of NAME=VALUE.
func (r *resolver) lines(name string, text []byte) (map[string]string, error) {
	env := map[string]string{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		item, listed := strings.CutPrefix(line, "- ")
		if listed { // the whole item may be quoted
			line = unquote(strings.TrimSpace(item))
		}
		variable, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		variable = strings.TrimSpace(variable)
		if !ok || variable == "" || strings.ContainsAny(variable, " \t:") {
			return nil, &InputError{fmt.Sprintf("%s:%d: this is not NAME=VALUE", name, n)}
		}
		value = strings.TrimSpace(value)
		literal := strings.HasPrefix(value, "'")
		value = unquote(value)
		if !literal {
			var err error
			if value, err = r.resolve(value, listed); err != nil {
				return nil, &InputError{fmt.Sprintf("%s:%d: %s: %v", name, n, variable, err)}
			}
		}
		env[variable] = value
	}
	return env, nil
}

func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// maxPassedOver bounds the files that PassedOver looks at.
const maxPassedOver = 10_000

// PassedOver is what ratelimit reads as rules, and weir serve does not: files of
// other names in the folder, those in folders inside, and, when it watches the
// root, those beside the folder whose names begin with its name and a dot. There
// are none if the folder can't be read.
func (p *Plan) PassedOver() []string {
	folder := p.Rules()
	read, err := rules.Files(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	if p.beside {
		names = beside(folder)
	}
	seen := 0
	_ = filepath.WalkDir(folder, func(name string, e fs.DirEntry, _ error) error {
		if seen++; seen > maxPassedOver {
			return fs.SkipAll
		}
		if name == folder { // there is no e when it can't be read
			return nil
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") {
			return fs.SkipDir
		}
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(read, name) {
			names = append(names, name)
		}
		return nil
	})
	return names
}

// beside is the files in a folder's own folder that begin with its name and a
// dot. ratelimit tells files by their path with dots for slashes, so that it takes
// them for files inside.
func beside(folder string) []string {
	entries, err := os.ReadDir(filepath.Dir(folder))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasPrefix(e.Name(), filepath.Base(folder)+".") {
			names = append(names, filepath.Join(filepath.Dir(folder), e.Name()))
		}
	}
	return names
}
