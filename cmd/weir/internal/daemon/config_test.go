package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/rules"
)

func TestConfig(t *testing.T) {
	bad := func(err error) bool { _, ok := errors.AsType[*ConfigError](err); return ok }
	missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	rule := func(err error) bool { _, ok := errors.AsType[*rules.Error](err); return ok }
	certificate, key := certtest.NewCA(t).Issue(t).Files(t)
	_, other := certtest.NewCA(t).Issue(t).Files(t)
	for _, c := range []struct {
		name   string
		config Config
		is     func(error) bool
		says   string
	}{
		{"redis without a port", Config{Store: "redis://me:secret@host/0"}, bad, "--store: \"host\" is no host:port"},
		{"redis with a bad password", Config{Store: "redis://me:secret%zz@host:6379"}, bad, "--store: the address can't be read"},
		{"redis without slashes", Config{Store: "redis:me:secret@host:6379"}, bad, "--store: "},
		{"redis of no kind", Config{Store: "redis+magic://me:secret@host:6379"}, bad, "is no scheme of Redis"},
		{"cluster of hosts", Config{Store: "cluster:a:1,b:2"}, bad, "the nodes are for --join"},
		{"cluster on all addresses without a key", Config{Store: "cluster:", Cluster: ":8083"}, bad, "give each --cluster-key-file FILE"},
		{"cluster without a port", Config{Store: "cluster:", Cluster: "localhost"}, bad, "--cluster: "},
		{"no such key file", Config{Store: "cluster:", ClusterKeyFile: "none"}, bad, "--cluster-key-file: none: no such file"},
		{"a key that is none", Config{Store: "cluster:", ClusterKeyFile: certtest.File(t, "keys", []byte("s3cret"))}, bad, "line 1 is no key; write 32, 48 or 64 hexadecimal digits"},
		{"a node to join at no port", Config{Store: "cluster:", Join: "127.0.0.1:70000"}, bad, "--join: \"127.0.0.1:70000\" is no node"},
		{"a node to join without a port", Config{Store: "cluster:", Join: "a"}, bad, "--join: \"a\" is no node"},
		{"a key without a cluster", Config{ClusterKeyFile: certtest.File(t, "keys", bytes.Repeat([]byte("ab"), 32))}, bad, "--cluster-key-file: it is for nodes that share limits"},
		{"a connection that ends before it begins", Config{GRPCMaxAge: -time.Second}, bad, "--grpc-max-connection-age: -1s is too short"},
		{"a name without a cluster", Config{ClusterName: "shop"}, bad, "--cluster-name: it is for nodes that share limits"},
		{"a cluster with a space in its name", Config{Store: "cluster:", ClusterName: "my shop"}, bad, "--cluster-name: the name of a cluster has ' '; write letters"},
		{"NATS without a host", Config{Store: "nats://me:secret@"}, bad, "--store: \":4222\" names no host"},
		{"memcached with a password", Config{Store: "memcached://me:secret@host:11211"}, bad, "--store: users and passwords are not supported"},
		{"postgres with a wrong option", Config{Store: "postgres://me:secret@host/db?unlogged=maybe"}, bad, "write unlogged=1"},
		{"postgres on no port", Config{Store: "postgres://me:secret@host:none/db"}, bad, "--store: "},
		{"two snapshots", Config{Store: "memory:?snapshot=a&snapshot=b"}, bad, "memory:?snapshot=FILE"},
		{"more than cluster:", Config{Store: "cluster:a?transport=tcp"}, bad, "write cluster:, or cluster:?transport=tcp"},
		{"redis with a space", Config{Store: "redis://a b:1"}, bad, "--store: \"a b:1\" is no host:port; a host is"},
		{"redis by a relative path", Config{Store: "redis+unix://run/s"}, bad, "is not the whole path of a socket"},
		{"snapshot without a file", Config{Store: "memory:?snapshot="}, bad, "memory:?snapshot=FILE"},
		{"something else of memory", Config{Store: "memory:?keys=5"}, bad, "memory:?snapshot=FILE"},
		{"snapshot in no folder", Config{Store: "memory:?snapshot=none/counts"}, bad, "make the folder"},
		{"no such store", Config{Store: "disk:"}, bad, "is no store"},
		{"no scheme", Config{Store: "memory"}, bad, "is no store"},
		{"no URL", Config{Store: "secret@host"}, bad, "is no store"},
		{"memory with more", Config{Store: "memory:x"}, bad, "is no store"},
		{"join without a cluster", Config{Join: "a:1"}, bad, "--join: it is for nodes that share limits; give --store cluster: too"},
		{"external URL without a scheme", Config{ExternalURL: "limits.example.com", Data: "d"}, bad, "--external-url: \"limits.example.com\": write the URL that browsers open, as https://"},
		{"external URL of nothing", Config{ExternalURL: "https://", Data: "d"}, bad, "write the URL that browsers open"},
		{"external URL with a password", Config{ExternalURL: "https://me:secret@limits.example.com", Data: "d"}, bad, "write the URL that browsers open"},
		{"external URL with a path", Config{ExternalURL: "https://limits.example.com/weir/", Data: "d"}, bad, "no path behind it: they are at /ui/ there; write https://limits.example.com"},
		{"external URL of a page", Config{ExternalURL: "https://limits.example.com?a=b", Data: "d"}, bad, "no path behind it"},
		{"external URL in Cyrillic", Config{ExternalURL: "https://лимит.example", Data: "d"}, bad, "in ASCII: xn--…"},
		{"external URL without tokens", Config{ExternalURL: "https://limits.example.com"}, bad, "anybody would be let in without a token; give --data DIR or --admin-token-file FILE, too"},
		{"admin on all addresses", Config{Admin: ":8082"}, bad, "give --admin-token-file FILE"},
		{"admin on 0.0.0.0", Config{Admin: "0.0.0.0:0"}, bad, "give --admin-token-file FILE"},
		{"admin on ::", Config{Admin: "[::]:0"}, bad, "give --admin-token-file FILE"},
		{"admin elsewhere", Config{Admin: "192.0.2.1:80"}, bad, "give --admin-token-file FILE"},
		{"address without a port", Config{HTTP: "localhost"}, bad, "--http: "},
		{"socket that is no whole path", Config{HTTP: "unix://run/http.sock"}, bad, "--http: \"run/http.sock\" is no whole path; write unix:///run/weir/http.sock"},
		{"socket with too long a path", Config{GRPC: "unix:///" + strings.Repeat("x", 103)}, bad, "--grpc: the path of a socket has at most 103 bytes"},
		{"one socket for two listeners", Config{HTTP: "unix:///s", GRPC: "unix:///s"}, bad, "--http: --grpc has the same socket"},
		{"admin at a socket", Config{Admin: "unix:///s"}, bad, "--admin: "},
		{"resp without a port", Config{RESP: "on"}, bad, "--resp: "},
		{"port too large", Config{GRPC: "127.0.0.1:99999"}, bad, "--grpc: "},
		{"certificate without its key", Config{TLSCert: certificate}, bad, "--tls-cert: a certificate is of no use without its key; give --tls-key too"},
		{"key without its certificate", Config{TLSKey: key}, bad, "--tls-key: a key is of no use without its certificate; give --tls-cert too"},
		{"CA of clients alone", Config{TLSClientCA: certificate}, bad, "--tls-client-ca: "},
		{"no certificate there", Config{TLSCert: "none.pem", TLSKey: key}, bad, "--tls-cert: none.pem: no such file or directory; write the path"},
		{"another's key", Config{TLSCert: certificate, TLSKey: other}, bad, "it is not the key of the certificate"},
		{"no CA there", Config{TLSCert: certificate, TLSKey: key, TLSClientCA: key}, bad, "--tls-client-ca: "},
		{"no tokens there", Config{AdminTokenFile: "none"}, bad, "--admin-token-file: none: no such file"},
		{"a token that can be guessed", Config{Admin: ":0", AdminTokenFile: certtest.File(t, "tokens", []byte("secret"))}, bad, "has 6 characters and can be guessed; take 16 at least"},
		{"a password for a listener that is closed", Config{RESPPasswordFile: certtest.File(t, "passwords", []byte(oneToken))}, bad, "open it with --resp"},
		{"no usage log", Config{UsageLog: "disk:/secret"}, bad, "--usage-log: this is no usage log; write file:DIR"},
		{"a usage log in no folder", Config{UsageLog: "file:"}, bad, "--usage-log: the folder is missing"},
		{"a usage log where a file is", Config{UsageLog: "file:" + certtest.File(t, "file", nil)}, bad, "--usage-log: mkdir "},
		{"a usage log with an odd option", Config{UsageLog: "file:/tmp?mode=1"}, bad, "unknown option \"mode\"; the options are node, hash-key-file"},
		{"a usage log of no node", Config{UsageLog: "file:/tmp?node=a/b"}, bad, "give it one without a slash: ?node=NAME"},
		{"a usage log with a short secret", Config{UsageLog: "file:/tmp?hash-key-file=" + certtest.File(t, "keyed", []byte("short\nlong enough but the second"))}, bad, "has 5 bytes; keys are hashed under it, so it needs 16 at least"},
		{"a usage log without its secret", Config{UsageLog: "file:/tmp?hash-key-file=none"}, bad, "--usage-log: open none"},
		{"no rules there", Config{Rules: "testdata/none.yaml"}, missing, "none.yaml"},
		{"bad rules", Config{Rules: rulesFile(t, "domain: d\ndescriptors:\n  - {key: a, limits: [5/x]}\n  - {kee: b}\n")}, rule, "rules.yaml:3:"},
	} {
		_, err := New(c.config)
		if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err := New(Config{RESP: "on", Admin: ":1", TLSCert: "none.pem"})
	if !bad(err) || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not all faults are told at once: %v", err)
	}
	for _, admin := range []string{"localhost:0", "[::1]:0", "127.1.2.3:0"} {
		if _, err := New(Config{Admin: admin}); err != nil {
			t.Error(err)
		}
	}
}

// TestWarningsAreLogged: what people should know of the rules does not keep the
// daemon from starting.
func TestWarningsAreLogged(t *testing.T) {
	var log bytes.Buffer
	_, err := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Rules: rulesFile(t, "domain: d\ndescriptors:\n  - {key: a, limits: [0/s]}\n")})
	if err != nil || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "warning") {
		t.Error(err, log.String())
	}
}

// TestServerIsBounded: every time and size of a server has a bound.
func TestServerIsBounded(t *testing.T) {
	d, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := d.server("http", http.NotFoundHandler())
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
		t.Errorf("%+v", s)
	}
}

// TestExternalURL: it is taken as browsers write an origin.
func TestExternalURL(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                 {"", ""},
		"https://limits.example.com":       {"https://limits.example.com", "limits.example.com"},
		"https://Limits.Example.com/":      {"https://limits.example.com", "limits.example.com"},
		"HTTPS://limits.example.com:443":   {"https://limits.example.com", "limits.example.com"},
		"https://limits.example.com:8443/": {"https://limits.example.com:8443", "limits.example.com"},
		"http://limits.example.com:80":     {"http://limits.example.com", "limits.example.com"},
		"http://limits.example.com:443":    {"http://limits.example.com:443", "limits.example.com"},
		"https://[2001:DB8::1]:443":        {"https://[2001:db8::1]", "2001:db8::1"},
		"https://limits.example.com:":      {"https://limits.example.com", "limits.example.com"},
	} {
		c := Config{ExternalURL: text, Data: "d"}
		if origin, host, err := c.external(); err != nil || origin != want[0] || host != want[1] {
			t.Errorf("%s: %s %s %v", text, origin, host, err)
		}
	}
}
