// Walks counts how a reader has to move about in this repository. From its root:
//
//	make walks
//
// It prints two things, by static analysis.
//
// For each package, the share of arrows that run against the order of its files. An arrow
// goes from file A to file B where A names something that B declares: a type, a function, a
// method, a field. The order is the one in which a reader meets the files who starts at
// those that no other file names, follows each arrow to its file in the order of the text,
// and goes on when that file is done. An arrow runs against the order when it goes back to
// a file that is not done: the reader is sent round in a circle.
//
// For each listener, the walk of one request that passes, from bytes to bytes: the files
// in which the reader has to open a function, in the order of the calls that are given
// something of the request. An if that ends by leaving its function is a side exit, whose
// body is not walked. A function is read at its first call, and not again. One that calls
// none of the project is not opened: its name says what it does. An open is a call into
// another file, and it is a return upward when the file was opened before the calling one.
// Walks end at the store, which is another one.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	least := flag.Int("least", 5, "leave out packages with fewer arrows")
	against := flag.String("against", "", "list the arrows that run against the order in the package of this import path")
	flag.Parse()
	p, err := load(".")
	if err == nil {
		if *against != "" {
			err = p.list(os.Stdout, *against)
		} else {
			p.printArrows(os.Stdout, *least)
			err = p.printWalks(os.Stdout, routes())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "walks:", err)
		os.Exit(1)
	}
}
