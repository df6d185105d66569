package accesslog

// Fault is why a line does not count, in words.
type Fault string

// The faults. A line has the first of them that was found.
const (
	// Whole is no fault: the line counts.
	Whole Fault = ""
	// Empty is a line without text.
	Empty Fault = "empty"
	// TooLong is a line longer than MaxLine.
	TooLong Fault = "longer than 1 MiB"
	// NoObject is a line that is not one JSON object, in a log of those.
	NoObject Fault = "not one JSON object"
	// NoAddress, NoTime, NoRequest and NoStatus tell what could not be read.
	NoAddress Fault = "no address"
	NoTime    Fault = "no time"
	NoRequest Fault = "no request"
	NoStatus  Fault = "no status"
)

// MaxDamaged is how many lines that do not count a Reader names; the others it
// only counts.
const MaxDamaged = 5

// Damaged is a line that does not count.
type Damaged struct {
	Line  int64 // its number, from 1
	Fault Fault
}
