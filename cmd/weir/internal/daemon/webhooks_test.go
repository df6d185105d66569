package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestLimitsAreTold: webhooks are told of a limit of which 80 % are used, and of one that denies, and not of one in shadow; a test goes to no address of the
// operator's network.
func TestLimitsAreTold(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n := start(t, withToken(t, Config{Data: t.TempDir()}))
	store := n.daemon.feed.Store()
	enforceRules(t, store, "domain: shop\ndescriptors:\n  - {key: near, limits: [10/day]}\n  - {key: denied, limits: [2/day]}\n  - {key: trial, shadow_mode: true, limits: [1/day]}\n  - {key: calm, limits: [1000/day]}\n")
	for end := time.Now().Add(patience); len(n.daemon.limiter.Set().Rules()) != 4 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	root := rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
	w, err := store.SetWebhook(t.Context(), root, rulestore.Webhook{Team: rulestore.AllTeams, URL: "https://" + n.http + "/", Form: rulestore.JSON}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"near", "denied", "trial", "calm"} {
		for range 9 {
			body := `{"domain":"shop","descriptors":[{"entries":[{"key":"` + key + `","value":"ann"}]}]}`
			if status, text := do(t, http.MethodPost, "http://"+n.http+"/v1/check", body); status != http.StatusOK && status != http.StatusTooManyRequests {
				t.Fatal(status, text)
			}
		}
	}
	n.daemon.tickTraffic(time.Now())
	if err := n.daemon.tellNotices(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := store.Outbox(t.Context(), &w)
	var got []string
	for _, m := range list {
		got = append(got, m.Action+" "+m.Rule)
	}
	text := strings.Join(got, ", ")
	if err != nil || len(got) != 3 || !strings.Contains(text, "limit.near shop/near") || !strings.Contains(text, "limit.near shop/denied") || !strings.Contains(text, "limit.denied shop/denied") {
		t.Error(text, err)
	}
	if d, err := n.daemon.webhooks.Ping(t.Context(), &w, root); err != nil || !strings.Contains(d.Error, "127.0.0.1 is not public") {
		t.Error(d, err)
	}
	for networks, want := range map[string]string{"10.0.0.0/40": "is no network", "10.0.0.0/8": ""} {
		_, err := New(Config{Data: t.TempDir(), WebhookNetworks: networks})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Error(networks, err)
		}
	}
	if _, err := New(Config{WebhookNetworks: "10.0.0.0/8"}); err == nil || !strings.Contains(err.Error(), "name it by --data") {
		t.Error(err)
	}
}
