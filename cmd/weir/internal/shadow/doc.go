// Package shadow counts how candidates, rules that may come into force, differ
// from those that are, and judges by it whether one may replace them.
//
// judge.go says whether a candidate may replace the active rules; package rules runs it.
package shadow
