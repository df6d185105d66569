package suggest

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
)

// Window is the period of suggested limits.
type Window string

// The windows.
const (
	Second Window = "s"
	Minute Window = "min"
	Hour   Window = "h"
)

// ParseWindow is the window of that name.
func ParseWindow(name string) (Window, error) {
	switch w := Window(name); w {
	case Second, Minute, Hour:
		return w, nil
	}
	return "", fmt.Errorf("%q is none of s, min and h", name)
}

// length is how long the window is.
func (w Window) length() weir.Instant {
	d := time.Minute
	switch w {
	case Second:
		d = time.Second
	case Hour:
		d = time.Hour
	case Minute:
	}
	return weir.Instant(d.Microseconds())
}
