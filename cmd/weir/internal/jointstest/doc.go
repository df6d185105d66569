// Package jointstest tests the product where its parts meet: rules, listeners, stores, reloads,
// restarts and clusters, drawn at random and held to an oracle that shares no code with them.
// It has tests only. A run that fails is shrunk to a story of a few lines, and kept in
// testdata.
package jointstest
