package redisstore

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir/internal/storeurl"
)

// fromFile has the password read from a file for each connection that is made, so that one that was
// changed there opens without a restart. It is read once at the start, too: a file that can't be
// read is a fault of the URL, and should not wait for the first call to show.
func fromFile(file string, option *rueidis.ClientOption) error {
	if option.Password != "" {
		return errors.New("there is a password in the URL and a password-file; leave one out")
	}
	if _, err := storeurl.Password(file); err != nil {
		return err
	}
	return Password(func() (string, error) { return storeurl.Password(file) }).into(option)
}

// Password gives the password of the URL's user. It is asked for each connection that is made, so that one that
// changed opens without a restart. Several goroutines may ask at a time. When it fails, so does the
// connection, with its error, which must not tell the password.
type Password func() (string, error)

// into has connections be opened by the password.
func (p Password) into(option *rueidis.ClientOption) error {
	if p == nil {
		return nil
	}
	if option.Password != "" || option.AuthCredentialsFn != nil {
		return &URLError{"the URL has a password, or a password-file, and there is another; leave one out"}
	}
	user := option.Username
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := p()
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
	return nil
}
