package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// client makes requests to receivers.
type client struct {
	networks, inner []netip.Prefix
	agent           string
	tls, plain      *http.Client
}

func newClient(o Options) client {
	c := client{networks: o.Networks, inner: inner(), agent: o.Agent}
	c.tls, c.plain = c.http(false), c.http(true)
	return c
}

// http is a client for URLs with TLS or without. It goes by no proxy, which would hide where requests go to, and keeps no connection: the address is
// checked for each request.
func (c *client) http(plain bool) *http.Client {
	dialer := &net.Dialer{Timeout: deliveryTime, Control: c.check(plain)}
	return &http.Client{
		Timeout:       deliveryTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader,
			TLSHandshakeTimeout: deliveryTime, ResponseHeaderTimeout: deliveryTime,
		},
	}
}

// send makes one try to deliver a message.
func (c *client) send(ctx context.Context, w *rulestore.Webhook, m *rulestore.Message, tries int64) rulestore.Delivery {
	start := time.Now()
	d := rulestore.Delivery{Message: m.ID, Kind: m.Kind, At: start.UTC().Truncate(time.Microsecond), Tries: tries}
	var err error
	if d.Status, err = c.post(ctx, w, m, start); err != nil {
		d.Error = why(err)
	}
	d.Millis = time.Since(start).Milliseconds()
	return d
}

func (c *client) post(ctx context.Context, w *rulestore.Webhook, m *rulestore.Message, now time.Time) (status int, err error) {
	body, err := write(w.Form, m)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Target(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", c.agent)
	sign(r.Header, w.Keys(now), m.ID, now, body)
	by := c.tls
	if r.URL.Scheme != "https" {
		by = c.plain
	}
	answer, err := by.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }() // what it says does not matter
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		return answer.StatusCode, nil
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return answer.StatusCode, fmt.Errorf("it answers %d, and redirections are not followed; name the URL that it leads to", answer.StatusCode)
	}
	return answer.StatusCode, fmt.Errorf("it answers %d", answer.StatusCode)
}

// why is an error without the URL, which may be a secret.
func why(err error) string {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if no, ok := errors.AsType[*refusal](err); ok {
		return no.text
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return "it does not answer within " + deliveryTime.String()
	}
	return err.Error()
}

// sign adds the header fields of Standard Webhooks: the id and time of a message, and a signature of both and the body by each key.
func sign(h http.Header, keys [][]byte, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body) // it never fails
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
