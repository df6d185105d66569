package openid

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The bounds of calls to the provider.
const (
	callTime = 10 * time.Second // each
	// maxAnswer is how large an answer may be, in bytes. A larger one is none.
	maxAnswer = 1 << 20
	// maxCalls is how many sign-ins may ask the provider at a time. One more is answered 503.
	maxCalls = 16
)

// newClient makes what calls the provider, and only it: to follow a redirect might give the secret to others.
func newClient() *http.Client {
	return &http.Client{
		Timeout: callTime, Transport: short{http.DefaultTransport.(*http.Transport).Clone()},
		CheckRedirect: func(q *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it sends on to %s; write the URL of the provider itself", q.URL.Redacted())
		},
	}
}

// short cuts off answers that are too large.
type short struct{ next http.RoundTripper }

func (s short) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := s.next.RoundTrip(q)
	if err == nil {
		r.Body = &body{r.Body, maxAnswer}
	}
	return r, err
}

// body is that of an answer.
type body struct {
	io.ReadCloser
	left int
}

var errLarge = errors.New("its answer is too large")

func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, errLarge
	}
	return n, err
}

// Safe is whether nobody on the way to a URL can read or change what is sent: it is https, or of this machine.
func Safe(place string) bool {
	u, err := url.Parse(place)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
