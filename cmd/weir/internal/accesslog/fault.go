package accesslog

import "fmt"

// Fault is why a line does not count.
type Fault uint8

// The faults. A line has the first of them that was found.
const (
	// Whole is no fault: the line counts.
	Whole Fault = iota
	// Empty is a line without text.
	Empty
	// TooLong is a line longer than MaxLine.
	TooLong
	// NoObject is a line that is not one JSON object, in a log of those.
	NoObject
	// NoAddress, NoTime, NoRequest and NoStatus tell what could not be read.
	NoAddress
	NoTime
	NoRequest
	NoStatus
)

var faultNames = [...]string{
	"whole", "empty", "longer than 1 MiB", "not one JSON object",
	"no address", "no time", "no request", "no status",
}

// String is the fault in words.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// MaxDamaged is how many lines that do not count a Reader names; the others it
// only counts.
const MaxDamaged = 5

// Damaged is a line that does not count.
type Damaged struct {
	Line  int64 // its number, from 1
	Fault Fault
}
