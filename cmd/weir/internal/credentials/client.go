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
	switch {
	case (c.Certificate.Path == "") != (c.Key.Path == ""):
		return nil, &Error{c.Certificate, "a certificate and its key go together; give " + c.Key.Flag + " too, or neither"}
	case c.WantsTLS() && u.Scheme != "https":
		return nil, &Error{c.forTLS(), u.Scheme + "://" + u.Host + " knows no certificates; write https://" + u.Host}
	}
	f, err := open(time.Now(), readShown, c.Token, c.CA, c.Certificate, c.Key)
	if err != nil {
		return nil, err
	}
	return &transport{f, u.Scheme, u.Host}, nil
}

func readShown(texts [][]byte, now time.Time) (s shown, err error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if texts[0] != nil {
		tokens, err := secretLines(texts[0], 0)
		if err != nil {
			return s, err
		}
		s.authorization = "Bearer " + string(tokens[0])
	}
	if texts[1] != nil {
		if config.RootCAs, err = readAuthorities(texts, 1, now); err != nil {
			return s, err
		}
	}
	if texts[2] != nil {
		pair, err := readPair(texts, 2, now)
		if err != nil {
			return s, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	s.transport = http.DefaultTransport.(*http.Transport).Clone()
	s.transport.TLSClientConfig = config
	return s, nil
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
