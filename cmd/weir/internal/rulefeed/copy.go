package rulefeed

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/atomicfile"
	"github.com/weir-limit/weir/rules"
)

// kept is what is in the file of a copy, as JSON.
type kept struct {
	Revision  int64
	Documents []rulestore.Document
}

// maxCopy is how much of a copy is read. Files in force and in shadow are in it,
// with some letters in two bytes.
const maxCopy = 4 * rules.MaxFileSize

func readCopy(path string) (k kept, err error) {
	if path == "" {
		return k, fs.ErrNotExist
	}
	f, err := os.Open(path)
	if err != nil {
		return k, fmt.Errorf("the copy of the rules can't be read: %w; let this user read it, or remove it", err)
	}
	defer f.Close() // nothing was written, so there is nothing to lose
	if err := json.NewDecoder(io.LimitReader(f, maxCopy)).Decode(&k); err != nil {
		return k, fmt.Errorf("the copy of the rules in %s can't be read: %w; remove it", path, err)
	}
	return k, nil
}

// writeCopy puts a copy in the place of the one before, whole or not at all.
func writeCopy(path string, k kept) error {
	err := atomicfile.Make(path, func(to io.Writer) error {
		encode := json.NewEncoder(to) // which writes once
		encode.SetEscapeHTML(false)   // it takes six bytes for one
		return encode.Encode(k)
	})
	if err != nil {
		return fmt.Errorf("no copy of the rules is kept for a start without the database: %w", err)
	}
	return nil
}
