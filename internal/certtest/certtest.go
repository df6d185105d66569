// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA gives certificates.
type CA struct {
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewCA makes a CA that is good for a day.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(t, template, template, key, key)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &CA{block("CERTIFICATE", der), certificate, key}
}

// Pool is a pool of this CA alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	return pool
}

// Pair is a certificate and its key, both PEM.
type Pair struct{ Certificate, Key []byte }

// Issue makes a certificate for names, 127.0.0.1 and ::1, for servers and for
// clients. It is good for an hour.
func (ca *CA) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	return ca.IssueFrom(t, time.Now().Add(-time.Minute), time.Hour, names...)
}

// IssueFrom is Issue for another time.
func (ca *CA) IssueFrom(t testing.TB, from time.Time, good time.Duration, names ...string) Pair {
	t.Helper()
	return ca.issue(t, &x509.Certificate{NotBefore: from, NotAfter: from.Add(good), DNSNames: names})
}

// IssueURIs is Issue for a client that is named by URIs.
func (ca *CA) IssueURIs(t testing.TB, uris ...string) Pair {
	t.Helper()
	template := &x509.Certificate{NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
	for _, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	return ca.issue(t, template)
}

func (ca *CA) issue(t testing.TB, template *x509.Certificate) Pair {
	t.Helper()
	key := newKey(t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := sign(t, template, ca.certificate, key, ca.key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{block("CERTIFICATE", der), block("PRIVATE KEY", private)}
}

// TLS is the pair for use in this process.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Files writes the pair into a folder of its own.
func (p Pair) Files(t testing.TB) (certificate, key string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	Write(t, certificate, p.Certificate)
	Write(t, key, p.Key)
	return certificate, key
}

// File writes text into a file of its own.
func File(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, text)
	return path
}

// Write puts text in the place of a file, by renaming.
func Write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
