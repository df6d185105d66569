package importenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxCompose is how many bytes a compose file may have. Longer ones are refused.
const maxCompose = 1 << 20

// composeFile is the part of a compose file that has environments.
type composeFile struct {
	Services    map[string]*composeService
	Environment yaml.Node // of a piece of a file, as people paste it
	EnvFile     yaml.Node `yaml:"env_file"`
}

type composeService struct {
	Image       string
	Environment yaml.Node
	EnvFile     yaml.Node `yaml:"env_file"`
}

// isCompose is whether text is a compose file, or the environment of one.
func isCompose(text []byte) bool {
	for line := range bytes.Lines(text) {
		for _, key := range []string{"services:", "environment:", "env_file:"} {
			if bytes.HasPrefix(line, []byte(key)) {
				return true
			}
		}
	}
	return false
}

// compose reads a compose file as docker compose does: env_file first, then environment, with all variables
// resolved in the environment of r, and in the file .env beside it. service is whose environment it is; empty: that of the
// one service that runs ratelimit.
func (r *resolver) compose(name string, text []byte, service string) (map[string]string, error) {
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, &InputError{fmt.Sprintf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	chosen := &composeService{Environment: file.Environment, EnvFile: file.EnvFile}
	if len(file.Services) > 0 || service != "" {
		var err error
		if chosen, err = file.choose(name, service); err != nil {
			return nil, err
		}
	}
	if err := r.besides(filepath.Join(filepath.Dir(name), ".env")); err != nil {
		return nil, err
	}
	env := map[string]string{}
	if err := r.envFiles(name, &chosen.EnvFile, env); err != nil {
		return nil, err
	}
	pairs, err := pairsOf(name, &chosen.Environment)
	if err != nil {
		return nil, err
	}
	return env, r.add(name, pairs, env)
}

// choose is the service of this name, or the one that runs ratelimit.
func (f *composeFile) choose(name, service string) (*composeService, error) {
	names := slices.Sorted(maps.Keys(f.Services))
	if service != "" {
		if s := f.Services[service]; s != nil {
			return s, nil
		}
		return nil, &InputError{fmt.Sprintf("%s has no service %s; it has %s", name, service, strings.Join(names, ", "))}
	}
	known := group("")
	has := slices.Collect(maps.Keys(f.Services))
	slices.Sort(has)
	has = slices.DeleteFunc(has, func(n string) bool {
		if f.Services[n] == nil {
			return true
		}
		pairs, err := pairsOf(name, &f.Services[n].Environment)
		return err != nil || !slices.ContainsFunc(pairs, func(p pair) bool { return slices.Contains(known, p.name) })
	})
	called := func(n string) bool {
		return f.Services[n] != nil && strings.Contains(n+f.Services[n].Image, "ratelimit")
	}
	switch {
	case len(has) == 0:
		has = slices.DeleteFunc(names, func(n string) bool { return !called(n) || f.Services[n].EnvFile.IsZero() })
	case len(has) > 1:
		if better := slices.DeleteFunc(slices.Clone(has), func(n string) bool { return !called(n) }); len(better) > 0 {
			has = better
		}
	}
	switch len(has) {
	case 0:
		return nil, &InputError{fmt.Sprintf("%s: no service has a variable of ratelimit; say which it is: --service NAME", name)}
	case 1:
		return f.Services[has[0]], nil
	}
	return nil, &InputError{fmt.Sprintf("%s: the services %s have variables of ratelimit; say which it is: --service NAME", name, strings.Join(has, ", "))}
}

// pair is a variable of a compose file.
type pair struct {
	name, value string
	inherited   bool // it has no value there: it is that of the environment
}

// pairsOf reads an environment, a list of NAME=VALUE or a map.
func pairsOf(file string, node *yaml.Node) ([]pair, error) {
	var pairs []pair
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case 0:
	case yaml.SequenceNode:
		for _, item := range node.Content {
			name, value, ok := strings.Cut(item.Value, "=")
			if item.Kind != yaml.ScalarNode || name == "" {
				return nil, &InputError{fmt.Sprintf("%s:%d: this is not NAME=VALUE", file, item.Line)}
			}
			pairs = append(pairs, pair{name, value, !ok})
		}
	case yaml.MappingNode:
		var values map[string]yaml.Node // so that what << brings is there
		if err := node.Decode(&values); err != nil {
			return nil, &InputError{fmt.Sprintf("%s:%d: %s", file, node.Line, strings.TrimPrefix(err.Error(), "yaml: "))}
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value := values[name]
			if value.Kind != yaml.ScalarNode {
				return nil, &InputError{fmt.Sprintf("%s:%d: %s has no value that a variable can have", file, value.Line, name)}
			}
			pairs = append(pairs, pair{name, value.Value, value.Tag == "!!null"})
		}
	default:
		return nil, &InputError{fmt.Sprintf("%s:%d: write the environment as a list of NAME=VALUE or as a map", file, node.Line)}
	}
	return pairs, nil
}

// add adds variables to env, resolved.
func (r *resolver) add(file string, pairs []pair, env map[string]string) error {
	for _, p := range pairs {
		if p.inherited {
			if value, ok := r.lookUp(p.name); ok {
				env[p.name] = value
			} else {
				r.unset[p.name] = true
			}
			continue
		}
		value, err := r.resolve(p.value, true)
		if err != nil {
			return &InputError{fmt.Sprintf("%s: %s: %v", file, p.name, err)}
		}
		env[p.name] = value
	}
	return nil
}

// envFiles adds what the files of env_file have: a path, or several, or objects with one.
func (r *resolver) envFiles(compose string, node *yaml.Node, env map[string]string) error {
	if node.IsZero() {
		return nil
	}
	list := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		list = node.Content
	}
	for _, item := range list {
		file := struct {
			Path     string
			Required *bool
			Format   string
		}{Path: item.Value}
		if item.Kind == yaml.MappingNode {
			if err := item.Decode(&file); err != nil {
				return &InputError{fmt.Sprintf("%s:%d: %s", compose, item.Line, strings.TrimPrefix(err.Error(), "yaml: "))}
			}
		}
		path, err := r.resolve(file.Path, true)
		if err != nil || path == "" {
			return &InputError{fmt.Sprintf("%s:%d: env_file: write the path of a file", compose, item.Line)}
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(compose), path)
		}
		read, err := r.file(path)
		if errors.Is(err, fs.ErrNotExist) && file.Required != nil && !*file.Required {
			continue
		}
		if err != nil {
			return err
		}
		maps.Copy(env, read)
	}
	return nil
}

// besides adds the variables of a file .env, if there is one, to those that others are resolved in. The
// environment goes before.
func (r *resolver) besides(path string) error {
	env, err := r.file(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.beside = env
	return err
}

func (r *resolver) file(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so there is nothing to lose
	text, err := readAll(path, f)
	if err != nil {
		return nil, err
	}
	return r.lines(path, text)
}

func readAll(name string, from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxCompose+1))
	if err == nil && len(text) > maxCompose {
		err = &InputError{fmt.Sprintf("%s has over %d bytes", name, maxCompose)}
	}
	return text, err
}
