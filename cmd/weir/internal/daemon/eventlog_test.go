package daemon

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
)

// TestEventLog: daemons at an event log share counts, which outlive all of them; while the log is away the
// fallbacks of the rules decide, and /readyz says why.
func TestEventLog(t *testing.T) {
	t.Run("kafka", func(t *testing.T) {
		broker, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(broker.Close)
		eventLog(t, "kafka://"+broker.ListenAddrs()[0]+"/weir?", broker.Close)
	})
	t.Run("nats", func(t *testing.T) {
		server := natstest.Start(t)
		eventLog(t, "nats://"+server.Addr+"?log=weir&", server.Stop)
	})
}

func eventLog(t *testing.T, url string, stop func()) {
	t.Helper()
	scheme, _, _ := strings.Cut(url, ":")
	l, log := newLog()
	config := func(node string) Config {
		return Config{
			Store: url + "node=" + node,
			Rules: rulesFile(t, "domain: d\ndescriptors:\n  - {key: closed, limits: [6/day fixed-window], fallback: closed}\n"), Log: log,
		}
	}
	one, other := start(t, config("one")), start(t, config("other"))
	if !strings.Contains(one.line, " store="+scheme+" ") {
		t.Error(one.line)
	}
	for i, r := range []*running{one, other, one} {
		if status, body, _ := decided(t, r, "closed"); status != 200 || !strings.Contains(body, `"remaining":`+strconv.Itoa(5-i)) {
			t.Error(i, status, body)
		}
		for _, all := range []*running{one, other} { // as soon as both know of it
			until(t, all, 5-i)
		}
	}
	for _, r := range []*running{one, other} {
		r.stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	}
	again := start(t, config("one"))
	until(t, again, 3)
	if lag, err := strconv.ParseFloat(metric(t, again, "weir_log_lag_seconds"), 64); err != nil || lag > 1 {
		t.Error(lag, err)
	}
	stop()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, _, body := asked(t, again, "/v1/check", "closed")
		_, ready := get(t, "http://"+again.http+"/readyz")
		if strings.Contains(body, `"degraded":"closed"`) && strings.Contains(ready, "the log was read") {
			break
		}
		if time.Now().After(end) {
			t.Fatal(body, ready, l)
		}
	}
}

// until waits until so many remain at a daemon of what one key may.
func until(t *testing.T, r *running, remain int) {
	t.Helper()
	want, body := `"remaining":`+strconv.Itoa(remain), ""
	for range 500 {
		_, body = do(t, "POST", "http://"+r.http+"/v1/check", `{"domain":"d","descriptors":[{"entries":[{"key":"closed","value":"ann"}],"cost":0}]}`)
		if strings.Contains(body, want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never ", want, ": ", body)
}
