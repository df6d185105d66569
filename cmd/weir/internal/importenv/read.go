package importenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// maxLine is how long a line of an env file may be. Longer ones are refused.
const maxLine = 1 << 20

// Read reads an env file: lines of NAME=VALUE, perhaps after export and with
// quotes around the value; empty lines and those that begin with # say nothing.
// It fails with an *InputError that begins with name and the line.
func Read(name string, r io.Reader) (map[string]string, error) {
	env := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		variable, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		variable = strings.TrimSpace(variable)
		if !ok || variable == "" || strings.ContainsAny(variable, " \t:") {
			return nil, &InputError{fmt.Sprintf("%s:%d: this is not NAME=VALUE", name, n)}
		}
		env[variable] = unquote(strings.TrimSpace(value))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, &InputError{fmt.Sprintf("%s: a line has over %d bytes", name, maxLine)}
	}
	return env, lines.Err()
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
