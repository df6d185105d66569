package webui

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/rules"
)

// asset serves a file of the page. Browsers keep it, and ask whether it is still
// the one.
func asset(name, kind string) (http.Handler, error) {
	var text []byte
	var err error
	if name == "schema.json" {
		text = []byte(rules.Schema())
	} else if text, err = files.ReadFile("pages/" + name); err != nil {
		return nil, fmt.Errorf("read a file of the page: %w", err)
	}
	if name == "style.css" {
		text = append(text, plot.Style()...)
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	}), nil
}
