package credentials

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"
)

// The bounds of a file of secrets. A file beyond them is refused.
const (
	minSecret  = 16 // bytes
	maxSecret  = 1024
	maxSecrets = 16
)

// Secrets are tokens or passwords, each of which opens: a new one stands beside
// the old one until all know it. Kept are their SHA-256 sums.
type Secrets struct{ *Files[[]digest] }

// OpenSecrets reads a file of secrets, one a line. It fails with an *Error.
func OpenSecrets(now time.Time, file File) (*Secrets, error) {
	f, err := open(now, readSecrets, file)
	if err != nil {
		return nil, err
	}
	return &Secrets{f}, nil
}

// Exposed says that other users of the machine may read the file; empty when they may not.
func (s *Secrets) Exposed() string { return exposed(s.files[0]) }

// Has is whether secret is one of them. How long it takes says nothing of them.
func (s *Secrets) Has(secret []byte) bool {
	given, found := sha256.Sum256(secret), 0
	for _, one := range s.Value() {
		found |= subtle.ConstantTimeCompare(given[:], one[:])
	}
	return found == 1
}

// Secret is one secret that is shown to others, in the first line of a file.
type Secret struct{ *Files[string] }

// OpenSecret reads the file of a secret. It fails with an *Error.
func OpenSecret(now time.Time, file File) (*Secret, error) {
	f, err := open(now, func(texts [][]byte, _ time.Time) (string, error) {
		lines, err := secretLines(texts[0], 0)
		if err != nil {
			return "", err
		}
		return string(lines[0]), nil
	}, file)
	if err != nil {
		return nil, err
	}
	return &Secret{f}, nil
}

// Exposed says that other users of the machine may read the file; empty when they may not.
func (s *Secret) Exposed() string { return exposed(s.files[0]) }

// Any is whether one of them has a SHA-256 sum that is meant.
func (s *Secrets) Any(is func(sum [sha256.Size]byte) bool) bool {
	for _, one := range s.Value() {
		if is(one) {
			return true
		}
	}
	return false
}

func readSecrets(texts [][]byte, _ time.Time) ([]digest, error) {
	lines, err := secretLines(texts[0], 0)
	if err != nil {
		return nil, err
	}
	var sums []digest
	for _, line := range lines {
		sums = append(sums, sha256.Sum256(line))
	}
	return sums, nil
}

// secretLines is the secrets of a file. A comment would be one too, so it is
// refused for its spaces.
func secretLines(text []byte, file int) (secrets [][]byte, err error) {
	err = eachLine(text, file, maxSecrets, "write one secret a line, as from: openssl rand -hex 32", func(line []byte) string {
		secrets = append(secrets, line)
		switch {
		case bytes.ContainsFunc(line, func(r rune) bool { return r < '!' || r > '~' }):
			return "has a space or a character that is not ASCII; write one secret a line and nothing else, no comments"
		case len(line) < minSecret:
			return fmt.Sprintf("has %d characters and can be guessed; take %d at least, as from: openssl rand -hex 32", len(line), minSecret)
		case len(line) > maxSecret:
			return fmt.Sprintf("has %d characters; there may be %d", len(line), maxSecret)
		}
		return ""
	})
	return secrets, err
}

// eachLine reads a file that has one thing a line, and most at most. read says what is
// wrong with a line, and should how to write one.
func eachLine(text []byte, file, most int, should string, read func(line []byte) string) error {
	found := 0
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		bad := read(line)
		if found++; bad == "" && found > most {
			bad = fmt.Sprintf("is one too many; keep the %d that are in use", most)
		}
		if bad != "" {
			return &fault{file, fmt.Sprintf("line %d %s", i+1, bad)}
		}
	}
	if found == 0 {
		return &fault{file, "there is nothing in it; " + should}
	}
	return nil
}
