package e2e

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// balancer is an nginx that brings each request to the other one of two daemons, and says which.
func balancer(t *testing.T, at string, one, other *daemon) {
	t.Helper()
	p := start(t, nginxCommand(t, t.TempDir(), `
	upstream weir { server `+one.admin+`; server `+other.admin+`; }
	server {
		listen `+at+`;
		location / {
			proxy_pass http://weir;
			proxy_set_header Host $http_host;
			add_header X-Node $upstream_addr always;
		}
	}`))
	p.listening(t, at)
}

// TestPagesBehindBalancer: two daemons that share a rule database are one to somebody who comes by a balancer: who signs in at one of them is
// signed in at both, sees at one what was done at the other, and is signed out at both.
func TestPagesBehindBalancer(t *testing.T) {
	t.Parallel()
	data, at := postgrestest.Start(t).Database(t), porttest.Free(t)
	origin := "http://" + at
	one, token := serveData(t, data, "--external-url", origin)
	other := startDaemon(t, command(t, binary, serveArgs([]string{"--data", data, "--external-url", origin})...))
	balancer(t, at, one, other)

	v := newVisitor(t, origin, false)
	if a := v.post("/ui/sign-in", origin, url.Values{"token": {token}}); a.status != http.StatusSeeOther {
		t.Fatal(a)
	}
	nodes := map[string]bool{}
	for range 10 {
		a := v.get("/ui/")
		if nodes[a.field("X-Node")] = true; a.status != http.StatusOK {
			t.Error("signed out at the next node:", a)
		}
	}
	if len(nodes) != 2 {
		t.Fatal("it was not brought to both:", nodes)
	}

	p := &person{browsertest.Start(t).Open(t, browsertest.Views()[0], origin+"/ui/"), &daemon{admin: at}, token, ""}
	p.firstDomain(t)
	p.sees(t, "The domain is there")
	p.follow(t, "New rule")
	p.fill(t, "#text", "- key: user\n  limits: [5/h]\n")
	p.sees(t, "At most 9 in any hour, whenever it begins.")
	p.fill(t, "#reason", "one client took it all")
	p.press(t, "Run in shadow")
	p.sees(t, "Version 1 runs in shadow")
	p.fill(t, "#reason-enforced-1", "at once")
	p.press(t, "Publish version 1")
	p.click(t, "input[name=force]")
	p.press(t, "Publish version 1")
	p.sees(t, "Version 1 is active.")
	p.click(t, `form[action="/ui/sign-out"] button`)
	p.sees(t, "An administrator makes tokens.")
	for range 4 {
		p.open(t, "/ui/rule?domain=shop&rule=user")
		p.sees(t, "An administrator makes tokens.")
	}
}
