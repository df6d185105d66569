//go:build !race

package simulation

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/limittext"
)

// shape is how a value of some type is copied with all that it points to, and written down so
// that equal values give equal bytes. It is made from the type, so a new field needs no line here: a
// field of a kind that no shape knows stops the test.
type shape struct {
	of    reflect.Type
	parts []part
	flat  bool // it points to nothing
}

// part is a stretch of a value: some bytes without pointers, or one pointer, string, slice or map.
type part struct {
	kind   reflect.Kind // Invalid: bytes
	at     uintptr
	length uintptr
	elem   *shape
	typ    reflect.Type
	shared bool // copies point to the same value, which is never changed
	value  bool // and it does not matter which others do
	index  bool // it tells where to find what stands elsewhere, too
}

// shapes are those of types, by type.
type shapes map[reflect.Type]*shape

func (all shapes) get(t reflect.Type) *shape {
	if s := all[t]; s != nil {
		return s
	}
	s := &shape{of: t}
	all[t] = s
	all.add(s, t, 0)
	s.flat = !slices.ContainsFunc(s.parts, func(p part) bool { return p.kind != reflect.Invalid && p.kind != reflect.String })
	return s
}

// add adds the parts of t at some offset.
func (all shapes) add(s *shape, t reflect.Type, at uintptr) {
	switch t { // caches
	case reflect.TypeFor[limittext.Cache]():
		return
	}
	if t.Name() == "rules" || t.Kind() == reflect.Pointer && t.Elem().Name() == "places" {
		return
	}
	switch k := t.Kind(); k {
	case reflect.Struct:
		for field := range t.Fields() {
			all.add(s, field.Type, at+field.Offset)
		}
	case reflect.Array:
		for i := range t.Len() {
			all.add(s, t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n := len(s.parts); n > 0 && s.parts[n-1].kind == reflect.Invalid && s.parts[n-1].at+s.parts[n-1].length == at {
			s.parts[n-1].length += t.Size()
			return
		}
		s.parts = append(s.parts, part{at: at, length: t.Size()})
	case reflect.String:
		s.parts = append(s.parts, part{kind: k, at: at})
	case reflect.Pointer, reflect.Slice:
		p := part{kind: k, at: at, typ: t, value: t == reflect.TypeFor[*member.Place]()}
		p.shared = p.value || t == reflect.TypeFor[*member.View]() || t == reflect.TypeFor[*weir.Limit]()
		if t != reflect.TypeFor[*weir.Limit]() {
			p.elem = all.get(t.Elem())
		}
		s.parts = append(s.parts, p)
	case reflect.Map:
		index := t.Key().Kind() == reflect.Uint64 && t.Elem().Kind() == reflect.Pointer // of a table's rows
		s.parts = append(s.parts, part{kind: k, at: at, typ: t, elem: all.get(t.Elem()), index: index})
	default:
		panic(fmt.Sprintf("%v: values of it can't be copied", t))
	}
}

// block is a value that was met, and its copy or its number.
type block struct {
	from, size uintptr
	to         unsafe.Pointer
	number     int
}

// walk copies or writes a graph of values. A pointer into a value that was met points into its copy.
type walk struct {
	all shapes
	met []block
}

func (w *walk) find(p unsafe.Pointer) *block {
	for i := range w.met {
		if b := &w.met[i]; uintptr(p)-b.from < b.size {
			return b
		}
	}
	return nil
}

// copied is a deep copy of v.
func copied[T any](w *walk, v *T) *T {
	w.met = w.met[:0]
	return (*T)(w.copy(w.all.get(reflect.TypeFor[T]()), unsafe.Pointer(v)))
}

func (w *walk) copy(s *shape, from unsafe.Pointer) unsafe.Pointer {
	if b := w.find(from); b != nil {
		return unsafe.Add(b.to, uintptr(from)-b.from)
	}
	to := reflect.New(s.of)
	to.Elem().Set(reflect.NewAt(s.of, from).Elem())
	w.met = append(w.met, block{from: uintptr(from), size: s.of.Size(), to: to.UnsafePointer()})
	w.mend(s, to.UnsafePointer())
	return to.UnsafePointer()
}

// mend makes what a value points to its own.
func (w *walk) mend(s *shape, at unsafe.Pointer) {
	for i := range s.parts {
		p := &s.parts[i]
		field := unsafe.Add(at, p.at)
		switch {
		case p.shared:
		case p.kind == reflect.Pointer:
			if of := (*unsafe.Pointer)(field); *of != nil {
				*of = w.copy(p.elem, *of)
			}
		case p.kind == reflect.Slice:
			v := reflect.NewAt(p.typ, field).Elem()
			if v.IsNil() {
				continue
			}
			own := reflect.MakeSlice(p.typ, v.Len(), v.Len())
			reflect.Copy(own, v)
			v.Set(own)
			for i := 0; i < v.Len() && !p.elem.flat; i++ {
				w.mend(p.elem, unsafe.Add(own.UnsafePointer(), uintptr(i)*p.elem.of.Size()))
			}
		case p.kind == reflect.Map:
			v := reflect.NewAt(p.typ, field).Elem()
			if v.IsNil() {
				continue
			}
			own := reflect.MakeMapWithSize(p.typ, v.Len())
			for entry := v.MapRange(); entry.Next(); {
				value := reflect.New(p.elem.of)
				value.Elem().Set(entry.Value())
				w.mend(p.elem, value.UnsafePointer())
				own.SetMapIndex(entry.Key(), value.Elem())
			}
			v.Set(own)
		}
	}
}

// written is v as bytes: equal for equal values, whatever their addresses.
func written[T any](w *walk, b []byte, v *T) []byte {
	w.met = w.met[:0]
	return w.pointer(w.all.get(reflect.TypeFor[T]()), b, unsafe.Pointer(v))
}

func (w *walk) pointer(s *shape, b []byte, at unsafe.Pointer) []byte {
	if met := w.find(at); met != nil {
		b = binary.AppendUvarint(append(b, 2), uint64(met.number))
		return binary.AppendUvarint(b, uint64(uintptr(at)-met.from))
	}
	w.met = append(w.met, block{from: uintptr(at), size: s.of.Size(), number: len(w.met)})
	return w.write(s, append(b, 1), at)
}

func (w *walk) write(s *shape, b []byte, at unsafe.Pointer) []byte {
	for i := range s.parts {
		p := &s.parts[i]
		field := unsafe.Add(at, p.at)
		switch p.kind {
		case reflect.Invalid:
			b = append(b, unsafe.Slice((*byte)(field), p.length)...)
		case reflect.String:
			text := *(*string)(field)
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		case reflect.Pointer:
			of := *(*unsafe.Pointer)(field)
			switch {
			case of == nil:
				b = append(b, 0)
			case p.elem == nil:
				b = append(b, (*weir.Limit)(of).String()...)
			case p.value:
				b = w.write(p.elem, append(b, 1), of)
			default:
				b = w.pointer(p.elem, b, of)
			}
		case reflect.Slice:
			v := reflect.NewAt(p.typ, field).Elem()
			b = binary.AppendUvarint(b, uint64(v.Len()))
			for i := range v.Len() {
				b = w.write(p.elem, b, unsafe.Add(v.UnsafePointer(), uintptr(i)*p.elem.of.Size()))
			}
		case reflect.Map:
			if v := reflect.NewAt(p.typ, field).Elem(); !p.index {
				b = w.entries(p, b, v)
			}
		default:
			panic(fmt.Sprintf("no part is a %v", p.kind))
		}
	}
	return b
}

// entries writes a map in the order of its entries' bytes.
func (w *walk) entries(p *part, b []byte, v reflect.Value) []byte {
	var all []string
	for entry := v.MapRange(); entry.Next(); {
		key, value := reflect.New(p.typ.Key()), reflect.New(p.elem.of)
		key.Elem().Set(entry.Key())
		value.Elem().Set(entry.Value())
		one := w.write(w.all.get(p.typ.Key()), nil, key.UnsafePointer())
		all = append(all, string(w.write(p.elem, one, value.UnsafePointer())))
	}
	slices.Sort(all)
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, one := range all {
		b = append(b, one...)
	}
	return b
}
