package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// TLS is what the files of a URL's options ca, cert and key say, which are PEM; each may be empty.
func TLS(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxPassword is how long a line of a password file may be, in bytes.
const maxPassword = 1 << 10

// Password is the first line of the file that a URL's option password-file names.
func Password(file string) (string, error) {
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
