package ruleapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"

	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var openAPI []byte

// DocumentPath is where the admin listener says what the API takes and answers.
const DocumentPath = "/v1/openapi.json"

// document is the OpenAPI document in JSON.
func document() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	return json.Marshal(doc)
}

// Document serves the OpenAPI document. It tells nothing of rules, and needs
// neither token nor database.
func (a *API) Document(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(a.document) // the client may be gone
}
