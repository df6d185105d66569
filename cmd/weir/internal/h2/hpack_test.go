package h2

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// fieldsOf are the fields of a head.
func fieldsOf(h *Head) (all []hpack.HeaderField) {
	for i := range h.Len() {
		name, value := h.At(i)
		all = append(all, hpack.HeaderField{Name: string(name), Value: string(value)})
	}
	return all
}

// TestBlocks: what another encoder has written is read as it was, whatever stands in its table.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d decoder
		d.table.init()
		var h Head
		var out bytes.Buffer
		e := hpack.NewEncoder(&out)
		name := rapid.SampledFrom([]string{":path", ":method", "x", "user-agent", "grpc-timeout", "content-type", strings.Repeat("n", 200)})
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			out.Reset()
			if rapid.IntRange(0, 5).Draw(t, "resize") == 0 {
				e.SetMaxDynamicTableSize(uint32(rapid.IntRange(0, tableSize).Draw(t, "size")))
			}
			var want []hpack.HeaderField
			for range rapid.IntRange(0, 10).Draw(t, "fields") {
				f := hpack.HeaderField{Name: name.Draw(t, "name"), Value: rapid.SampledFrom([]string{"", "GET", "/", "v" + rapid.StringN(0, 5, 20).Draw(t, "text"), strings.Repeat("x", rapid.IntRange(0, 3000).Draw(t, "long"))}).Draw(t, "value"), Sensitive: rapid.IntRange(0, 5).Draw(t, "secret") == 0}
				_ = e.WriteField(f) // a buffer takes all
				f.Sensitive = false
				want = append(want, f)
			}
			if err := d.decode(out.Bytes(), &h); err != nil {
				t.Fatal(err)
			}
			if h.large {
				continue
			}
			if diff := cmp.Diff(want, fieldsOf(&h)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// FuzzBlocks: of any two blocks another decoder reads the same, or both refuse them.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte("\x82\x86\x84\x41\x0fwww.example.com"), []byte("\x82\x86\x84\xbe\x58\x08no-cache"))
	f.Add([]byte("\x20\x3f\xe1\x1f\x40\x01a\x01b"), []byte("\xbe\xbf"))
	f.Add([]byte("\x40\x83\x9c\xb4\x50\x85\x1f\xff\xff\xff\xff"), []byte("\x00\x01a\x81\xff"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first)+len(second) > mostBlock {
			return
		}
		var d decoder
		d.table.init()
		var h Head
		other := hpack.NewDecoder(tableSize, nil)
		for _, block := range [][]byte{first, second} {
			var got error
			if got = d.decode(block, &h); h.large {
				return
			}
			want, err := other.DecodeFull(block)
			if (got == nil) != (err == nil) {
				if err != nil && strings.Contains(err.Error(), "dynamic table size update MUST occur") || errors.Is(got, errResize) || errors.Is(got, errNumber) {
					return // the other allows it late, or numbers that mean nothing here
				}
				t.Fatalf("%x: %v, want %v", block, got, err)
			}
			if err != nil {
				return
			}
			for i := range want {
				want[i].Sensitive = false
			}
			if diff := cmp.Diff(append([]hpack.HeaderField(nil), want...), fieldsOf(&h)); diff != "" && len(want) > 0 {
				t.Fatalf("%x: %s", block, diff)
			}
		}
	})
}

// TestAnswers: another decoder reads the fields of answers, whatever size it has for its table.
func TestAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e encoder
		var got []hpack.HeaderField
		other := hpack.NewDecoder(tableSize, func(f hpack.HeaderField) { got = append(got, f) })
		for range rapid.IntRange(1, 20).Draw(t, "blocks") {
			if rapid.IntRange(0, 5).Draw(t, "resize") == 0 {
				size := uint32(rapid.IntRange(0, 2*tableSize).Draw(t, "size"))
				other.SetAllowedMaxDynamicTableSize(size)
				e.resize(size)
			}
			status := rapid.SampledFrom([]int{200, 404, 415, 503}).Draw(t, "status")
			block := e.status(e.begin(nil), status)
			want := []hpack.HeaderField{{Name: ":status", Value: string(rune('0'+status/100)) + string(rune('0'+status/10%10)) + string(rune('0'+status%10))}}
			for range rapid.IntRange(0, 5).Draw(t, "fields") {
				f := Field{rapid.SampledFrom([]string{"grpc-status", "content-type", "x-y"}).Draw(t, "name"), rapid.SampledFrom([]string{"0", "application/grpc", strings.Repeat("z", 300), "14"}).Draw(t, "value")}
				block = e.field(block, f, rapid.Bool().Draw(t, "keep"))
				want = append(want, hpack.HeaderField{Name: f.Name, Value: f.Value})
			}
			got = nil
			if _, err := other.Write(block); err != nil {
				t.Fatal(err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestHeads: what is no head of a request is none.
func TestHeads(t *testing.T) {
	good := []string{":method", "POST", ":scheme", "http", ":path", "/x", ":authority", "a"}
	for name, c := range map[string]struct {
		fields []string
		ok     bool
	}{
		"usual":                      {append(good, "te", "trailers", "content-length", "5"), true},
		"no path":                    {good[:4], false},
		"an empty path":              {[]string{":method", "POST", ":scheme", "http", ":path", ""}, false},
		"two paths":                  {append(good, ":path", "/y"), false},
		"of an answer":               {append(good, ":status", "200"), false},
		"late":                       {append([]string{"a", "b"}, good...), false},
		"large letters":              {append(good, "Te", "trailers"), false},
		"no name":                    {append(good, "", "x"), false},
		"a space before a value":     {append(good, "x", " y"), false},
		"a line's end in a value":    {append(good, "x", "y\r\nz"), false},
		"connection":                 {append(good, "connection", "close"), false},
		"te":                         {append(good, "te", "gzip"), false},
		"two lengths":                {append(good, "content-length", "5", "content-length", "6"), false},
		"twice the same length":      {append(good, "content-length", "5", "content-length", "5"), true},
		"a length below zero":        {append(good, "content-length", "-5"), false},
		"a tunnel":                   {[]string{":method", "CONNECT", ":authority", "a:1"}, true},
		"a tunnel that has a scheme": {append(good, ":method", "CONNECT"), false},
	} {
		var out bytes.Buffer
		e := hpack.NewEncoder(&out)
		for i := 0; i < len(c.fields); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: c.fields[i], Value: c.fields[i+1]})
		}
		var d decoder
		d.table.init()
		var h Head
		for range 2 { // the second time the fields stand in the table
			if err := d.decode(out.Bytes(), &h); err != nil {
				t.Fatal(name, err)
			}
			if h.check() != c.ok {
				t.Errorf("%s: %v", name, !c.ok)
			}
			out.Reset()
			for i := 0; i < len(c.fields); i += 2 {
				_ = e.WriteField(hpack.HeaderField{Name: c.fields[i], Value: c.fields[i+1]})
			}
		}
	}
}
