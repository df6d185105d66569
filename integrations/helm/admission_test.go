package helm

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	review "k8s.io/api/admission/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	goodRules   = "domain: edge\ndescriptors:\n  - {key: user, limits: [5/s]}\n"
	hiddenRules = "domain: edge\ndescriptors:\n  - {key: user, limits: [5/s]}\n  - {key: page, limits: [0/s]}\n"
	badRules    = "domain: edge\ndescriptors:\n  - {key: user, limits: [5/sec bust 3]}\n  - {kye: page, limits: [5/s]}\n"
)

// asker asks weir admission as Kubernetes does.
type asker struct {
	*http.Client

	url string
}

func startAdmission(t *testing.T, args ...string) *asker {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cmd := exec.Command(program(t), append([]string{"admission", "--listen", "127.0.0.1:0", "--tls-cert", file("tls.crt", "CERTIFICATE", der), "--tls-key", file("tls.key", "PRIVATE KEY", secret)}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it does not end well: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "weir admission ready https=")
	if !ok {
		t.Fatalf("%q: %v", line, err)
	}
	pool := x509.NewCertPool()
	known, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(known)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &asker{&http.Client{Transport: transport}, "https://" + at}
}

// ask sends a review in the types of Kubernetes, and reads its answer strictly by them.
func (a *asker) ask(t *testing.T, operation review.Operation, object runtime.Object, kind string) *review.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&review.AdmissionReview{
		TypeMeta: meta.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &review.AdmissionRequest{
			UID: types.UID("e911857d-c318-11e8-bbad-025000000001"), Kind: meta.GroupVersionKind{Version: "v1", Kind: kind},
			Resource: meta.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Name: "limits", Namespace: "shop",
			Operation: operation, Object: runtime.RawExtension{Raw: raw}, OldObject: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.Post(a.url+"/review?timeout=5s", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", answer.StatusCode, text, err)
	}
	made, _, err := strict.Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r := made.(*review.AdmissionReview).Response
	if r == nil || r.UID != "e911857d-c318-11e8-bbad-025000000001" {
		t.Fatalf("%s answers another review", text)
	}
	return r
}

// TestAdmission: weir admission answers reviews with what weir lint says of a folder of the same files.
func TestAdmission(t *testing.T) {
	a := startAdmission(t)
	for name, data := range map[string]map[string]string{
		"good":      {"edge.yaml": goodRules},
		"warned":    {"edge.yaml": hiddenRules},
		"bad":       {"edge.yaml": badRules, "shop.yml": "domain: shop\ndescriptors: []\n"},
		"twice":     {"a.yaml": goodRules, "b.yaml": goodRules},
		"passed by": {"edge.yaml": goodRules, "README": "no rules: [", ".hidden.yaml": "no rules: ["},
	} {
		dir := t.TempDir()
		config := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "limits"}, Data: map[string]string{}, BinaryData: map[string][]byte{}}
		for file, text := range data {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if file == "b.yaml" {
				config.BinaryData[file] = []byte(text)
			} else {
				config.Data[file] = text
			}
		}
		said, err := exec.CommandContext(t.Context(), program(t), "lint", dir).Output()
		good := err == nil
		var findings []string
		for line := range strings.Lines(strings.ReplaceAll(string(said), dir+"/", "")) {
			if line = strings.TrimSpace(line); strings.Contains(line, ": error: ") || strings.Contains(line, ": warning: ") {
				findings = append(findings, line)
			}
		}
		if (name == "good" || name == "passed by") != (len(findings) == 0) || (name == "bad" || name == "twice") == good {
			t.Fatalf("%s: lint says %s", name, said)
		}
		for _, operation := range []review.Operation{review.Create, review.Update} {
			r := a.ask(t, operation, config, "ConfigMap")
			switch {
			case r.Allowed != good:
				t.Errorf("%s: allowed is %v", name, r.Allowed)
			case good && strings.Join(r.Warnings, "\n") != strings.Join(findings, "\n"):
				t.Errorf("%s: warnings %q, lint says %q", name, r.Warnings, findings)
			case !good && (r.Result.Message != strings.Join(findings, "\n") || r.Result.Code != http.StatusUnprocessableEntity || r.Result.Reason != meta.StatusReasonInvalid):
				t.Errorf("%s: refused with %v, lint says %q", name, r.Result, findings)
			}
		}
		if r := a.ask(t, review.Delete, config, "ConfigMap"); !r.Allowed {
			t.Errorf("%s may not be deleted: %v", name, r.Result)
		}
	}
	if r := a.ask(t, review.Create, &core.ConfigMap{Data: map[string]string{"README": ""}}, "ConfigMap"); r.Allowed || !strings.Contains(r.Result.Message, "*.yaml") {
		t.Errorf("without rules: %v", r)
	}
	if r := a.ask(t, review.Create, &core.Secret{}, "Secret"); !r.Allowed || len(r.Warnings) != 1 {
		t.Errorf("of a Secret: %v", r)
	}
}

// TestAdmissionStore: what the store can't keep is refused, as by weir lint --store.
func TestAdmissionStore(t *testing.T) {
	for _, c := range []struct {
		args       []string
		rule, says string
	}{
		{[]string{"--store", "cluster:", "--nodes", "5"}, "{key: a, sharing: divided, limits: [3/s]}", "5 nodes can't each have a part"},
		{[]string{"--store", "memcached://cache:11211"}, "{key: a, limits: [10/s warm-up 1min]}", "warm-up works in memory only"},
	} {
		a := startAdmission(t, c.args...)
		r := a.ask(t, review.Create, &core.ConfigMap{Data: map[string]string{"a.yaml": "domain: a\ndescriptors:\n  - " + c.rule + "\n"}}, "ConfigMap")
		if r.Allowed || !strings.Contains(r.Result.Message, c.says) {
			t.Errorf("%v: %v", c.args, r)
		}
	}
}
