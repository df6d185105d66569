package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// heard is what a receiver of webhooks was sent.
type heard struct {
	mu     sync.Mutex
	ids    []string
	bodies map[string]string // by the id
	twice  int
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get("Webhook-Id")
	before, again := h.bodies[id]
	if again {
		h.twice++
	} else {
		h.ids = append(h.ids, id)
		h.bodies[id] = string(body)
	}
	if err != nil || again && before != string(body) {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// all is how many different messages it was sent, and their bodies in order.
func (h *heard) all() (n int, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.ids {
		text += h.bodies[id]
	}
	return len(h.ids), text
}

// TestWebhooksGoOn: of two daemons at one database one sends; it is killed, and the other goes on in seconds. Nothing is lost, messages are in order, and one
// that comes twice has its id. No log has the secret.
func TestWebhooksGoOn(t *testing.T) {
	binary, err := exec.LookPath("weir") // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	database := postgrestest.Start(t).Database(t)
	d := &desk{t: t, files: t.TempDir()}
	token := strings.TrimSpace(d.at("", "token", "create", "--data", database, "--actor", "ops", "--role", "admin", "--team", "*", "--reason", "the first"))
	t.Setenv("WEIR_TOKEN", token)
	demo := filepath.Join(t.TempDir(), "demo.yaml")
	write(t, demo, "domain: demo\ndescriptors:\n  - {key: client_id, limits: [1/s]}\n")
	var daemons []*process
	for range 2 {
		daemons = append(daemons, serve(t, binary, "--rules", demo, "--data", database, "--webhook-networks", "127.0.0.1"))
	}
	h := &heard{bodies: map[string]string{}}
	receiver := httptest.NewServer(h)
	defer receiver.Close()
	secret := strings.TrimSpace(d.at(daemons[0].admin, "webhook", "set", "--team", "*", "--url", receiver.URL+"/hidden", "--reason", "a test"))
	if !strings.HasPrefix(secret, "whsec_") {
		t.Fatal(secret)
	}
	d.shop(firstRules)
	d.at(daemons[0].admin, "rules", "apply", "--to", "enforced", "--force", "--team", "shop", "--reason", "first", d.files)
	soon(t, "the first messages do not come", func() bool { n, _ := h.all(); return n == 2 })
	sends := -1
	for i, p := range daemons {
		if !strings.Contains(ask(t, p, "/metrics"), `weir_webhook_deliveries_total{result="delivered"} 0`) {
			sends = i
		}
	}
	if sends < 0 {
		t.Fatal("no daemon has sent")
	}
	killed, other := daemons[sends], daemons[1-sends]
	for i := range 10 {
		if i == 5 {
			if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		d.at(other.admin, "rules", "tighten", "--percent", "50", "--for", "1h", "--reason", fmt.Sprintf("number %d", i), "shop")
	}
	soon(t, "the other does not go on", func() bool { n, _ := h.all(); return n == 12 })
	_, text := h.all()
	last := -1
	for i := range 10 {
		at := strings.Index(text, fmt.Sprintf("number %d", i))
		if at <= last {
			t.Errorf("number %d is lost or in another place:\n%s", i, text)
		}
		last = at
	}
	t.Log(h.twice, "messages came twice")
	if err := errors.Join(other.Process.Signal(syscall.SIGTERM), other.Wait()); err != nil {
		t.Error(err)
	}
	_ = killed.Wait() // it was killed
	for _, p := range daemons {
		for _, hidden := range []string{secret, "/hidden", token} {
			if strings.Contains(p.stderr.String(), hidden) {
				t.Errorf("the log has %s:\n%s", hidden, p.stderr)
			}
		}
	}
}

// TestWebhookExamples: the receivers of docs/webhooks.md take what is signed with their secret, and nothing else.
func TestWebhookExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_WEBHOOK_NETWORKS", "127.0.0.0/8")
	d := newDesk(t)
	defer d.close()
	for language, command := range map[string][]string{"go": {"./receiver"}, "python": {"python3", "main.py"}} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath("python3"); err != nil && language == "python" {
				t.Skip(err)
			}
			code := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "main."+map[string]string{"go": "go", "python": "py"}[language]), string(code[1]))
			if language == "go" {
				build := exec.CommandContext(t.Context(), "go", "build", "-o", "receiver", "main.go")
				build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatal(err, string(out))
				}
			}
			at := porttest.Free(t)
			code0, out, told := d.runs("webhook", "set", "--team", "*", "--url", "http://"+at+"/", "--kinds", "token", "--reason", "a test", "--json")
			id, secret := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(out), regexp.MustCompile(`"secret":"([^"]+)"`).FindStringSubmatch(out)
			if code0 != exitYes || id == nil || secret == nil {
				t.Fatal(code0, out, told)
			}
			receiver := exec.CommandContext(t.Context(), command[0], append(command[1:], at)...)
			receiver.Dir, receiver.Env = dir, append(os.Environ(), "WEBHOOK_SECRET="+secret[1])
			if err := receiver.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = receiver.Process.Kill(), receiver.Wait() }()
			soon(t, "the receiver does not take what is signed", func() bool {
				code, _, _ := d.runs("webhook", "test", id[1])
				return code == exitYes
			})
			d.runs("webhook", "set", "--new-secret", "--reason", "the old one signs, too", id[1])
			if code, out, told := d.runs("webhook", "test", id[1]); code != exitYes {
				t.Error(out, told)
			}
			d.runs("webhook", "set", "--disabled", "--reason", "a pause", id[1])
			if code, out, told := d.runs("webhook", "set", "--disabled=false", "--reason", "it goes on", id[1]); code != exitYes {
				t.Error(out, told)
			}
			if code, out, told := d.runs("webhook", "list"); code != exitYes || !strings.Contains(out, "http://"+at+"  json  token  delivers") || strings.Contains(out, "whsec_") {
				t.Error(out, told)
			}
			if code, _, told := d.runs("webhook", "remove", "--reason", "over", id[1]); code != exitYes {
				t.Error(told)
			}
			_, out, _ = d.runs("webhook", "set", "--team", "*", "--url", "http://"+at+"/", "--reason", "another secret", "--json")
			id = regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(out)
			if code, _, told := d.runs("webhook", "test", id[1]); code != exitFail || !strings.Contains(told, "it answers 401") {
				t.Error(code, told)
			}
			d.runs("webhook", "remove", "--reason", "over", id[1])
		})
	}
}

// ask is what a daemon answers at its admin listener.
func ask(t *testing.T, p *process, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("WEIR_TOKEN"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
