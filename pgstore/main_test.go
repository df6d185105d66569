package pgstore

import (
	"os"
	"testing"

	"github.com/weir-limit/weir/internal/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
