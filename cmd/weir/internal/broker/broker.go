// Package broker reads the URLs of brokers that carry messages, Kafka and NATS, and connects to
// them. What is sent there, and read, is for the packages that use it.
package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/weir-limit/weir/internal/storeurl"
)

// place is what a URL says: SCHEME://[USER[:PASSWORD]@]HOST:PORT[,HOST:PORT…]/NAME[?OPTIONS].
type place struct {
	hosts          []string // HOST:PORT
	user, password string
	name           string // of the topic or subject
	options        map[string]string
}

// The options that all brokers have.
const (
	optionTLS  = "tls"  // true: connections are encrypted
	optionCA   = "ca"   // a file with the CA of the brokers' certificates
	optionCert = "cert" // a file with a certificate to show, and
	optionKey  = "key"  // one with its key
)

var errOdd = errors.New("the user or the password can't be read; write each of %:/?@, as % and two digits")

// readURL takes a URL apart. known are the options besides those of all brokers. Errors have nothing of a
// URL but the part that is wrong, for it may have a password.
func readURL(rawURL, what string, known []string) (p place, err error) {
	_, rest, _ := strings.Cut(rawURL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, name, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
		var odd error
		p.user, err = url.PathUnescape(user)
		p.password, odd = url.PathUnescape(password)
		if err != nil || odd != nil {
			return p, errOdd
		}
	}
	for host := range strings.SplitSeq(authority, ",") {
		if _, _, err := storeurl.HostPort(host); err != nil {
			// A / or ? in a password ends the host's part too early: what is taken for a host is then a
			// part of the password.
			if strings.Contains(name+query, "@") {
				return p, errOdd
			}
			return p, err
		}
		p.hosts = append(p.hosts, host)
	}
	switch p.name = name; {
	case strings.Contains(name, "@"):
		return p, errOdd
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }):
		return p, fmt.Errorf("%q is no %s; write HOST:PORT/%s", name, what, strings.ToUpper(what))
	}
	known = append([]string{optionTLS, optionCA, optionCert, optionKey}, known...)
	p.options, err = storeurl.Options(query, known...)
	return p, err
}

// tls is how connections are encrypted; nil: they are not.
func (p *place) tls() (*tls.Config, error) {
	on := p.options[optionTLS]
	ca, cert, key := p.options[optionCA], p.options[optionCert], p.options[optionKey]
	switch {
	case on != "" && on != "true" && on != "false":
		return nil, fmt.Errorf("%s is %q; write true or false", optionTLS, on)
	case on == "false" && ca+cert+key != "", on == "" && ca+cert+key == "":
		if on == "" {
			return nil, nil
		}
		return nil, fmt.Errorf("%s, %s and %s are for TLS; leave out tls=false", optionCA, optionCert, optionKey)
	case on == "false":
		return nil, nil
	case (cert == "") != (key == ""):
		return nil, fmt.Errorf("a certificate and its key belong together: give both %s and %s", optionCert, optionKey)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", optionCA, ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
