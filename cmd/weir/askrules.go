package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
)

const (
	// rulesTimeout is for one call: a domain may have ten thousand rules.
	rulesTimeout = 2 * time.Minute
	// importTimeout is for a list of exceptions, for which the daemon may take longer.
	importTimeout = 7 * time.Minute
	// maxRulesAnswer is in bytes: what changes in a file of 8 MiB, twice, in JSON.
	maxRulesAnswer = 64 << 20
)

// rulesFlags adds the flags of commands that change rules.
func (a *address) rulesFlags(f *pflag.FlagSet) {
	a.flags(f, "the admin listener of a daemon (default: "+adminAt+")")
	a.otherwise = adminAt
}

// ruleAPI is the part of a daemon's admin listener that rules are changed by.
type ruleAPI struct{ *daemonAt }

// rules is the rule API at the address.
func (a *address) rules() (*ruleAPI, error) {
	d, err := a.at("/v1", adminDoor)
	if err != nil {
		return nil, err
	}
	d.client.Timeout = rulesTimeout
	return &ruleAPI{d}, nil
}

// ruleCall is a call of the API.
type ruleCall struct {
	method string
	path   []string // below /v1; each may be any text
	query  url.Values
	body   []byte
	yaml   bool   // body is a file; else it is JSON
	csv    bool   // body is a list
	match  string // If-Match; empty: there is none
	fresh  bool   // what is made must not be there yet
	again  bool   // it may be made again: what it has done already stays
}

// ruleAnswer is its answer.
type ruleAnswer struct {
	body []byte
	etag string
}

// into reads a JSON answer.
func (a *ruleAnswer) into(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("read what the daemon says: %w", err)
	}
	return nil
}

// ruleProblem is an error as the API writes it.
type ruleProblem struct {
	Status   int
	Field    string
	Detail   string
	Findings []ruleapi.Finding
	file     string // that was sent; empty: none was
}

func (p *ruleProblem) Error() string {
	if len(p.Findings) == 0 {
		return "the daemon says: " + p.Detail
	}
	file := p.file
	if file == "" {
		file = "text"
	}
	var lines []string
	for _, f := range p.Findings {
		line := fmt.Sprintf("%s:%d:%d: %s: %s", file, f.Line, f.Column, f.Severity, f.Text)
		if f.Rule != "" {
			line += " (rule " + f.Rule + ")"
		}
		lines = append(lines, line)
	}
	if p.Field == "lines" { // it says how many there are, and whether something was changed
		lines = append(lines, strings.TrimPrefix(p.Detail, "lines: "))
	}
	return strings.Join(lines, "\n")
}

// code is the exit code: whether the caller can do better, or could not.
func (p *ruleProblem) code() int {
	switch p.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return exitUsage
	}
	return exitFail
}

// segment is text as one part of a path, whatever it is.
func segment(text string) string {
	if text == "." || text == ".." { // they would be walked
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// call makes a call. It fails with a *failure around a *ruleProblem when the
// daemon refuses.
func (d *ruleAPI) call(ctx context.Context, c ruleCall) (*ruleAnswer, error) {
	r, err := d.request(ctx, c)
	if err != nil {
		return nil, err
	}
	response, err := d.daemonAt.send(r)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, c.unknown(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRulesAnswer+1))
	if err == nil && len(body) > maxRulesAnswer {
		err = fmt.Errorf("the answer has over %d bytes", maxRulesAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w%s", err, c.unknown(err))
	}
	if response.StatusCode < 300 {
		return &ruleAnswer{body, response.Header.Get("ETag")}, nil
	}
	return nil, d.refused(response, body)
}

// unknown is what to say when the answer of a call was lost.
func (c *ruleCall) unknown(err error) string {
	dial, _ := errors.AsType[*net.OpError](err)
	if c.method == http.MethodGet || c.query.Get("dry_run") != "" || dial != nil && dial.Op == "dial" {
		return ""
	}
	if c.again {
		return "; some of it may be done, and stays: run the command again"
	}
	return "; whether the change was made is not known: look before you try again"
}

func (d *ruleAPI) request(ctx context.Context, c ruleCall) (*http.Request, error) {
	parts := []string{d.target}
	for _, part := range c.path {
		parts = append(parts, segment(part))
	}
	target := strings.Join(parts, "/")
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	switch {
	case c.yaml:
		r.Header.Set("Content-Type", "application/yaml")
	case c.csv:
		r.Header.Set("Content-Type", "text/csv")
	case c.body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	if c.match != "" {
		r.Header.Set("If-Match", c.match)
	}
	if c.fresh {
		r.Header.Set("If-None-Match", "*")
	}
	return r, nil
}

// refused is the error of an answer that is none.
func (d *ruleAPI) refused(response *http.Response, body []byte) error {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	p := new(ruleProblem)
	if kind == "application/problem+json" && json.Unmarshal(body, p) == nil {
		terminal.EscapeAll(p)
		p.Status = response.StatusCode
		return &failure{p.code(), p}
	}
	_, err := readAnswer(response, body, d.door)
	if err == nil {
		err = fmt.Errorf("%s answers %s", response.Request.URL, response.Status)
	}
	return err
}

// problem is what the daemon said when it refused, or nil.
func problem(err error) *ruleProblem {
	p, _ := errors.AsType[*ruleProblem](err)
	return p
}

// post makes a POST with a JSON body.
func (d *ruleAPI) post(ctx context.Context, c ruleCall, body any) (*ruleAnswer, error) {
	c.method = http.MethodPost
	return d.callJSON(ctx, c, body)
}

// callJSON makes a call with a JSON body.
func (d *ruleAPI) callJSON(ctx context.Context, c ruleCall, body any) (*ruleAnswer, error) {
	var err error
	if c.body, err = toJSON(body); err != nil {
		return nil, err
	}
	return d.call(ctx, c)
}

// toJSON is what a daemon is sent. It refuses words that are not UTF-8, in whose place JSON would put others.
func toJSON(v any) ([]byte, error) {
	if word, ok := notUTF8(reflect.ValueOf(v)); ok {
		return nil, usagef("%q is not UTF-8, which JSON can't carry; write it in UTF-8", word)
	}
	return json.Marshal(v)
}

// notUTF8 finds a string that is not UTF-8 among those that v leads to.
func notUTF8(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			return notUTF8(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if word, ok := notUTF8(field); ok {
				return word, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if word, ok := notUTF8(v.Index(i)); ok {
				return word, true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if word, ok := notUTF8(v.MapIndex(key)); ok {
				return word, true
			}
		}
	default: // numbers and the like
	}
	return "", false
}

// pages calls each with every page of a list.
func (d *ruleAPI) pages(ctx context.Context, c ruleCall, cursor string, each func(*ruleAnswer) error) error {
	for {
		answer, err := d.call(ctx, c)
		if err != nil {
			return err
		}
		if err := each(answer); err != nil {
			return err
		}
		var page struct{ Next string }
		if err := answer.into(&page); err != nil || page.Next == "" {
			return err
		}
		c.query.Set(cursor, page.Next)
	}
}
