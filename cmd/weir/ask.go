package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/rules"
)

const (
	askTimeout = 10 * time.Second
	maxAnswer  = 16 << 20 // bytes
)

// daemonAt is a door of a daemon, asked by one of its routes.
type daemonAt struct {
	target string
	door   string // which it is, for people
	client *http.Client
}

// newDaemonAt is path at addr, which may leave out http://.
func newDaemonAt(addr, path, door string) (*daemonAt, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--addr %s: write the URL of a daemon, as http://127.0.0.1:8080", addr)
	}
	return &daemonAt{u.JoinPath(path).String(), door, &http.Client{
		Timeout:       askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// askDaemon asks path of the daemon at addr. door is which of its doors answers
// that.
func askDaemon(addr, path, door string) (checker, error) {
	d, err := newDaemonAt(addr, path, door)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q *rules.Request) ([]byte, error) {
		for _, e := range q.Descriptors[0].Entries {
			if !utf8.ValidString(e.Key) || !utf8.ValidString(e.Value) {
				return nil, usagef("%q=%q is not UTF-8, which JSON can't carry; ask over gRPC, or with --rules", e.Key, e.Value)
			}
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.target, bytes.NewReader(httpapi.AppendCheck(nil, q)))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		return d.do(r)
	}, nil
}

// askDenial asks the daemon at addr why it denied what it gave this id.
func askDenial(ctx context.Context, addr, id string) ([]byte, error) {
	d, err := newDaemonAt(addr, "/v1/explain", "the admin door")
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.target+"?id="+url.QueryEscape(id), nil)
	if err != nil {
		return nil, err
	}
	return d.do(r)
}

func (d *daemonAt) do(r *http.Request) ([]byte, error) {
	response, err := d.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the daemon: %w", err)
	}
	return readAnswer(response, body, d.door)
}

// readAnswer tells answers from errors: a denial is an answer.
func readAnswer(response *http.Response, body []byte, door string) ([]byte, error) {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if kind == "application/json" {
		return bytes.TrimSpace(body), nil
	}
	var problem struct{ Detail string }
	told := kind == "application/problem+json" && json.Unmarshal(body, &problem) == nil
	switch {
	case response.StatusCode == http.StatusNotFound && !strings.HasPrefix(problem.Detail, rules.ErrForgotten.Error()):
		return nil, fmt.Errorf("%s is not there; is it %s of a daemon?", response.Request.URL, door)
	case told:
		err := errors.New("the daemon says: " + problem.Detail)
		if response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusRequestEntityTooLarge {
			return nil, &failure{exitUsage, err}
		}
		return nil, err
	}
	return nil, fmt.Errorf("%s answers %s, which is no answer of weir; is it %s of a daemon?", response.Request.URL, response.Status, door)
}
