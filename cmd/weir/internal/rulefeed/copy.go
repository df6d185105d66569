package rulefeed

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/weir-limit/weir"
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

// grantedSuffix is behind Options.Copy in the name of the copy of the exceptions.
const grantedSuffix = ".exceptions"

// keptException is a line of that copy, as JSON. Key has any bytes, which JSON has as base64.
type keptException struct {
	Rule  string
	Key   []byte
	Limit string
	Until int64 // microseconds since 1970
}

// keepExceptions writes the copy of the exceptions when it is due, or at once at the end.
func (f *Feed) keepExceptions(end bool) {
	if !f.exceptionsDirty || f.options.Copy == "" || !end && time.Since(f.exceptionsCopied) < exceptionsEvery {
		return
	}
	f.exceptionsCopied = time.Now()
	err := atomicfile.Make(f.options.Copy+grantedSuffix, func(to io.Writer) error {
		out := bufio.NewWriter(to)
		encode := json.NewEncoder(out)
		for e := range f.options.Exceptions.All {
			if err := encode.Encode(keptException{e.State.Rule, []byte(e.State.Key), e.Limit.String(), int64(e.Until)}); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	if f.exceptionsDirty = err != nil; err != nil {
		f.uncopied = fmt.Errorf("no copy of the exceptions is kept for a start without the database: %w", err)
	}
}

// readExceptions has the exceptions of the copy hold.
func (f *Feed) readExceptions(now time.Time) error {
	if f.options.Copy == "" {
		return fs.ErrNotExist
	}
	in, err := os.Open(f.options.Copy + grantedSuffix)
	if err != nil {
		return fmt.Errorf("the copy of the exceptions can't be read, and all have the limits of their rules: %w", err)
	}
	defer in.Close() // nothing was written, so there is nothing to lose
	var all []rules.Exception
	limits := map[string]*weir.Limit{}
	decode := json.NewDecoder(bufio.NewReader(in))
	for len(all) < rulestore.MaxExceptions {
		var k keptException
		err := decode.Decode(&k)
		if errors.Is(err, io.EOF) {
			break
		}
		l := limits[k.Limit]
		if err == nil && l == nil {
			l, err = weir.ParseLimit(k.Limit)
			limits[k.Limit] = l
		}
		if err != nil {
			return fmt.Errorf("the copy of the exceptions can't be read, and all have the limits of their rules: %w", err)
		}
		all = append(all, rules.Exception{State: weir.StateKey{Rule: k.Rule, Key: string(k.Key)}, Limit: l, Until: weir.Instant(k.Until)})
	}
	f.options.Exceptions.Change(all, true, weir.InstantOf(now))
	return nil
}
