package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-limit/weir/internal/storeurl"
)

// maxDaemons is how many daemons a URL may name.
const maxDaemons = 64

// URLError says why a URL can't be meant.
type URLError struct{ Text string }

func (e *URLError) Error() string { return "client: " + e.Text }

// place is where a daemon is, and how it is spoken to. All that files of the URL say is in it already: a
// certificate or token that changes on disk is not read again.
type place struct {
	// name is as the URL or the look-up has it, and tells daemons apart. target is for gRPC: the
	// name with the scheme of a resolver. token is empty where there is none.
	name, target, token string
	authority           string // what its certificate is for; empty: the target's
	each                bool   // a daemon is at each address of the name
	// safe is a copy of this place's own, for a list or a look-up makes one connection of each.
	safe credentials.TransportCredentials
}

// parse reads a URL. It gives at least one place, and up to maxDaemons of a list, where no name is twice:
// daemons are told apart by their names. With +dns it gives the one name, which is to be looked up. All
// that it fails with is a *URLError.
func parse(address string) ([]*place, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || !slices.Contains([]string{"grpc", "grpcs", "grpc+dns", "grpcs+dns", "grpc+unix"}, scheme) {
		return nil, &URLError{"write grpc://HOST:PORT, grpcs://HOST:PORT for TLS, grpc+dns://NAME:PORT for a daemon at each address of a name, or grpc+unix:///PATH"}
	}
	scheme, each := strings.CutSuffix(scheme, "+dns")
	where, query, _ := strings.Cut(rest, "?")
	safe, token, err := parseQuery(scheme, query)
	if err != nil {
		return nil, &URLError{err.Error()}
	}
	if scheme == "grpc+unix" {
		if err := storeurl.Socket(where); err != nil {
			return nil, &URLError{err.Error()}
		}
		return []*place{{name: where, target: "unix:" + where, token: token, safe: safe}}, nil
	}
	var places []*place
	for host := range strings.SplitSeq(where, ",") {
		if err := checkHost(host, scheme, token); err != nil {
			return nil, &URLError{err.Error()}
		}
		if slices.ContainsFunc(places, func(p *place) bool { return p.name == host }) {
			return nil, &URLError{fmt.Sprintf("%q stands there twice; name each daemon once", host)}
		}
		if len(places) == maxDaemons {
			return nil, &URLError{fmt.Sprintf("more than %d daemons", maxDaemons)}
		}
		places = append(places, &place{name: host, target: "dns:///" + host, token: token, each: each, safe: safe.Clone()})
	}
	if each && len(places) > 1 {
		return nil, &URLError{"+dns takes one name, whose addresses are the daemons; or name each daemon, without +dns"}
	}
	return places, nil
}

// checkHost refuses what is no host:port of a daemon, and one that a token would be read on
// the way to.
func checkHost(host, scheme, token string) error {
	name, _, err := storeurl.HostPort(host)
	if err != nil {
		return err
	}
	if scheme == "grpc" && token != "" {
		if ip, err := netip.ParseAddr(name); name != "localhost" && (err != nil || !ip.IsLoopback()) {
			return fmt.Errorf("%q is not on this machine: a token could be read on the way; write grpcs://", host)
		}
	}
	return nil
}

// parseQuery reads the options behind the question mark, and the files that they name. An option that has
// no effect with the scheme is refused, so that nobody thinks a connection safe that is not.
func parseQuery(scheme, query string) (safe credentials.TransportCredentials, token string, err error) {
	files, err := storeurl.Options(query, "ca", "cert", "key", "token-file")
	if err != nil {
		return nil, "", err
	}
	if name := files["token-file"]; name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, "", fmt.Errorf("token-file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if token = strings.TrimSpace(line); token == "" {
			return nil, "", fmt.Errorf("token-file: the first line of %s is empty; write the token there", name)
		}
	}
	if scheme != "grpcs" {
		if files["ca"]+files["cert"]+files["key"] != "" {
			return nil, "", errors.New("ca, cert and key are for TLS; write grpcs://HOST:PORT")
		}
		return insecure.NewCredentials(), token, nil
	}
	config, err := tlsConfig(files["ca"], files["cert"], files["key"])
	return credentials.NewTLS(config), token, err
}

// tlsConfig is TLS 1.2 or later, for daemons that ca has signed; without ca, those that this machine trusts.
// cert and key are shown to daemons that ask for a certificate.
func tlsConfig(ca, cert, key string) (*tls.Config, error) {
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
		return nil, errors.New("cert and key go together; give both")
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
