package table

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/weir-limit/weir"
	"pgregory.net/rapid"
)

type counted int

func (counted) Idle(weir.Instant) bool { return false }

// TestTable holds a table to a map, also where hashes are the same, and who goes round to miss no
// row, whatever is removed meanwhile.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, model := New[counted](1<<10, maphash.MakeSeed()), map[weir.StateKey]counted{}
		looked := map[weir.StateKey]bool{}
		keys := rapid.Map(rapid.IntRange(0, 9), func(i int) weir.StateKey { return weir.StateKey{Rule: "r", Key: fmt.Sprint(i)} })
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			hash := uint64(key.Key[0]) % 3
			of, ok := table.Find(hash, key)
			if want, known := model[key]; ok != known || of != want {
				t.Fatalf("%v is %v, %v; want %v, %v", key, of, ok, want, known)
			}
			if !ok {
				table.chain(hash, &Row[counted]{Key: key, Of: counted(i)})
				model[key] = counted(i)
			} else if rapid.Bool().Draw(t, "remove") {
				at := rapid.IntRange(0, len(table.Rows)-1).Draw(t, "row")
				delete(model, table.Rows[at].Key)
				delete(looked, table.Rows[at].Key)
				table.Remove(at)
			} else if rapid.IntRange(0, 4).Draw(t, "again") == 0 {
				left := len(table.Rows) - table.Looked
				if table.Again(); table.Looked != 0 {
					t.Fatalf("%d rows are looked at as a round begins", table.Looked)
				}
				for i, row := range table.Rows {
					if left < len(table.Rows) && looked[row.Key] != (i >= left) {
						t.Fatalf("%v of %d rows, of which %d were left, is the %d-th", row.Key, len(table.Rows), left, i)
					}
				}
				clear(looked)
			} else if table.Looked < len(table.Rows) {
				looked[table.Rows[table.Looked].Key] = true
				table.Looked++
			}
			for _, row := range table.Rows[:table.Looked] {
				if !looked[row.Key] {
					t.Fatalf("%v is passed over", row.Key)
				}
			}
			if len(table.Rows) != len(model) {
				t.Fatalf("%d rows of %d keys", len(table.Rows), len(model))
			}
		}
	})
}
