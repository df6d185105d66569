package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"strings"
)

// route is where the request of a listener begins, and by which functions the listener goes
// on where a call can't be followed: it goes by a table or a library.
type route struct {
	name  string
	steps []string // PACKAGE.FUNC or PACKAGE.TYPE.METHOD
}

func routes() []route {
	return []route{
		{"HTTP: POST /v1/check", []string{"httpapi.API.ServeHTTP", "httpapi.API.check"}},
		{"gRPC: Envoy's ShouldRateLimit", []string{"rls.Server.handle", "rls.Server.ShouldRateLimit"}},
		{"Redis: weir.check", []string{"resp.conn.read", "resp.conn.answer", "resp.conn.check"}},
		{"httplimit", []string{"httplimit.middleware.serve"}},
		{"grpclimit", []string{"grpclimit.Server.Unary"}},
		{"the store in memory, where each of them ends", []string{"memstore.Store.Take"}},
	}
}

// limiter is the type that calls of an interface are followed to, where it fits. A store is
// a walk of its own.
const limiter = "rules.Limiter"

// walk is the way of one request.
type walk struct {
	p    *program
	read map[*types.Func]bool
	// carries are the variables that have something of the request.
	carries map[types.Object]bool
	met     map[string]int // the files, by when they were opened first
	opens   map[string]int
	order   []string
	up      []string // the returns upward
}

// printWalks writes the walk of one request of each route.
func (p *program) printWalks(w io.Writer, all []route) error {
	for _, r := range all {
		k := &walk{p: p, read: map[*types.Func]bool{}, carries: map[types.Object]bool{}, met: map[string]int{}, opens: map[string]int{}}
		for _, step := range r.steps {
			f := p.find(step)
			if f == nil {
				return fmt.Errorf("%s: there is no function %s", r.name, step)
			}
			k.enter("", f)
		}
		most := 0
		for _, n := range k.opens {
			most = max(most, n)
		}
		fmt.Fprintf(w, "\n%s: %d files, %d opens, %d of one file at most, %d returns upward\n", r.name, len(k.met), len(k.order), most, len(k.up))
		for _, file := range k.order {
			fmt.Fprintf(w, "  %s\n", file)
		}
		for _, up := range k.up {
			fmt.Fprintf(w, "  upward: %s\n", up)
		}
	}
	return nil
}

// find finds a function by its package's last element, its type and its name.
func (p *program) find(step string) *types.Func {
	for f := range p.bodies {
		name := f.FullName() // (*path/pkg.Type).Method
		name = strings.NewReplacer("(", "", ")", "", "*", "").Replace(name)
		if name[strings.LastIndex(name, "/")+1:] == step {
			return f
		}
	}
	return nil
}

// enter reads a function that a file calls, unless it was read before. The arguments of the call
// are of the request.
func (k *walk) enter(from string, f *types.Func) {
	body := k.p.bodies[f]
	if body == nil || k.read[f] {
		return
	}
	k.read[f] = true
	file := k.p.file(body.Pos())
	if file != from {
		k.open(from, file, f)
	}
	signature := f.Signature()
	for v := range signature.Params().Variables() {
		k.carries[v] = true
	}
	if from == "" && signature.Recv() != nil && signature.Params().Len() < 2 {
		k.carries[signature.Recv()] = true // a connection, with the request in it
	}
	k.body(file, body.Body)
}

func (k *walk) open(from, file string, f *types.Func) {
	k.opens[file]++
	k.order = append(k.order, file)
	at, known := k.met[file]
	if !known {
		k.met[file] = len(k.met)
		return
	}
	if from != "" && at < k.met[from] {
		k.up = append(k.up, fmt.Sprintf("%s → %s (%s)", from, file, f.Name()))
	}
}

// body follows the calls of a body in the order of the text, but for side exits.
func (k *walk) body(file string, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if !leaves(n.Body) {
				return true
			}
			if n.Init != nil {
				k.body(file, n.Init)
			}
			k.body(file, n.Cond)
			if n.Else != nil {
				k.body(file, n.Else)
			}
			return false
		case *ast.AssignStmt:
			for _, right := range n.Rhs {
				k.body(file, right)
				if k.hasRequest(right) {
					k.give(n.Lhs...)
				}
			}
			return false
		case *ast.RangeStmt:
			if k.hasRequest(n.X) {
				k.give(n.Key, n.Value)
			}
		case *ast.CallExpr:
			k.called(file, n)
			return false
		}
		return true
	})
}

// called follows a call that is given something of the request. Functions that call none
// of the project are not opened: their names say what they do.
func (k *walk) called(file string, n *ast.CallExpr) {
	for _, arg := range n.Args { // arguments come before the call
		k.body(file, arg)
	}
	k.body(file, n.Fun)
	if !k.hasRequest(n) {
		return
	}
	k.give(n.Args...) // it may fill what it is given
	f := k.target(n)
	if f == nil || !k.goesOn(f) {
		return
	}
	if s, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && f.Signature().Recv() != nil && k.hasRequest(s.X) {
		k.carries[f.Signature().Recv()] = true
	}
	k.enter(file, f)
}

// goesOn reports whether a function calls another one of the project.
func (k *walk) goesOn(f *types.Func) (yes bool) {
	if k.p.bodies[f] == nil {
		return false
	}
	ast.Inspect(k.p.bodies[f].Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if to := k.target(c); to != nil && k.p.bodies[to] != nil {
				yes = true
			}
		}
		return !yes
	})
	return yes
}

// hasRequest reports whether an expression names a variable that has something of the
// request.
func (k *walk) hasRequest(e ast.Node) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && k.carries[k.p.info.Uses[id]] {
			yes = true
		}
		return !yes
	})
	return yes
}

// give marks the variables of expressions that are assigned to or pointed at.
func (k *walk) give(all ...ast.Expr) {
	for _, e := range all {
		switch e := e.(type) {
		case *ast.UnaryExpr:
			k.give(e.X)
		case *ast.SelectorExpr:
			k.give(e.X)
		case *ast.IndexExpr:
			k.give(e.X)
		case *ast.StarExpr:
			k.give(e.X)
		case *ast.Ident:
			if o := cmp.Or(k.p.info.Defs[e], k.p.info.Uses[e]); o != nil {
				if v, ok := o.(*types.Var); ok && v.Kind() == types.LocalVar {
					k.carries[o] = true
				}
			}
		}
	}
}

// leaves reports whether a block ends by leaving its function or loop.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch last := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return last.Tok == token.CONTINUE || last.Tok == token.BREAK
	}
	return false
}

// target is the function that a call reaches; nil where that can't be told, or where it is
// none of the project.
func (k *walk) target(c *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch f := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	case *ast.IndexExpr:
		id, _ = f.X.(*ast.Ident)
	}
	if id == nil {
		return nil
	}
	f, ok := k.p.info.Uses[id].(*types.Func)
	if !ok {
		return nil
	}
	f = f.Origin()
	receiver := f.Signature().Recv()
	if receiver == nil || !types.IsInterface(receiver.Type()) {
		return f
	}
	return k.p.concrete(receiver.Type(), f)
}

// concrete is the limiter's method by which an interface is met; nil where it does not.
func (p *program) concrete(face types.Type, f *types.Func) *types.Func {
	pkg, typ, _ := strings.Cut(limiter, ".")
	s := p.of[module+"/"+pkg]
	if s == nil {
		return nil
	}
	t := types.NewPointer(s.Types.Scope().Lookup(typ).Type())
	if i, ok := face.Underlying().(*types.Interface); !ok || !types.Implements(t, i) {
		return nil
	}
	o, _, _ := types.LookupFieldOrMethod(t, true, f.Pkg(), f.Name())
	m, _ := o.(*types.Func)
	return m
}
