package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// identity is what a server shows, and whom it believes.
type identity struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil: it asks for no certificate
}

// Server is the certificate of a server, and the CA of its clients.
type Server struct{ *Files[identity] }

// OpenServer reads a certificate, its key, and the CA of clients, which may have
// no path. It fails with an *Error.
func OpenServer(now time.Time, certificate, key, clients File) (*Server, error) {
	f, err := open(now, readIdentity, certificate, key, clients)
	if err != nil {
		return nil, err
	}
	return &Server{f}, nil
}

func readIdentity(texts [][]byte, now time.Time) (i identity, err error) {
	if i.pair, err = readPair(texts, 0, now); err == nil && texts[2] != nil {
		i.clients, err = readAuthorities(texts, 2, now)
	}
	return i, err
}

// Exposed says that other users of the machine may read the key; empty when they may not.
func (s *Server) Exposed() string { return exposed(s.files[1]) }

// Leaf is the active certificate.
func (s *Server) Leaf() *x509.Certificate { return s.Value().pair.Leaf }

// Config is for a listener that speaks protocols, by their names in ALPN. Each
// handshake takes the files as they are then. ask is how clients are asked for a
// certificate when there is a CA for them, and name what that must be for; empty: for any.
func (s *Server) Config(ask tls.ClientAuthType, name string, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		CipherSuites: suites(),
		NextProtos:   protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := s.Value()
			c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites(), NextProtos: protocols, Certificates: []tls.Certificate{now.pair}}
			if now.clients != nil {
				c.ClientAuth, c.ClientCAs = ask, now.clients
				if name != "" {
					c.VerifyConnection = func(t tls.ConnectionState) error { return named(&t, name) }
				}
			}
			return c, nil
		},
	}
}

// named fails for a client whose certificate is for another name. A client without one was let in without.
func named(t *tls.ConnectionState, name string) error {
	if len(t.PeerCertificates) == 0 {
		return nil
	}
	return t.PeerCertificates[0].VerifyHostname(name)
}

// suites are those of TLS 1.2 that HTTP/2 allows (RFC 9113, appendix A): with CBC, what
// was said could be guessed by how long an answer takes. TLS 1.3 has no others.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
