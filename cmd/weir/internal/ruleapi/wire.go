package ruleapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// maxBody is how long a JSON body may be, in bytes. A file in YAML may have
// rulestore.MaxFile.
const maxBody = 1 << 20

// maxDiscarded is how much of a body that is too long is read on, in bytes. The connection breaks beyond.
const maxDiscarded = 64 << 20

const jsonType = "application/json"

// answer is what a call gives back.
type answer struct {
	status   int    // 0: 200
	body     any    // as JSON; nil: text
	text     string // of contentType
	kind     string // content type of text
	revision int64  // the ETag; 0: none
	location string // of what was made; empty: nothing was
}

// answer writes an answer, and gives its status.
func (c *call) answer(a answer) int {
	h := c.w.Header()
	h.Set("Cache-Control", "no-store")
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.revision != 0 {
		h.Set("ETag", strconv.Quote(strconv.FormatInt(a.revision, 10)))
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	body := []byte(a.text)
	if a.kind == "" {
		a.kind = jsonType
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			return c.fail(err)
		}
		body = append(body, '\n')
	}
	h.Set("Content-Type", a.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(a.status)
	_, _ = c.w.Write(body) // the client may be gone
	return a.status
}

// read reads the body, of at most most bytes.
func (c *call) read(most int64) ([]byte, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &problem{Status: http.StatusUnsupportedMediaType, Detail: "the body has Content-Encoding " + quote(coding) + ", and nothing is unpacked here; send it as it is"}
	}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, most+1))
	if int64(len(body)) > most {
		// A client that is still sending would see its connection break, and no answer.
		_, _ = io.CopyN(io.Discard, c.r.Body, maxDiscarded) // it may end here
		return nil, &problem{Status: http.StatusRequestEntityTooLarge, Detail: "the body is over " + strconv.FormatInt(most, 10) + " bytes; give less at a time"}
	}
	if err != nil {
		return nil, &problem{Status: http.StatusBadRequest, Detail: "the body ended early or came too slowly; send it again"}
	}
	return body, nil
}

// decode reads a JSON body into v. It refuses a member that v does not know.
func (c *call) decode(v any) error {
	kind, _, err := mime.ParseMediaType(cmp.Or(c.r.Header.Get("Content-Type"), jsonType))
	if err != nil || kind != jsonType && kind != "application/x-www-form-urlencoded" { // which curl -d says of all
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: "the body is " + quote(c.r.Header.Get("Content-Type")) + "; send JSON, with Content-Type: " + jsonType}
	}
	body, err := c.read(maxBody)
	if err != nil {
		return err
	}
	if !utf8.Valid(body) { // the decoder would put other characters in its place
		return badRequest("body", "is not UTF-8, as JSON must be")
	}
	if err := plainMembers(body); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return bodyError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("body", "something follows the JSON object; send one")
	}
	return nil
}

// plainMembers refuses an object with two members of a name, of which the decoder
// would take the last, and names that it would take for those of fields: they are
// written in small letters. It lets a body pass that is no object: the decoder refuses it with a
// better message.
func plainMembers(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil //nolint:nilerr // as above
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil //nolint:nilerr // as above
		}
		switch {
		case seen[name]:
			return badRequest(name, "stands twice; give it once")
		case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "":
			return badRequest(name, "is no field here; leave it out")
		}
		seen[name] = true
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return nil //nolint:nilerr // as above
		}
	}
	return nil
}

func bodyError(err error) *problem {
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if bad.Field == "" { // the whole body
			return badRequest("body", "is a JSON "+bad.Value+"; send a JSON object")
		}
		return badRequest(strings.ToLower(bad.Field), "is a JSON "+bad.Value+"; it must be "+jsonKind(bad.Type))
	}
	if errors.Is(err, io.EOF) {
		return badRequest("body", "is empty; send a JSON object")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, ok := strings.CutPrefix(text, "unknown field "); ok {
		return badRequest(strings.Trim(field, `"`), "is no field here; leave it out")
	}
	return badRequest("body", text+"; send a JSON object")
}

// jsonKind is what JSON has for a Go type, with its article.
func jsonKind(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // those of bodies
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		if t == reflect.TypeFor[time.Time]() {
			return "a string with a time"
		}
		return "an object"
	case reflect.String:
		return "a string"
	}
	return "a whole number"
}

// readQuery reads the query, which may have only these keys, each once.
func readQuery(r *http.Request, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("query", err.Error()+"; escape all but letters and digits as %XX")
	}
	out := map[string]string{}
	for key, all := range values {
		switch {
		case !slices.Contains(known, key) && len(known) == 0:
			return nil, badRequest(key, "is no parameter here; there are none")
		case !slices.Contains(known, key):
			return nil, badRequest(key, "is no parameter here; there are "+strings.Join(known, ", "))
		case len(all) > 1:
			return nil, badRequest(key, "stands twice; give it once")
		}
		if err := checkChoice(key, all[0]); err != nil {
			return nil, err
		}
		out[key] = all[0]
	}
	return out, nil
}

// checkChoice refuses a value of a parameter that has few: dry_run=1 must not be
// taken for no, and change what was to be looked at.
func checkChoice(key, value string) error {
	switch key {
	case "dry_run", "force", "in_force", "changes", "gone":
		if value != "" && value != "true" && value != "false" {
			return badRequest(key, quote(value)+" is neither true nor false; write one of them")
		}
	case "format":
		if value != "" && value != "jsonl" {
			return badRequest(key, quote(value)+" is no format; write jsonl, or leave it out")
		}
	}
	return nil
}

// number reads a whole number of a query; empty is 0.
func (c *call) number(key string) (int64, error) {
	text := c.query[key]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest(key, quote(text)+" is no whole number")
	}
	return n, nil
}

// most reads how many things to list.
func (c *call) most() (int, error) {
	n, err := c.number("limit")
	if err != nil || n <= rulestore.MaxPage {
		return int(n), err
	}
	return 0, badRequest("limit", "is over "+strconv.Itoa(rulestore.MaxPage)+"; ask for pages, each behind the last of the one before")
}

// match reads If-Match: the revision of what was seen.
func (c *call) match() (int64, error) {
	field := c.r.Header.Get("If-Match")
	if field == "" {
		return 0, &problem{
			Status: http.StatusPreconditionRequired, Field: "If-Match",
			Detail: "If-Match is missing; read it first, and send the ETag of that answer, so that no change in between is lost",
		}
	}
	text, err := strconv.Unquote(field)
	if err == nil {
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, badRequest("If-Match", quote(field)+" is no ETag of here; send that of an answer, as \"42\"")
}

// matchOrNew is match, or 0 for If-None-Match: *, which is for what is not there.
func (c *call) matchOrNew() (int64, error) {
	if c.r.Header.Get("If-None-Match") == "*" && c.r.Header.Get("If-Match") == "" {
		return 0, nil
	}
	return c.match()
}
