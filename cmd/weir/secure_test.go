package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-limit/weir/internal/certtest"
)

// TestSecure: a daemon that asks all who come for a certificate, and at its admin
// listener for a token; commands that show them, and another daemon that takes its
// rules from there.
func TestSecure(t *testing.T) {
	const word = "0123456789abcdef"
	ca := certtest.NewCA(t)
	authorities := certtest.File(t, "ca.pem", ca.PEM)
	token := certtest.File(t, "token", []byte(word+"\n"))
	certificate, key := ca.Issue(t, "weir.test").Files(t)
	mine, myKey := ca.Issue(t).Files(t)
	binary, err := exec.LookPath("weir") // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, binary, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authorities, "--admin-token-file", token)
	defer func() {
		if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil || strings.Contains(p.stderr.String(), word) {
			t.Errorf("%v\n%s", err, p.stderr)
		}
	}()

	known := []string{"--ca", authorities, "--cert", mine, "--key", myKey}
	for _, c := range []struct {
		name string
		code int
		says string
		args []string
	}{
		{"check", exitYes, "allowed     demo/client_id", append([]string{"check", "--addr", p.http}, known...)},
		{"explain", exitYes, "client_id=ann meets client_id", append([]string{"explain", "--addr", "https://" + p.admin, "--token-file", token}, known...)},
		{"no token", exitFail, "the daemon says: this listener needs a token", append([]string{"explain", "--addr", p.admin}, known...)},
		{"a wrong token", exitFail, "the daemon says: the token is not in the file", append([]string{"explain", "--addr", p.admin, "--token-file", certtest.File(t, "wrong", []byte(word+"0"))}, known...)},
		{"no certificate", exitFail, "the daemon says: this daemon answers clients with a certificate only", []string{"check", "--addr", p.http, "--ca", authorities}},
		{"no certificate at the admin listener", exitFail, "if the daemon asks for a certificate, give --cert FILE and --key FILE", []string{"explain", "--addr", p.admin, "--ca", authorities}},
		{"no CA", exitFail, "give --ca FILE with the CA of the daemon", []string{"check", "--addr", "https://" + p.http}},
		{"no TLS", exitUsage, p.http + " speaks TLS; write https://", []string{"check", "--addr", p.http}},
	} {
		out, code := runs(t, binary, append(c.args, "demo", "client_id=ann")...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d: %s", c.name, code, out)
		}
	}

	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	from := "https://" + p.admin + "/v1/export"
	follower := serve(t, binary, "--rules", from, "--rules-ca", authorities, "--rules-cert", mine, "--rules-key", myKey, "--rules-token-file", token)
	if err := errors.Join(follower.Process.Signal(syscall.SIGTERM), follower.Wait()); err != nil {
		t.Error(err, follower.stderr)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "none"))
	if out, code := runs(t, binary, "serve", "--rules", from, "--rules-ca", authorities, "--rules-cert", mine, "--rules-key", myKey); code != exitFail || !strings.Contains(out, "answers 401 Unauthorized: \"this listener needs a token") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestCertificateHoldsToken: commands that show a certificate which stands for a
// token need no other, and may do what it says and no more.
func TestCertificateHoldsToken(t *testing.T) {
	ca := certtest.NewCA(t)
	authorities := certtest.File(t, "ca.pem", ca.PEM)
	certificate, key := ca.Issue(t, "weir.test").Files(t)
	mine, myKey := ca.IssueURIs(t, "spiffe://example.org/ci").Files(t)
	other, otherKey := ca.IssueURIs(t, "spiffe://example.org/other").Files(t)
	binary, err := exec.LookPath("weir") // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_TOKEN", "")
	data := filepath.Join(t.TempDir(), "data")
	if out, code := runs(t, binary, "token", "create", "--data", data, "--actor", "ci", "--role", "read", "--team", "shop", "--certificate", "spiffe://example.org/ci", "--reason", "x"); code != exitYes {
		t.Fatal(out)
	}
	demo := certtest.File(t, "demo.yaml", []byte("domain: demo\ndescriptors: []\n"))
	p := serve(t, binary, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authorities, "--data", data, "--rules", demo)
	defer func() {
		if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
			t.Errorf("%v\n%s", err, p.stderr)
		}
	}()
	at := []string{"--addr", p.admin, "--ca", authorities}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitYes, "", []string{"rules", "list", "--cert", mine, "--key", myKey}},
		{exitFail, "to list tokens takes the role admin; ci has read", []string{"token", "list", "--cert", mine, "--key", myKey}},
		{exitFail, "the certificate spiffe://example.org/other belongs to no actor", []string{"rules", "list", "--cert", other, "--key", otherKey}},
	} {
		if out, code := runs(t, binary, append(c.args, at...)...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d: %s", c.args[:2], code, out)
		}
	}
}
