package daemon

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestTraffic: the admin listener tells what rules passed and denied, and whom, by
// their names or by hashes, and in metrics how much of it is kept.
func TestTraffic(t *testing.T) {
	path := rulesFile(t, "domain: shop\ndescriptors: [{key: user, limits: [2/day]}]\n")
	for _, hashed := range []bool{false, true} {
		r := start(t, Config{Rules: path, HashKeys: hashed})
		for range 5 {
			do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann-at-home"}]}]}`)
		}
		do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann-at-home"}]}],"peek":true}`)
		status, body := get(t, "http://"+r.admin+"/v1/top?rule=shop/user")
		if status != http.StatusOK || !strings.Contains(body, `"limit":"2/day","shadow":false`) || !strings.Contains(body, `"passed":2,"denied":3,`) ||
			!strings.Contains(body, `"denied":3,"error":0}`) || strings.Contains(body, `"key":"ann-at-home"`) == hashed {
			t.Error(status, body)
		}
		if status, body := get(t, "http://"+r.admin+"/v1/series"); status != http.StatusOK || !strings.Contains(body, `"rule":"shop/user"`) {
			t.Error(status, body)
		}
		if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, `weir_traffic_rules{kept="clients"} 1`) {
			t.Error("metrics do not tell of clients")
		}
	}
}

func TestKeepBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{limiter: telemetry.NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), telemetry.NewDecisions())}
		set, err := rules.Parse("rules.yaml", []byte("domain: d\ndescriptors: [{key: user, limits: [1/day]}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		d.limiter.Replace(set)
		ctx, cancel := context.WithCancel(t.Context())
		var kept sync.WaitGroup
		kept.Go(func() { every(offenders.Step, d.tick)(ctx) })
		time.Sleep(3*offenders.Step + offenders.Step/2)
		cancel()
		kept.Wait()
		series, _ := d.limiter.Book.Series(offenders.Filter{}, 1)
		if len(series[0].Points) != 3 {
			t.Errorf("%+v", series)
		}
	})
}
