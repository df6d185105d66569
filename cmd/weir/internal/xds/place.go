package xds

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/internal/storeurl"
)

const scheme = "xds://"

// Is is whether a text names a control plane, and not a file or a daemon.
func Is(place string) bool { return strings.HasPrefix(place, scheme) }

// The options of a URL. The package comment says what they are for.
const (
	optionNode         = "node"
	optionNodeMetadata = "node-metadata"
	optionMetadata     = "metadata"
	optionTLS          = "tls"
	optionCA           = "ca"
	optionCert         = "cert"
	optionKey          = "key"
	optionServerName   = "server-name"
	optionLast         = "last"
	optionWait         = "wait"
	optionForceStart   = "force-start"
)

const (
	// defaultWait is how long a start waits for the first rules, and maxWait how long it may be told to.
	defaultWait = 5 * time.Second
	maxWait     = 10 * time.Minute
)

// place is what the URL of a control plane says.
type place struct {
	name    string // of the URL, without options: they may have secrets
	address string
	node    *corev3.Node
	headers metadata.MD
	tls     bool
	show    credentials.Client
	server  string // whose name the certificate there must have; empty: the host's
	last    string // the file of the last good copy; empty: the one of the URL
	wait    time.Duration
	force   bool // to start without rules
}

func parsePlace(text string) (*place, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Fragment != "":
		return nil, errors.New("the URL can't be read; write xds://HOST:PORT?node=NAME")
	case u.User != nil:
		return nil, errors.New("a control plane takes no user and password; show it a certificate by cert and key, or a token by metadata=authorization:TOKEN")
	case strings.Trim(u.Path, "/") != "":
		return nil, errors.New("a control plane has no path; write xds://HOST:PORT?node=NAME")
	}
	if _, _, err := storeurl.HostPort(u.Host); err != nil {
		return nil, fmt.Errorf("%w, as in xds://HOST:PORT?node=NAME", err)
	}
	given, err := storeurl.Options(u.RawQuery, optionNode, optionNodeMetadata, optionMetadata, optionTLS, optionCA, optionCert, optionKey,
		optionServerName, optionLast, optionWait, optionForceStart)
	if err != nil {
		return nil, err
	}
	if given[optionNode] == "" {
		return nil, errors.New("node is missing: by it the control plane knows which rules are meant; write xds://HOST:PORT?node=NAME (Envoy Gateway calls it envoy-ratelimit)")
	}
	p := &place{
		name: scheme + u.Host, address: u.Host, server: given[optionServerName], last: given[optionLast], wait: defaultWait,
		node: &corev3.Node{Id: given[optionNode], UserAgentName: "weir"},
	}
	file := func(option string) credentials.File {
		return credentials.File{Flag: "--rules: " + option, Path: given[option]}
	}
	p.show = credentials.Client{CA: file(optionCA), Certificate: file(optionCert), Key: file(optionKey)}
	return p, errors.Join(p.readTLS(given), p.readMetadata(given), p.readStart(given))
}

func (p *place) readTLS(given map[string]string) (err error) {
	wants := p.show.WantsTLS() || p.server != ""
	p.tls = wants
	if text := given[optionTLS]; text != "" {
		if p.tls, err = flag(optionTLS, text); err == nil && wants && !p.tls {
			return errors.New("tls=false excludes ca, cert, key and server-name; leave one of them out")
		}
	}
	return err
}

// readMetadata reads what the control plane is told: metadata of gRPC as KEY:VALUE,…, and metadata of the node as KEY=VALUE,… in one option each.
func (p *place) readMetadata(given map[string]string) error {
	headers, err := pairs(optionMetadata, given[optionMetadata], ":")
	if err != nil {
		return err
	}
	p.headers = metadata.MD{}
	for _, h := range headers {
		if strings.HasPrefix(h[0], "grpc-") || strings.HasPrefix(h[0], ":") || strings.ContainsFunc(h[0], notInHeader) || strings.ContainsFunc(h[1], notPrintable) {
			return fmt.Errorf("metadata: a key has letters, digits, . - and _, and does not begin with grpc-; a value is printable ASCII: %s is no such pair", h[0])
		}
		p.headers.Append(h[0], h[1])
	}
	fields, err := pairs(optionNodeMetadata, given[optionNodeMetadata], "=")
	if err != nil || fields == nil {
		return err
	}
	p.node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for _, f := range fields {
		p.node.Metadata.Fields[f[0]] = structpb.NewStringValue(f[1])
	}
	return nil
}

func notInHeader(r rune) bool {
	letter, digit := 'a' <= r|0x20 && r|0x20 <= 'z', '0' <= r && r <= '9'
	return !letter && !digit && !strings.ContainsRune(".-_", r)
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// pairs reads KEY:VALUE,KEY:VALUE. Errors name no values, which may be secret.
func pairs(option, text, between string) (all [][2]string, err error) {
	if text == "" {
		return nil, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), between)
		if !ok || key == "" {
			return nil, fmt.Errorf("%s is a list of KEY%sVALUE, with commas between them", option, between)
		}
		all = append(all, [2]string{key, value})
	}
	return all, nil
}

func (p *place) readStart(given map[string]string) (err error) {
	if text := given[optionForceStart]; text != "" {
		if p.force, err = flag(optionForceStart, text); err != nil {
			return err
		}
	}
	if text := given[optionWait]; text != "" {
		if p.wait, err = time.ParseDuration(text); err != nil || p.wait <= 0 || p.wait > maxWait {
			return fmt.Errorf("wait=%s is no time up to %v; write wait=5s", text, maxWait)
		}
	}
	return nil
}

func flag(option, text string) (bool, error) {
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s=%s: write %[1]s=true or %[1]s=false", option, text)
	}
	return yes, nil
}
