package rules

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles is how many rule files a folder may have, and documents an export. All together they may
// have MaxFileSize bytes.
const maxFiles = 10_000

// Load reads a rule file, or the *.yaml and *.yml of a folder: links are
// followed, folders inside and names with a dot in front are passed over. Two
// files may not have the same domain.
//
// A folder is read as a ConfigMap of Kubernetes lays it out: its files are links into a folder that
// begins with a dot, and are put in place all at once.
//
// It fails with an *Error that has the errors of all files; with an error that
// is fs.ErrNotExist when there is no such file, or none in the folder; or when
// a file can't be read.
func Load(path string) (*Set, error) {
	names, err := Files(path)
	if err != nil {
		return nil, fmt.Errorf("load rules: %w", err)
	}
	texts := make([]*fileText, len(names))
	left := int64(MaxFileSize)
	for i, name := range names {
		text, err := readBounded(name, left)
		if err != nil {
			return nil, fmt.Errorf("load rules: %w", err)
		}
		left -= int64(len(text))
		texts[i] = &fileText{name: name, text: text}
	}
	return collect(texts)
}

// Files is what Load reads: path, or the rule files in it when it is a folder,
// sorted. It fails as Load does.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; write the path of a rule file, or of a folder of *.yaml files", err)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !isRuleFile(e.Name()) {
			continue
		}
		name := filepath.Join(path, e.Name())
		info, err := os.Stat(name) // follows links
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			continue
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is not a regular file", name)
		}
		names = append(names, name)
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("no *.yaml or *.yml in %s: %w", path, fs.ErrNotExist)
	case len(names) > maxFiles:
		return nil, fmt.Errorf("%d rule files in %s; there may be %d", len(names), path, maxFiles)
	}
	return names, nil
}

// isRuleFile is whether a file of a folder has rules, by its name.
func isRuleFile(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

// ParseFolder is Load of a folder that is at hand: the texts of its files by their names, as the data of
// a ConfigMap. It fails as Load does. texts are not changed, and must not change while the Set is in use.
func ParseFolder(texts map[string][]byte) (*Set, error) {
	var files []*fileText
	left := MaxFileSize
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !isRuleFile(name) {
			continue
		}
		if left -= len(texts[name]); left < 0 {
			return nil, fmt.Errorf("load rules: %s: rule files have at most %d bytes, all together", name, MaxFileSize)
		}
		files = append(files, &fileText{name: name, text: texts[name]})
	}
	switch {
	case len(files) == 0:
		return nil, fmt.Errorf("load rules: no *.yaml or *.yml: %w", fs.ErrNotExist)
	case len(files) > maxFiles:
		return nil, fmt.Errorf("load rules: %d rule files; there may be %d", len(files), maxFiles)
	}
	return collect(files)
}

// readBounded reads a file of at most most bytes. It reads one byte more than that to tell
// a file that is too large, whatever its size was said to be.
func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written, so there is nothing to lose
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: rule files have at most %d bytes, all together", name, MaxFileSize)
	}
	return text, nil
}
