package sharing

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/weir-limit/weir"
	"pgregory.net/rapid"
)

type counted int

func (counted) idle(weir.Instant) bool { return false }

// TestTable holds a table to a map, also where hashes are the same, and who goes round to miss no
// row, whatever is removed meanwhile.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, model := newTable[counted](1<<10, maphash.MakeSeed()), map[weir.StateKey]counted{}
		looked := map[weir.StateKey]bool{}
		keys := rapid.Map(rapid.IntRange(0, 9), func(i int) weir.StateKey { return weir.StateKey{Rule: "r", Key: fmt.Sprint(i)} })
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			hash := uint64(key.Key[0]) % 3
			of, ok := table.find(hash, key)
			if want, known := model[key]; ok != known || of != want {
				t.Fatalf("%v is %v, %v; want %v, %v", key, of, ok, want, known)
			}
			if !ok {
				table.chain(hash, &row[counted]{key: key, of: counted(i)})
				model[key] = counted(i)
			} else if rapid.Bool().Draw(t, "remove") {
				at := rapid.IntRange(0, len(table.rows)-1).Draw(t, "row")
				delete(model, table.rows[at].key)
				delete(looked, table.rows[at].key)
				table.remove(at)
			} else if table.looked < len(table.rows) {
				looked[table.rows[table.looked].key] = true
				table.looked++
			}
			for _, row := range table.rows[:table.looked] {
				if !looked[row.key] {
					t.Fatalf("%v is passed over", row.key)
				}
			}
			if len(table.rows) != len(model) {
				t.Fatalf("%d rows of %d keys", len(table.rows), len(model))
			}
		}
	})
}
