package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// optionCreds is a file with the credentials of a user.
const optionCreds = "creds"

const (
	// natsReconnect is how often a server that is away is tried again.
	natsReconnect = 500 * time.Millisecond
	// natsPing is how often a silent connection is asked whether it is still one; the second time without
	// an answer ends it.
	natsPing = 5 * time.Second
)

// NATS is a subject at NATS servers.
type NATS struct {
	Subject string
	Options map[string]string // those that the caller of ParseNATS knows

	place
	connect []nats.Option
}

// IsNATS is whether a URL is one of NATS.
func IsNATS(url string) bool { return strings.HasPrefix(url, "nats://") }

// ParseNATS reads a URL, nats://[USER:PASSWORD@]HOST:PORT[,…]/SUBJECT, and connects to nobody. A user
// without a password is a token. known are the options that the caller has itself.
func ParseNATS(url string, known ...string) (*NATS, error) {
	p, err := readURL(url, "subject", append([]string{optionCreds}, known...))
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(p.name, "*>") || strings.HasPrefix(p.name, ".") || strings.HasSuffix(p.name, ".") || strings.Contains(p.name, "..") {
		return nil, fmt.Errorf("%q is no subject to publish to; it has words with dots between them, and no * or >", p.name)
	}
	n := &NATS{Subject: p.name, Options: p.options, place: p}
	secure, err := p.tls()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		n.connect = append(n.connect, nats.Secure(secure))
	}
	switch {
	case p.options[optionCreds] != "":
		n.connect = append(n.connect, nats.UserCredentials(p.options[optionCreds]))
	case p.password != "":
		n.connect = append(n.connect, nats.UserInfo(p.user, p.password))
	case p.user != "":
		n.connect = append(n.connect, nats.Token(p.user))
	}
	return n, nil
}

// Connect connects, now or when a server is there. What is published while none is fails at once.
func (n *NATS) Connect(o ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{
		nats.Name("weir"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(natsReconnect), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(natsPing), nats.MaxPingsOutstanding(2),
	}, n.connect...)
	servers := make([]string, len(n.hosts))
	for i, host := range n.hosts {
		servers[i] = "nats://" + host
	}
	return nats.Connect(strings.Join(servers, ","), append(all, o...)...)
}
