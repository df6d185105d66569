package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is all packages of the project, type-checked from their text.
type program struct {
	fset     *token.FileSet
	root     string
	packages []*source // a package stands behind those that it imports
	of       map[string]*source
	info     *types.Info
	// bodies are the functions of the project.
	bodies map[*types.Func]*ast.FuncDecl
}

// source is one package.
type source struct {
	path  string
	types *types.Package
	files []*ast.File
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

// module is how import paths of the project begin.
const module = "github.com/weir-limit/weir"

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// load reads the packages that the modules of the workspace at root have.
func load(root string) (*program, error) {
	dir, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all, err := list(dir)
	if err != nil {
		return nil, err
	}
	p := &program{
		fset: token.NewFileSet(), root: dir, of: map[string]*source{}, bodies: map[*types.Func]*ast.FuncDecl{},
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}},
	}
	export := map[string]string{}
	for _, one := range all {
		export[one.ImportPath] = one.Export
	}
	compiled := importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for _, one := range all {
		if one.Standard || !ours(one.ImportPath) {
			continue
		}
		if err := p.check(one, compiled); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// list asks go list for the packages, and all that they import.
func list(dir string) ([]listed, error) {
	c := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Standard", "work")
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	var all []listed
	for in := json.NewDecoder(out); ; {
		var one listed
		err := in.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(err, c.Wait())
		}
		all = append(all, one)
	}
	return all, c.Wait()
}

// check type-checks a package. All that it imports of the project was checked before.
func (p *program) check(one listed, compiled types.Importer) error {
	s := &source{path: one.ImportPath}
	for _, name := range one.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(one.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
	}
	config := types.Config{Importer: from{p, compiled}}
	var err error
	if s.types, err = config.Check(one.ImportPath, p.fset, s.files, p.info); err != nil {
		return fmt.Errorf("%s: %w", one.ImportPath, err)
	}
	p.packages = append(p.packages, s)
	p.of[s.path] = s
	for _, f := range s.files {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				p.bodies[p.info.Defs[f.Name].(*types.Func)] = f
			}
		}
	}
	return nil
}

// from imports packages of the project from their text, and all others as they were
// compiled.
type from struct {
	p        *program
	compiled types.Importer
}

func (f from) Import(path string) (*types.Package, error) {
	if s := f.p.of[path]; s != nil {
		return s.types, nil
	}
	return f.compiled.Import(path)
}

// file is the path of the file that has a position, below the root.
func (p *program) file(at token.Pos) string {
	name := p.fset.Position(at).Filename
	if rel, err := filepath.Rel(p.root, name); err == nil {
		return filepath.ToSlash(rel)
	}
	return name
}
