package source

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-limit/weir/internal/atomicfile"
	"github.com/weir-limit/weir/rules"
)

// DefaultCache is the file where the rules of a URL are kept: weir/rules in the
// user's cache folder ($XDG_CACHE_HOME or ~/.cache on Linux), named by the hash
// of the URL. It fails where there is no such folder.
func DefaultCache(url string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weir", "rules", fmt.Sprintf("%x.yaml", sha256.Sum256([]byte(url)))), nil
}

// cache is the name of a file with the last good copy, or empty: there is none.
type cache string

func (c cache) read() ([]byte, error) {
	if c == "" {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(string(c))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, rules.MaxFileSize+1)) // ParseExport refuses more
}

// write puts text in the place of the copy, whole or not at all.
func (c cache) write(text []byte) error {
	return atomicfile.Put(string(c), text)
}
