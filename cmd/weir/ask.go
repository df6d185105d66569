package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/rules"
)

const (
	askTimeout = 10 * time.Second
	maxAnswer  = 16 << 20 // bytes
	// adminDoor is what people call the listener that takes tokens.
	adminDoor = "the admin listener"
	// tokenVariable is the environment variable with a token for it.
	tokenVariable = "WEIR_TOKEN"
)

// address is where a daemon is, and what to show it.
type address struct {
	url       string
	otherwise string // where it is when no flag says
	show      credentials.Client
}

// flags adds the flags; daemon is whose URL addr takes.
func (a *address) flags(f *pflag.FlagSet, daemon string) {
	f.StringVar(&a.url, "addr", "", "`URL` of "+daemon)
	file := func(to *credentials.File, name, usage string) {
		to.Flag = "--" + name
		f.StringVar(&to.Path, name, "", usage)
	}
	file(&a.show.Token, "token-file", "`FILE` whose first line is the token to show the daemon at --addr")
	file(&a.show.CA, "ca", "`FILE` with the CA to trust (default: the CAs of this machine)")
	file(&a.show.Certificate, "cert", "`FILE` with a certificate to show the daemon")
	file(&a.show.Key, "key", "`FILE` with its key")
}

// check finds what is to be shown to nobody.
func (a *address) check() error {
	if a.url == "" && a.show.Given() {
		return usagef("--token-file, --ca, --cert and --key are for a daemon; give --addr URL too")
	}
	return nil
}

// daemonAt is a listener of a daemon, asked by one of its routes.
type daemonAt struct {
	target string
	door   string // which it is, for people
	client *http.Client
	token  string // of the environment; empty: the one of --token-file, or none
	// nameless is whether it speaks TLS and is shown no certificate.
	nameless bool
}

// at is path at the address, which may leave out http://, or https:// where there
// are certificates.
func (a *address) at(path, door string) (*daemonAt, error) {
	place := cmp.Or(a.url, a.otherwise)
	switch {
	case strings.Contains(place, "://"):
	case a.show.WantsTLS():
		place = "https://" + place
	default:
		place = "http://" + place
	}
	u, err := url.Parse(place)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--addr %s: write the URL of a daemon, as http://127.0.0.1:8080", place)
	}
	carry, err := a.show.Transport(u)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	client := &http.Client{
		Transport:     carry,
		Timeout:       askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	d := &daemonAt{target: u.JoinPath(path).String(), door: door, client: client, nameless: u.Scheme == "https" && a.show.Certificate.Path == ""}
	if door == adminDoor && a.show.Token.Path == "" {
		d.token = os.Getenv(tokenVariable)
	}
	if strings.ContainsFunc(d.token, func(c rune) bool { return c < '!' || c > '~' }) {
		return nil, usagef("%s has a space or a character that is not ASCII; give it the token alone, as weir token create prints it", tokenVariable)
	}
	return d, nil
}

// send sends a request with what it has to show.
func (d *daemonAt) send(r *http.Request) (*http.Response, error) {
	if d.token != "" {
		r.Header.Set("Authorization", "Bearer "+d.token)
	}
	response, err := d.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w%s", err, d.advice(err))
	}
	return response, nil
}

// host is where the daemon is.
func (d *daemonAt) host() string {
	u, err := url.Parse(d.target)
	if err != nil {
		return d.target
	}
	return u.Host
}

// ask asks path of the daemon. door is which of its listeners answers that.
func (a *address) ask(path, door string) (checker, error) {
	d, err := a.at(path, door)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q *rules.Request) ([]byte, error) {
		if word, ok := notUTF8(reflect.ValueOf(q.Descriptors[0].Entries)); ok {
			return nil, usagef("%q is not UTF-8, which JSON can't carry; ask over gRPC, or with --rules", word)
		}
		return d.call(ctx, nil, httpapi.AppendCheck(nil, q))
	}, nil
}

// askDenial asks the daemon why it denied what it gave this id.
func (a *address) askDenial(ctx context.Context, id string) ([]byte, error) {
	return a.call(ctx, "/v1/explain", adminDoor, url.Values{"id": {id}}, nil)
}

// call calls path of the daemon. door is which of its listeners answers that.
func (a *address) call(ctx context.Context, path, door string, query url.Values, body []byte) ([]byte, error) {
	d, err := a.at(path, door)
	if err != nil {
		return nil, err
	}
	return d.call(ctx, query, body)
}

// call gets the answer to a query, or posts a body, which is JSON.
func (d *daemonAt) call(ctx context.Context, query url.Values, body []byte) ([]byte, error) {
	method, target := http.MethodGet, d.target
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := d.send(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	return readAnswer(response, answer, d.door)
}

// advice is what to do where nobody listens, or daemon and client do not believe each other.
func (d *daemonAt) advice(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "; give --ca FILE with the CA of the daemon, and ask by a name in its certificate"
	}
	dial, _ := errors.AsType[*net.OpError](err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Sprintf("; is weir serve running there? write --addr URL of %s if it is elsewhere", d.door)
	}
	if d.nameless && (dial == nil || dial.Op != "dial") {
		// It may have told, or have closed the connection before it was heard.
		return "; if the daemon asks for a certificate, give --cert FILE and --key FILE"
	}
	return ""
}

// readAnswer tells answers from errors: a denial is an answer.
func readAnswer(response *http.Response, body []byte, door string) ([]byte, error) {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if kind == "application/json" {
		return bytes.TrimSpace(body), nil
	}
	var problem struct{ Detail string }
	told := kind == "application/problem+json" && json.Unmarshal(body, &problem) == nil
	terminal.EscapeAll(&problem)
	switch {
	case response.StatusCode == http.StatusNotFound && !strings.HasPrefix(problem.Detail, rules.ErrForgotten.Error()) && !strings.HasPrefix(problem.Detail, httpapi.NoOwner):
		return nil, fmt.Errorf("%s is not there; is it %s of a daemon?", response.Request.URL, door)
	case response.StatusCode == http.StatusBadRequest && bytes.HasSuffix(bytes.TrimSpace(body), []byte("HTTPS server.")): // net/http says so
		return nil, usagef("%s speaks TLS; write https://", response.Request.URL.Host)
	case told:
		err := errors.New("the daemon says: " + problem.Detail)
		if response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusRequestEntityTooLarge {
			return nil, &failure{exitUsage, err}
		}
		return nil, err
	}
	return nil, fmt.Errorf("%s answers %s, which is no answer of weir; is it %s of a daemon?", response.Request.URL, response.Status, door)
}
