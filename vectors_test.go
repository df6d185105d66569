package weir_test

import (
	"flag"
	"testing"

	"github.com/weir-limit/weir/storetest"
)

var update = flag.Bool("update", false, "write the answers of the model into testdata/vectors")

func TestVectors(t *testing.T) {
	storetest.Vectors(t, "testdata/vectors", *update, func(*testing.T) storetest.Clocked {
		return storetest.NewModel()
	})
}
