package cas

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
)

// Cells is a server, or several, that keep small values under names and write one only where it
// still is what was seen. It is all that the engine needs of a store. Its methods are called from
// many goroutines.
//
// No method sends anything twice: a swap that was done is refused the second time, and would look
// as if another process had written.
type Cells interface {
	// Look reads cells, names[0] before the others: a note that leaves its item meanwhile is then
	// seen in one of them. All are kept where the server of at keeps its item. cells[i]
	// is the zero Cell where there is none.
	Look(ctx context.Context, at string, names []string, cells []Cell) error
	// Swap writes cells, and fills in Version and Life of each. written is false where a cell was not
	// what its Swap had seen: then none of them is written. An error says so where they may have been
	// written all the same, as after a lost answer.
	//
	// There is more than one only for a store that has Config.Together, or where all are Any: these
	// may be written one by one.
	Swap(ctx context.Context, at string, swaps []Swap) (written bool, err error)
	// Where names the server that keeps an item, for errors.
	Where(at string) string
	// Explain adds to an error of an item, by which nothing was decided, whose it is and what to do
	// about it. It names no key, for keys are personal and errors are logged.
	Explain(at string, err error) error
	// Close ends calls on their way, and waits for what the cells do by themselves. Calls that come
	// later fail.
	Close()
}

// Cell is what a server keeps under a name. The receiver may keep Value, and never writes into it.
type Cell struct {
	Value   []byte
	Version Version
}

// Version tells one write of a cell from all others. The zero Version is that of a cell that is not
// there.
type Version struct {
	// Number is the server's or the writer's number of the write; 0: there is no cell.
	Number uint64
	// Epoch is in what stretch of time Number means something: a server that was restarted may begin
	// to number its writes anew. A swap of another epoch is answered as one that came too late,
	// and not sent.
	Epoch uint64
}

// Swap is one write of a cell.
type Swap struct {
	Name  string
	Seen  Version // the cell is written if it still has this Version
	Any   bool    // it is written whatever is there; Seen means nothing
	Value []byte
	Keep  time.Duration // how long it has to be kept, at least

	// Filled in where it was written.
	Version Version       // of this write; the zero Version: it is not known
	Life    time.Duration // how long the server keeps it, at least, if it need not make room
}

// Config is what the engine has to know of a store. None of it changes later.
type Config struct {
	Package  string // the name of the package whose store it is, for errors
	Cells    Cells
	MaxValue int // bytes of a value; a take that would make an item larger fails
	// Together is how many items a Swap can write at one moment. Up to that many, takes of several
	// descriptors are decided at one moment; takes of more are decided one descriptor after the other,
	// and given back where a later one denies. 0: one item at a time.
	Together int
	// Traits are those of the store. Its Unfit, which it must have, also refuses asks.
	Traits weir.Traits
	// Name is the name of the item of a placement and key. No two have the same one. NoteRoom
	// says what the name of a note has more.
	Name func(k weir.StateKey) string
	// NoteMark is between the name of an item and the rest of a note's. No name of an item has it.
	NoteMark string
	// Clock is what takes are decided by. Nil: the clock of this process.
	Clock func() weir.Instant
}

// NoteRoom is what the name of a note has more than that of its item, beside NoteMark: its kind, and
// 64 bits in hexadecimal digits.
const NoteRoom = 1 + 16
