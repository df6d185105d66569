package cas

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limit/weir"
)

// Cells is a server, or several, that keep small values under names and write one only where it
// still is what was seen. It is all that the engine needs of a store. Its methods are called from
// many goroutines.
//
// No method sends a swap twice: one that was done is refused the second time, and would look as if
// another process had written.
type Cells interface {
	// Look reads the cells of items, and after them those of notes: cells[i] is that of names[i]. A note
	// is read after its item or at the same moment, for it may leave its item meanwhile, and has
	// to be seen in one of the two. So a store with Together reads all at one moment, and any other
	// reads names[0], the one item, before the rest. at is the name of the first item: all cells are
	// on its server. There are up to maxItems items, or those of one take, and maxNoted notes.
	Look(ctx context.Context, at string, names []string, cells []Cell) error
	// Swap writes cells, and fills in Version and Life of each. written is false if a cell was not
	// what its Swap had seen: then none of them is written. After a lost answer they may have been
	// written; the error tells the caller that.
	//
	// A store with Together gets swaps of several items, and writes all of them or none. Every store gets
	// several swaps that are Any, up to maxNotes and more, and may write these one by one.
	//
	// It returns an error that wraps ErrEpoch, and sends nothing, if a Version is of another epoch. It does
	// not connect: the cells were seen a moment ago.
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
	// Err is why this cell can't be used while others can: it holds what is no count, say. The engine
	// has it explained.
	Err error
}

// Version tells one write of a cell from all others.
type Version struct {
	// Number is the server's or the writer's number of the write; 0: there is no cell.
	Number uint64
	// Epoch changes when numbers may mean something else than before: a server that was restarted may
	// begin to number its writes anew. A cell that is not there has an epoch, too. With Together, all
	// cells have the same one.
	Epoch uint64
}

// ErrEpoch is a swap with a Version of another epoch. Nothing was sent, and nothing was decided.
var ErrEpoch = errors.New("it was reconnected meanwhile, and nothing was sent")

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
	// Together is whether a Swap can write any number of items at one moment. Then takes of several
	// descriptors are decided at one moment. Else they are decided one descriptor after the other, and
	// given back if a later one denies.
	Together bool
	// Traits are those of the store. Its Unfit, which it must have, also refuses asks.
	Traits weir.Traits
	// Name is the name of the item of a placement and key, of which no two have the same one. The
	// name of a note is longer by NoteMark and NoteRoom.
	Name func(k weir.StateKey) string
	// NoteMark is between the name of an item and the rest of a note's. No name of an item has it.
	NoteMark string
	// Clock is what takes are decided by. Nil: the clock of this process.
	Clock func() weir.Instant
}

// NoteRoom is what the name of a note has more than that of its item, beside NoteMark: its kind, and
// 64 bits in hexadecimal digits.
const NoteRoom = 1 + 16
