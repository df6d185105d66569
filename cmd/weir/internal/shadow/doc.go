// Package shadow counts how candidates, rules that may come into force, differ
// each from the active one, and judges by it whether it may replace that.
//
// judge.go says whether a candidate may replace the active rules; package rules runs it.
package shadow
