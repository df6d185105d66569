package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// arrows are the files of a package that each of its files names, in the order of its
// text. names says by which words.
type arrows struct {
	files []string
	to    map[string][]string
	names map[[2]string][]string
}

// arrowsOf finds the arrows of a package.
func (p *program) arrowsOf(s *packages.Package) *arrows {
	a := &arrows{to: map[string][]string{}, names: map[[2]string][]string{}}
	for _, f := range s.Syntax {
		name := p.file(f.Pos())
		a.files = append(a.files, name)
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			o := p.info.Uses[id]
			if o == nil || o.Pkg() != s.Types || !shared(o, s.Types) {
				return true
			}
			if other := p.file(o.Pos()); other != name {
				a.add(name, other, id.Name)
			}
			return true
		})
	}
	return a
}

func (a *arrows) add(from, to, word string) {
	pair := [2]string{from, to}
	if a.names[pair] == nil {
		a.to[from] = append(a.to[from], to)
	}
	if !slices.Contains(a.names[pair], word) {
		a.names[pair] = append(a.names[pair], word)
	}
}

// shared reports whether other files can name what an object stands for.
func shared(o types.Object, in *types.Package) bool {
	if o.Parent() == in.Scope() {
		return true
	}
	switch o := o.(type) {
	case *types.Func:
		return true // a method
	case *types.Var:
		return o.IsField()
	}
	return false
}

// count is how many arrows there are, and which run against the order.
func (a *arrows) count() (all int, against [][2]string) {
	all = len(a.names)
	const open, done = 1, 2
	state := map[string]int{}
	var read func(file string)
	read = func(file string) {
		state[file] = open
		for _, next := range a.to[file] {
			switch state[next] {
			case open:
				against = append(against, [2]string{file, next})
			case 0:
				read(next)
			}
		}
		state[file] = done
	}
	for _, file := range a.starts() {
		if state[file] == 0 {
			read(file)
		}
	}
	return all, against
}

// starts are the files in the order in which a reader would start: those that the fewest
// others name first, then those that name the most.
func (a *arrows) starts() []string {
	named := map[string]int{}
	for pair := range a.names {
		named[pair[1]]++
	}
	return slices.SortedFunc(slices.Values(a.files), func(x, y string) int {
		return cmp.Or(named[x]-named[y], len(a.to[y])-len(a.to[x]), strings.Compare(x, y))
	})
}

// printArrows writes a table of the packages, those with the largest share first.
func (p *program) printArrows(w io.Writer, least int) {
	type row struct {
		path                   string
		files, arrows, against int
	}
	var rows []row
	for _, s := range p.packages {
		a := p.arrowsOf(s)
		if all, against := a.count(); all >= least {
			rows = append(rows, row{s.PkgPath, len(a.files), all, len(against)})
		}
	}
	slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(y.against*x.arrows, x.against*y.arrows) })
	fmt.Fprintf(w, "%8s %6s %6s %6s  %s\n", "against", "share", "arrows", "files", "package")
	for _, r := range rows {
		fmt.Fprintf(w, "%8d %5d%% %6d %6d  %s\n", r.against, r.against*100/r.arrows, r.arrows, r.files, strings.TrimPrefix(r.path, module+"/"))
	}
}

// list writes the arrows of a package that run against its order, and by which words.
func (p *program) list(w io.Writer, importPath string) error {
	s := p.of[importPath]
	if s == nil {
		s = p.of[module+"/"+importPath]
	}
	if s == nil {
		return fmt.Errorf("there is no package %s", importPath)
	}
	a := p.arrowsOf(s)
	_, against := a.count()
	for _, pair := range against {
		fmt.Fprintf(w, "%s → %s: %s\n", path.Base(pair[0]), path.Base(pair[1]), strings.Join(a.names[pair], " "))
	}
	return nil
}
