package storetest_test

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/weir-limit/weir/storetest"
)

// TestToy: the store of the example is one.
func TestToy(t *testing.T) {
	stores := map[string]*Toy{}
	open := func(_ testing.TB, name string) storetest.Clocked {
		if stores[name] == nil {
			stores[name] = NewToy()
		}
		return stores[name]
	}
	storetest.Run(t, "../testdata/vectors", open, storetest.Options{})
}

// TestPage: the code of the page for authors is that of the example.
func TestPage(t *testing.T) {
	const name = "../docs/write-a-store.md"
	var code []byte
	for _, file := range []string{"example_test.go", "toy_test.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, b...)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Errorf("%s has %d blocks of code, want 2", name, len(blocks))
	}
	for _, block := range blocks {
		if !bytes.Contains(code, block[1]) {
			t.Errorf("%s shows what is not in the example:\n%s", name, block[1])
		}
	}
}
