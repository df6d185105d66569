package boottime

import (
	"runtime"
	"testing"
	"time"
)

func TestNow(t *testing.T) {
	before, ok := Now()
	if ok != (runtime.GOOS == "linux") {
		t.Error("the system tells:", ok)
	}
	time.Sleep(time.Millisecond)
	if after, _ := Now(); ok && after < before+time.Millisecond {
		t.Error(before, "and a millisecond later", after)
	}
}
