package storetest

import "testing"

// TestModelChanges holds the rule for changed limits to what it promises, as stores are.
func TestModelChanges(t *testing.T) {
	runChanges(t, func(testing.TB, string) Clocked { return NewModel() }, true)
}
