package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/certtest"
)

// TestAdmissionCertificate: weir admission takes a new certificate without a restart, keeps the old one when the new
// one is bad, and ends well. integrations/helm tests its answers by the types of Kubernetes.
func TestAdmissionCertificate(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.NewCA(t), t.TempDir()
	files := [2]string{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	put := func(p certtest.Pair) {
		t.Helper()
		for i, text := range [][]byte{p.Certificate, p.Key} {
			if err := os.WriteFile(files[i], text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(ca.Issue(t, "first.example"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	log := new(admissionLog)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"admission", "--listen", "127.0.0.1:0", "--tls-cert", files[0], "--tls-key", files[1]}, strings.NewReader(""), w, log)
		_ = w.Close()
	}()
	line := make([]byte, 100)
	n, err := r.Read(line)
	m := regexp.MustCompile(`^weir admission ready https=(\S+)\n$`).FindSubmatch(line[:n])
	if m == nil {
		t.Fatalf("%q, %v: %s", line[:n], err, log)
	}
	at := string(m[1])
	shown := func() string {
		t.Helper()
		d := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}}
		c, err := d.DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0]
	}
	soon := func(is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(log)
			}
		}
	}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, DisableKeepAlives: true}}
		q, err := http.NewRequestWithContext(t.Context(), method, "https://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		a, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(text)
	}
	if name := shown(); name != "first.example" {
		t.Errorf("it shows %s", name)
	}
	if status, _ := ask("GET", "/readyz", ""); status != 200 {
		t.Errorf("it is not ready: %d", status)
	}
	put(ca.Issue(t, "second.example"))
	soon(func() bool { return shown() == "second.example" })
	put(certtest.Pair{Certificate: []byte("no certificate"), Key: []byte("no key")})
	soon(func() bool {
		_, text := ask("GET", "/metrics", "")
		return strings.Contains(text, `weir_credentials_reload_success{credentials="tls"} 0`)
	})
	if name := shown(); name != "second.example" || !strings.Contains(log.String(), "could not be reloaded") {
		t.Errorf("after a bad one it shows %s: %s", name, log)
	}
	status, text := ask("POST", "/review", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"kind":"ConfigMap"},"operation":"CREATE","object":{"data":{"a.yaml":"domain: ["}}}}`)
	if status != 200 || !strings.Contains(text, `"allowed":false`) || !strings.Contains(text, "a.yaml:2:1: error: ") {
		t.Errorf("%d %s", status, text)
	}
	if _, text := ask("GET", "/metrics", ""); !strings.Contains(text, `weir_admission_reviews_total{result="refused"} 1`) {
		t.Errorf("it does not count: %s", text)
	}
	if status, _ := ask("GET", "/review", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("a GET: status %d", status)
	}
	stop()
	select {
	case c := <-code:
		if c != exitYes {
			t.Errorf("exit %d: %s", c, log)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// TestAdmissionUsage: what can't be meant is said before it listens.
func TestAdmissionUsage(t *testing.T) {
	for args, says := range map[string]string{
		"":                                 "give --tls-cert and --tls-key",
		"--nodes 3":                        "--store cluster:",
		"--tls-cert a --tls-key b":         "--tls-cert",
		"--store nothing:":                 "--store",
		"now --tls-cert a --tls-key b":     "takes flags and no arguments",
		"--tls-cert a --tls-key b --liste": "--listen",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"admission"}, strings.Fields(args)...), strings.NewReader(""), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: exit %d, %s", args, code, errs.String())
		}
	}
}

// admissionLog is what weir admission logs while a test reads it.
type admissionLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *admissionLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *admissionLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
