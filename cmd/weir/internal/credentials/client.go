package credentials

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Client is what a client of a daemon shows, and whom it believes. All may be
// without a path. Its files are read again for each request.
type Client struct{ Token, CA, Certificate, Key File }

// Given is whether anything is.
func (c *Client) Given() bool { return c.Token.Path != "" || c.WantsTLS() }

// WantsTLS is whether there is something that only https uses.
func (c *Client) WantsTLS() bool { return c.forTLS().Path != "" }

// forTLS is the first file that only https uses.
func (c *Client) forTLS() File {
	for _, f := range []File{c.CA, c.Certificate, c.Key} {
		if f.Path != "" {
			return f
		}
	}
	return File{}
}

// shown is what the files of a Client say.
type shown struct {
	authorization string
	transport     *http.Transport
}

// transport sends requests to one daemon with what a Client shows.
type transport struct {
	*Files[shown]

	scheme, host string // who may see it
}

// Transport carries requests to the daemon at u. It reads the files, and fails
// with an *Error.
func (c *Client) Transport(u *url.URL) (http.RoundTripper, error) {
	if err := c.paired(); err != nil {
		return nil, err
	}
	if c.WantsTLS() && u.Scheme != "https" {
		return nil, &Error{c.forTLS(), u.Scheme + "://" + u.Host + " knows no certificates; write https://" + u.Host}
	}
	f, err := open(time.Now(), readShown, c.Token, c.CA, c.Certificate, c.Key)
	if err != nil {
		return nil, err
	}
	return &transport{f, u.Scheme, u.Host}, nil
}

func readShown(texts [][]byte, now time.Time) (s shown, err error) {
	if texts[0] != nil {
		tokens, err := secretLines(texts[0], 0)
		if err != nil {
			return s, err
		}
		s.authorization = "Bearer " + string(tokens[0])
	}
	config, err := readConfig(texts, 1, now)
	if err != nil {
		return s, err
	}
	s.transport = http.DefaultTransport.(*http.Transport).Clone()
	s.transport.TLSClientConfig = config
	return s, nil
}

// readConfig is what a client believes and shows that has the files of a CA, a certificate
// and its key from texts[ca] on; each may be nil.
func readConfig(texts [][]byte, ca int, now time.Time) (config *tls.Config, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if texts[ca] != nil {
		if config.RootCAs, err = readAuthorities(texts, ca, now); err != nil {
			return nil, err
		}
	}
	if texts[ca+1] != nil {
		pair, err := readPair(texts, ca+1, now)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ClientTLS is what a client believes and shows that speaks TLS, and not HTTP: Look reads its files again, before
// each connection.
type ClientTLS struct{ *Files[*tls.Config] }

// TLS reads the files of CA, Certificate and Key. It fails with an *Error.
func (c *Client) TLS(now time.Time) (*ClientTLS, error) {
	if err := c.paired(); err != nil {
		return nil, err
	}
	parse := func(texts [][]byte, now time.Time) (*tls.Config, error) { return readConfig(texts, 0, now) }
	f, err := open(now, parse, c.CA, c.Certificate, c.Key)
	if err != nil {
		return nil, err
	}
	return &ClientTLS{f}, nil
}

// paired refuses a certificate without its key, and a key without its certificate.
func (c *Client) paired() error {
	switch {
	case (c.Certificate.Path == "") == (c.Key.Path == ""):
		return nil
	case c.Certificate.Path == "":
		return &Error{c.Key, "a certificate and its key go together; give " + c.Certificate.Flag + " too, or neither"}
	}
	return &Error{c.Certificate, "a certificate and its key go together; give " + c.Key.Flag + " too, or neither"}
}

// RoundTrip sends a request. The token goes to the daemon it is for, and not
// where that redirects to.
func (t *transport) RoundTrip(q *http.Request) (*http.Response, error) {
	before := t.Value().transport
	if _, err := t.Look(time.Now(), true); err != nil {
		return nil, err
	}
	now := t.Value()
	if now.transport != before {
		before.CloseIdleConnections()
	}
	if q.URL.Scheme != t.scheme || q.URL.Host != t.host {
		return nil, fmt.Errorf("%s sends on to %s, which is another daemon; ask that one", t.host, q.URL.Host)
	}
	if now.authorization != "" {
		q = q.Clone(q.Context())
		q.Header.Set("Authorization", now.authorization)
	}
	return now.transport.RoundTrip(q)
}
