package rules

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestErased: nothing of a denial stays in memory behind a shorter one that took
// its place, nor when its time is over.
func TestErased(t *testing.T) {
	request := func(value string) *Request {
		return &Request{Domain: "d", Descriptors: []Descriptor{{Cost: 1, Entries: []Entry{{Key: "user", Value: value}}}}}
	}
	var b body
	holds := func(word string) bool { return bytes.Contains(b.text[:cap(b.text)], []byte(word)) }
	if !b.write(request(strings.Repeat("x", 100)+"secret"), nil, nil) || !holds("secret") {
		t.Fatal("it is not kept")
	}
	all := b.text[:cap(b.text)]
	if !b.write(request("ann"), nil, nil) || holds("secret") || !holds("ann") {
		t.Errorf("%q", all)
	}
	if q, _ := b.read(); q.Descriptors[0].Entries[0].Value != "ann" {
		t.Error(q)
	}
	b.erase()
	if len(bytes.Trim(all, "\x00")) > 0 {
		t.Errorf("%q", all)
	}
}

// TestVersionRules: of versions with very many rules only as many are kept as fit.
func TestVersionRules(t *testing.T) {
	d := NewDenials()
	for n := range uint32(MaxVersions + 2) {
		d.use(&Set{rules: make([]*Rule, MaxVersionRules/2)}, time.Now())
		d.shards[n].place(head{id: uint64(n + 1), at: weir.InstantOf(time.Now()), version: d.newest, kept: whole})
	}
	kept := 0
	for i := range d.versions {
		if d.versions[i].Load() != nil {
			kept++
		}
	}
	if kept != 1+2 {
		t.Errorf("%d versions are kept, want the one in force and two before", kept)
	}
}
