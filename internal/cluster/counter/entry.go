package counter

import (
	"encoding/json"
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
)

// entryVersion is the version of the form of entries. A program that does not know a later one skips
// its entries; a program that knows more fields writes them beside these.
const entryVersion = 1

// Errors of ParseEntry.
var (
	// ErrForeign is of what another program has written.
	ErrForeign = errors.New("this is no entry of Weir")
	// ErrNewer is of an entry of a later version.
	ErrNewer = errors.New("this entry is of a later version of Weir")
)

// entryForm is an entry in JSON, on one line:
//
//	{"weir":1,"node":"a","process":1764000000000000,"rule":"api/user","key":"alice","limit":"100/min","slot":1,"sum":7,"new":2}
//	{"weir":1,"node":"a","process":1764000000000000,"rule":"api/user","key":"alice","reset":true}
//	{"weir":1,"node":"a","process":1764000000000000,"beat":12}
type entryForm struct {
	Weir    int    `json:"weir"`
	Node    string `json:"node"`
	Process uint64 `json:"process"`
	Rule    string `json:"rule,omitempty"`
	Key     string `json:"key,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Slot    uint64 `json:"slot,omitempty"`
	Sum     int64  `json:"sum,omitempty"`
	New     int64  `json:"new,omitempty"`
	Reset   bool   `json:"reset,omitempty"`
	Beat    int64  `json:"beat,omitempty"`
}

// Line is the entry as a log keeps it. Its texts are UTF-8.
func (e *Entry) Line() []byte {
	line, err := json.Marshal(entryForm{
		entryVersion, e.Node, e.Incarnation, e.Key.Rule, e.Key.Key, e.Limit, e.Slot, e.Sum, e.New, e.Reset, e.Beat,
	})
	if err != nil {
		panic("sharing: an entry can't be written: " + err.Error()) // it has texts and numbers only
	}
	return line
}

// ParseEntry reads a line. It fails with ErrForeign or ErrNewer.
func ParseEntry(line []byte) (Entry, error) {
	var f entryForm
	if len(line) > maxEntry {
		return Entry{}, ErrForeign
	}
	err := json.Unmarshal(line, &f)
	switch {
	case f.Weir > entryVersion:
		return Entry{}, ErrNewer
	case err != nil || f.Weir != entryVersion || !f.sound():
		return Entry{}, ErrForeign
	}
	return Entry{
		Key: weir.StateKey{Rule: f.Rule, Key: f.Key}, Limit: f.Limit, Node: f.Node, Incarnation: f.Process,
		Slot: f.Slot, Sum: f.Sum, New: f.New, Reset: f.Reset, Beat: f.Beat,
	}, nil
}

// maxEntry is how long the line of an entry is at most: each byte of a text may take six.
const maxEntry = 6*4*frame.MaxText + 1024

func (f *entryForm) sound() bool {
	if f.Node == "" || max(len(f.Node), len(f.Rule), len(f.Key), len(f.Limit)) > frame.MaxText {
		return false
	}
	if f.Beat > 0 || f.Reset {
		return true
	}
	return f.Limit != "" && f.Slot > 0 && f.Sum > 0 && f.Sum < 1<<62 && f.New > 0 && f.New <= f.Sum
}
