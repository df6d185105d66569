package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const askAnn = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`

func newAdmin(t *testing.T, store weir.Store) http.Handler {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("domain: shop\ndescriptors: [{key: user, limits: [1/h]}]"))
	if err != nil {
		t.Fatal(err)
	}
	return NewAdmin(rules.NewLimiter(store, set), readsAll, Options{})
}

// TestExplainBlindStore: a store that can't be looked into is not the caller's
// fault, and still no error of the daemon.
func TestExplainBlindStore(t *testing.T) {
	w := httptest.NewRecorder()
	newAdmin(t, struct{ weir.Store }{memstore.New(memstore.Options{})}).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/explain", strings.NewReader(askAnn)))
	if w.Code != http.StatusNotImplemented || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(w.Code, w.Body)
	}
}

// TestExplanationIsJSON: what was in the request is quoted.
func TestExplanationIsJSON(t *testing.T) {
	w := httptest.NewRecorder()
	body := `{"domain":"a\"\n\u0001","descriptors":[{"entries":[{"key":"\\\"","value":"\t"}]}]}`
	newAdmin(t, memstore.New(memstore.Options{})).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/explain", strings.NewReader(body)))
	if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
		t.Error(w.Code, w.Body)
	}
}
