package redisstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/rueidis"
)

// maxPassword is how long a line of a password file may be, in bytes.
const maxPassword = 1 << 10

// passwordOf is the first line of a file.
func passwordOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("password-file: %s is no file; write the path of one", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+2))
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	switch line = strings.TrimSuffix(line, "\r"); {
	case line == "":
		return "", fmt.Errorf("password-file: the first line of %s is empty; write the password there", file)
	case len(line) > maxPassword:
		return "", fmt.Errorf("password-file: the first line of %s has more than %d characters; is it the right file?", file, maxPassword)
	}
	return line, nil
}

// fromFile has the password read from a file for each connection that is made, so that one that was
// changed there opens without a restart. It is read once at the start, too: a file that can't be
// read is a fault of the URL, and should not wait for the first call to show.
func fromFile(file string, option *rueidis.ClientOption) error {
	if option.Password != "" {
		return errors.New("there is a password in the URL and a password-file; leave one out")
	}
	if _, err := passwordOf(file); err != nil {
		return err
	}
	user := option.Username
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := passwordOf(file)
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
	return nil
}
