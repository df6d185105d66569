package credentials

import (
	"encoding/hex"
	"time"
)

// maxShared is how many shared keys a file may have: the old one, the new one, and
// what is being tried.
const maxShared = 4

// SharedKeys are secret keys that several processes have. The first is used, the other keys are
// known as well, so that one takes the place of another without a break.
type SharedKeys struct{ *Files[[][]byte] }

// OpenSharedKeys reads a file of keys, one a line in hexadecimal digits: 16, 24 or 32
// bytes each. It fails with an *Error.
func OpenSharedKeys(now time.Time, file File) (*SharedKeys, error) {
	f, err := open(now, readSharedKeys, file)
	if err != nil {
		return nil, err
	}
	return &SharedKeys{f}, nil
}

// Exposed says that other users of the machine may read the file; empty when they may not.
func (s *SharedKeys) Exposed() string { return exposed(s.files[0]) }

func readSharedKeys(texts [][]byte, _ time.Time) (keys [][]byte, err error) {
	const should = "write 32, 48 or 64 hexadecimal digits, as from: weir cluster keygen"
	err = eachLine(texts[0], 0, maxShared, should, func(line []byte) string {
		key, err := hex.DecodeString(string(line))
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return "is no key; " + should
		}
		keys = append(keys, key)
		return ""
	})
	return keys, err
}
