package credentials

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// readPair reads the certificate and the key of texts[certificate] and the file
// after it.
func readPair(texts [][]byte, certificate int, now time.Time) (pair tls.Certificate, err error) {
	key := certificate + 1
	pair, err = tls.X509KeyPair(texts[certificate], texts[key])
	if err != nil {
		return pair, pairFault(texts, certificate, err)
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return pair, &fault{certificate, "it expired on " + day(leaf.NotAfter) + "; renew it"}
	case now.Before(leaf.NotBefore):
		return pair, &fault{certificate, "it is valid from " + day(leaf.NotBefore) + "; wait, or set the clock of this machine right"}
	}
	return pair, nil
}

// pairFault says which of a pair is wrong.
func pairFault(texts [][]byte, certificate int, err error) *fault {
	key := certificate + 1
	text := strings.TrimPrefix(err.Error(), "tls: ")
	switch {
	case bytes.Contains(texts[key], []byte("ENCRYPTED")):
		return &fault{key, "it is locked with a passphrase; write it without: openssl pkey -in FILE -out FILE"}
	case strings.Contains(text, "does not match"), strings.Contains(text, "private key type"):
		return &fault{key, "it is not the key of the certificate; give the two that were made together, in the file of certificates the server's own first"}
	case strings.Contains(text, "key input"), strings.Contains(text, "parse private key"), strings.Contains(text, "for the key"):
		return &fault{key, text + "; write one private key in PEM"}
	}
	return &fault{certificate, text + "; write the certificate in PEM, followed by the chain to its CA"}
}

// readAuthorities reads the certificates of texts[file].
func readAuthorities(texts [][]byte, file int, now time.Time) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	valid, expired := 0, time.Time{}
	for rest := texts[file]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, &fault{file, fmt.Sprintf("there is a %q in it; it may hold certificates only", block.Type)}
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &fault{file, strings.TrimPrefix(err.Error(), "x509: ") + "; write the certificates of CAs in PEM"}
		}
		if now.After(c.NotAfter) {
			expired = c.NotAfter
			continue
		}
		valid++
		pool.AddCert(c)
	}
	switch {
	case valid > 0:
		return pool, nil
	case !expired.IsZero():
		return nil, &fault{file, "it expired on " + day(expired) + "; renew it"}
	}
	return nil, &fault{file, "there is no certificate in it; write certificates of CAs in PEM"}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
