package ruleapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestDatabaseKilled: when PostgreSQL is killed in the middle of changes, callers
// are told so, and when it is back each change that was answered is there, once,
// and the next one is made.
func TestDatabaseKilled(t *testing.T) {
	server := postgrestest.Start(t)
	h := houseAt(t, server.Database(t))
	h.shop()
	h.must(h.admin, "POST", "/v1/rules", `{"domain":"shop","text":"- {key: user, limits: [1/s]}","to":"enforced","force":true,"reason":"x"}`)
	latest := func() (number int, etag string) {
		s := h.must(h.admin, "GET", "/v1/rules/shop/user", "")
		number = int(s.json["enforced"].(float64))
		if text := s.json["text"].(string); text != limitText(number) {
			t.Fatalf("version %d is %s", number, text)
		}
		past := h.must(h.admin, "GET", "/v1/rules/shop/user/history", "")
		if n := len(past.json["versions"].([]any)); n != number {
			t.Errorf("version %d of %d", number, n)
		}
		if n := strings.Count(past.text, `"action":"enforce`); n != number {
			t.Errorf("version %d was enforced %d times", number, n)
		}
		return number, s.etag
	}
	for round := range 5 {
		answered, etag := latest()
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(time.Duration(3+round*11) * time.Millisecond) // another moment each time
			server.Kill()
		}()
		var s said
		for {
			s = h.ask(h.admin, "PUT", "/v1/rules/shop/user", fmt.Sprintf(`{"text":%q,"to":"enforced","force":true,"reason":"x"}`, limitText(answered+1)), "If-Match", etag)
			if s.status != http.StatusOK {
				break
			}
			answered, etag = answered+1, s.etag
		}
		<-killed
		if s.status != http.StatusServiceUnavailable || !strings.Contains(s.text, "the rule database") {
			t.Errorf("%d %s", s.status, s.text)
		}
		if s := h.ask(h.admin, "GET", "/v1/rules/shop/user", ""); s.status != http.StatusServiceUnavailable {
			t.Errorf("%d %s", s.status, s.text)
		}
		server.Restart(t)
		for range 20 { // connections that were lost are replaced one by one
			if s = h.ask(h.admin, "GET", "/v1/whoami", ""); s.status == http.StatusOK {
				break
			}
		}
		if now, _ := latest(); now != answered && now != answered+1 {
			t.Errorf("%d were answered, and %d are there", answered, now)
		}
	}
}

func limitText(n int) string { return fmt.Sprintf("- {key: user, limits: [%d/s]}\n", n) }
