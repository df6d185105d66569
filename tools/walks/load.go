package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// program is all packages of the project, type-checked from their text.
type program struct {
	fset     *token.FileSet
	root     string
	packages []*packages.Package // by their paths
	of       map[string]*packages.Package
	info     *types.Info // of all packages
	// bodies are the functions of the project.
	bodies map[*types.Func]*ast.FuncDecl
}

// module is how import paths of the project begin.
const module = "github.com/weir-limit/weir"

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// load reads the packages that the modules of the workspace at root have. What they import is
// type-checked from its text, too: else an object would be another one in each package.
func load(root string) (*program, error) {
	dir, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	p := &program{
		fset: token.NewFileSet(), root: dir, of: map[string]*packages.Package{}, bodies: map[*types.Func]*ast.FuncDecl{},
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	all, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Fset: p.fset}, "work")
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		for _, bad := range one.Errors {
			err = errors.Join(err, fmt.Errorf("%s: %w", one.PkgPath, bad))
		}
		if ours(one.PkgPath) {
			p.add(one)
		}
	}
	p.packages = slices.SortedFunc(maps.Values(p.of), func(a, b *packages.Package) int {
		return strings.Compare(a.PkgPath, b.PkgPath)
	})
	return p, err
}

// add takes a package in, and its functions.
func (p *program) add(one *packages.Package) {
	p.of[one.PkgPath] = one
	maps.Copy(p.info.Uses, one.TypesInfo.Uses)
	maps.Copy(p.info.Defs, one.TypesInfo.Defs)
	for _, f := range one.Syntax {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				p.bodies[one.TypesInfo.Defs[f.Name].(*types.Func)] = f
			}
		}
	}
}

// file is the path of the file that has a position, below the root.
func (p *program) file(at token.Pos) string {
	name := p.fset.Position(at).Filename
	if rel, err := filepath.Rel(p.root, name); err == nil {
		return filepath.ToSlash(rel)
	}
	return name
}
