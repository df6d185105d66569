// Package shadow counts how candidates, rules that may come into force, differ
// from those that are, and judges by it whether one may replace them.
package shadow
