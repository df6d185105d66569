package weir_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const boundsPage = "docs/bounds.md"

// TestBounds holds docs/bounds.md to the source: a row that names a constant begins its
// bound with that constant's value, and what else it names is there.
func TestBounds(t *testing.T) {
	page, err := os.ReadFile(boundsPage)
	if err != nil {
		t.Fatal(err)
	}
	all, metrics := load(t), metricNames(t)
	std := importer.ForCompiler(token.NewFileSet(), "source", nil)
	scopes := declared{all: all, known: map[string]*types.Package{}, std: std}
	checked := 0
	for i, line := range strings.Split(string(page), "\n") {
		cells := cellsOf(line)
		if len(cells) == 0 || cells[0] == "what is bounded" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 5 || cells[0] == "" || cells[1] == "" || cells[2] == "" || cells[3] == "" {
			t.Errorf("%s:%d: a row has a bound, a constant or –, and what happens: %q", boundsPage, i+1, cells)
			continue
		}
		for _, m := range regexp.MustCompile(`weir_\w+`).FindAllString(cells[4], -1) {
			if !metrics[m] {
				t.Errorf("%s:%d: there is no metric %s", boundsPage, i+1, m)
			}
		}
		if cells[2] == "–" {
			continue
		}
		checked++
		if err := scopes.holds(cells[1], cells[2]); err != nil {
			t.Errorf("%s:%d: %s: %v", boundsPage, i+1, cells[0], err)
		}
	}
	if checked < 300 {
		t.Errorf("%s: %d rows name a constant; are its tables still there?", boundsPage, checked)
	}
}

// TestBoundsAreRead holds the reader of the page's numbers to each way to write one.
func TestBoundsAreRead(t *testing.T) {
	for text, want := range map[string]int64{
		"1,024 each": 1024, "2,000 lines": 2000, "one 8th of it": 8, "64 KiB": 65536, "2 MiB in all": 2 << 20, "2^30": 1 << 30, "2^32 − 1": 1<<32 - 1,
		"1.2 s": int64(1200 * time.Millisecond), "one in 10 s": int64(10 * time.Second), "407 days": int64(407 * 24 * time.Hour),
		"71 years": int64(71 * 365 * 24 * time.Hour),
	} {
		if got, _, err := quantity(text); err != nil || got != want {
			t.Errorf("quantity(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "none", "some 1", "1.5"} {
		if got, _, err := quantity(text); err == nil {
			t.Errorf("quantity(%q) = %d; it tells no whole number", text, got)
		}
	}
}

// cellsOf is what a line of a table has between its bars; nil where it is of no table.
func cellsOf(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

var (
	number = regexp.MustCompile(`^(?:(?:at least|one in|each|after|one) )?` +
		`(?:2\^(\d+)( − 1)?|([\d,]+(?:\.\d+)?)(?: (\S+))?)`)
	units = map[string]int64{
		"KiB": 1 << 10, "MiB": 1 << 20,
		"µs": int64(time.Microsecond), "ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute), "h": int64(time.Hour),
		"days": int64(24 * time.Hour), "years": int64(365 * 24 * time.Hour),
	}
)

// quantity is the number that a bound begins with, in nanoseconds if it is a time, and
// its unit, if it has one.
func quantity(bound string) (n int64, unit string, err error) {
	m := number.FindStringSubmatch(bound)
	switch {
	case m == nil:
		return 0, "", fmt.Errorf("%q begins with no number", bound)
	case m[1] != "":
		power, err := strconv.Atoi(m[1])
		n = 1 << power
		if m[2] != "" {
			n--
		}
		return n, "", err
	}
	unit = strings.Trim(m[4], ",;.")
	if units[unit] == 0 {
		unit = ""
	}
	factor := constant.MakeInt64(cmp.Or(units[unit], 1))
	v := constant.MakeFromLiteral(strings.ReplaceAll(m[3], ",", ""), token.FLOAT, 0)
	n, exact := constant.Int64Val(constant.ToInt(constant.BinaryOp(v, token.MUL, factor)))
	if !exact {
		return 0, "", fmt.Errorf("%q is no whole number", bound)
	}
	return n, unit, nil
}

// declared finds what packages of this module declare.
type declared struct {
	all   pkgs
	known map[string]*types.Package
	std   types.Importer
}

// holds is whether what a row names is there, and has the value that its bound tells.
func (d declared) holds(bound, named string) error {
	name := strings.Trim(named, "`")
	at := strings.LastIndex(name, "/") + 1
	first, rest, _ := strings.Cut(name[at:], ".")
	p, err := d.find(name[:at] + first)
	if err != nil {
		return err
	}
	of, member, isMember := strings.Cut(rest, ".")
	o := p.Scope().Lookup(of)
	if isMember && o != nil {
		o, _, _ = types.LookupFieldOrMethod(o.Type(), true, p, member)
	}
	if o == nil {
		return fmt.Errorf("%s is not declared", name)
	}
	c, isConst := o.(*types.Const)
	switch {
	case isMember:
		return nil
	case !isConst:
		return fmt.Errorf("%s is no constant", name)
	case c.Val().Kind() == constant.String:
		if s := "`" + constant.StringVal(c.Val()) + "`"; !strings.HasPrefix(bound, s) {
			return fmt.Errorf("%s is %s, the page has %s", name, s, bound)
		}
		return nil
	}
	return same(bound, name, c)
}

func same(bound, name string, c *types.Const) error {
	got, unit, err := quantity(bound)
	if err != nil {
		return err
	}
	value, exact := constant.Int64Val(constant.ToInt(c.Val()))
	if c.Type().String() != "time.Duration" && unit != "" && unit[len(unit)-1] != 'B' {
		got /= units[unit] // a number of that unit, by the row's word
	}
	if !exact || got != value {
		return fmt.Errorf("%s is %s, the page has %s", name, c.Val(), bound)
	}
	return nil
}

// find is the package whose path ends with name.
func (d declared) find(name string) (*types.Package, error) {
	if d.all["weir"] != nil && name == "weir" {
		return d.check("weir")
	}
	var fits []string
	for _, full := range slices.Sorted(maps.Keys(d.all)) {
		if strings.HasSuffix(full, "/"+name) {
			fits = append(fits, full)
		}
	}
	if len(fits) != 1 {
		return nil, fmt.Errorf("%s names %d packages: %v", name, len(fits), fits)
	}
	return d.check(fits[0])
}

// check finds the types of what a package declares. It leaves out the bodies of functions,
// and what comes from outside of this module but where constants come from.
func (d declared) check(name string) (*types.Package, error) {
	if p := d.known[name]; p != nil {
		return p, nil
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, file := range d.all[name].GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(d.all[name].Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	config := types.Config{
		IgnoreFuncBodies: true,
		Error:            func(error) {}, // of what was left out
		Importer: importFunc(func(importPath string) (*types.Package, error) {
			switch {
			case d.all[short(importPath)] != nil:
				return d.check(short(importPath))
			case slices.Contains([]string{"encoding/binary", "math", "time"}, importPath):
				return d.std.Import(importPath)
			}
			empty := types.NewPackage(importPath, filepath.Base(importPath))
			empty.MarkComplete()
			return empty, nil
		}),
	}
	p, _ := config.Check(name, fset, files, nil)
	d.known[name] = p
	return p, nil
}

// metricNames is the names that the sources of the daemon spell.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("cmd/weir/internal/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`"(weir_\w+)"`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}
