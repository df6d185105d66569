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
	user := option.Username
	option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := storeurl.Password(file)
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
	return nil
}
