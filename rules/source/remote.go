package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-limit/weir/rules"
)

const (
	// pollRemote is how often a daemon is asked, more or less by a fifth, so that
	// many do not ask in step.
	pollRemote = 10 * time.Second
	// fetchTimeout is how long an answer may take, to its last byte.
	fetchTimeout = 10 * time.Second
	maxRedirects = 10
)

// remote is the rules of a daemon.
type remote struct {
	url       *url.URL
	name      string // of the URL, without a password
	poll      time.Duration
	client    *http.Client
	cache     cache
	notCached func(error)
	failed    string // what notCached was told last
	kept      string // what the copy says

	last, good answer // as it was read, and as it was accepted
}

// answer is what a daemon said.
type answer struct {
	set  *rules.Set
	etag string
}

func newRemote(place string, o Options) (*remote, error) {
	u, err := url.Parse(place)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err // without the URL, in which a password may stand
	}
	if err == nil && u.Host == "" {
		err = errors.New("no host")
	}
	if err != nil {
		return nil, fmt.Errorf("%w; write http://HOST:PORT/v1/export", err)
	}
	r := &remote{
		url: u, name: u.Redacted(), poll: o.Poll, notCached: o.NotCached,
		client: &http.Client{Timeout: fetchTimeout, Transport: o.Transport, CheckRedirect: stay},
	}
	if r.poll <= 0 {
		r.poll = pollRemote
	}
	if r.notCached == nil {
		r.notCached = func(error) {}
	}
	if r.cache = cache(o.Cache); r.cache == "" {
		name, err := DefaultCache(place)
		if err != nil {
			r.complain(err)
		}
		r.cache = cache(name)
	}
	return r, nil
}

// stay follows a daemon to another path of its own, and to no other daemon,
// whose rules nobody asked for.
func stay(q *http.Request, via []*http.Request) error {
	if first := via[0].URL; q.URL.Scheme != first.Scheme || q.URL.Host != first.Host {
		return fmt.Errorf("%s sends on to %s, which is another daemon; ask that one", first.Host, q.URL.Host)
	}
	if len(via) == maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

func (r *remote) read(ctx context.Context) (*rules.Set, error) {
	a, err := r.fetch(ctx)
	if err == nil {
		r.last = a
		return a.set, nil
	}
	if r.good.set != nil || ctx.Err() != nil {
		return nil, err
	}
	text, noCopy := r.cache.read()
	if noCopy != nil {
		return nil, errors.Join(err, fmt.Errorf("last good copy: %w", noCopy))
	}
	set, noCopy := rules.ParseExport(r.name, text)
	if noCopy != nil {
		// Not wrapped: a caller that looks for a *rules.Error in it means the daemon's rules.
		return nil, errors.Join(err, fmt.Errorf("last good copy, %s: %s", r.cache, noCopy.Error()))
	}
	r.last, r.kept = answer{set: set}, saying(set, nil)
	return set, err
}

// fetch asks for the rules. When they are still those that were accepted, it
// gives the same set again.
func (r *remote) fetch(ctx context.Context) (answer, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), nil)
	if err != nil {
		return answer{}, err
	}
	q.Header.Set("Accept", "application/yaml")
	if r.good.etag != "" {
		q.Header.Set("If-None-Match", r.good.etag)
	}
	response, err := r.client.Do(q)
	if err != nil {
		return answer{}, &FetchError{err} // it names the URL
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && r.good.set != nil:
		return r.good, nil
	case response.StatusCode != http.StatusOK:
		return answer{}, &FetchError{fmt.Errorf("%s answers %s%s", r.name, response.Status, why(response))}
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, rules.MaxFileSize+1)) // ParseExport refuses more
	if err != nil {
		return answer{}, &FetchError{fmt.Errorf("read the answer of %s: %w", r.name, err)}
	}
	set, err := rules.ParseExport(r.name, text)
	return answer{set, response.Header.Get("ETag")}, err
}

// maxProblem is how much of an answer is read that is no rules, in bytes.
const maxProblem = 4 << 10

// why is what a daemon says of itself that does not give its rules.
func why(response *http.Response) string {
	if response.Header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	var problem struct{ Detail string }
	if json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(&problem) != nil || problem.Detail == "" {
		return ""
	}
	return ": " + strconv.QuoteToGraphic(problem.Detail)
}

// accepted keeps a copy of new rules.
func (r *remote) accepted(set *rules.Set) {
	if set == r.good.set {
		return
	}
	r.good = r.last
	now := saying(set, nil)
	if now == r.kept || r.cache == "" {
		return
	}
	if err := r.cache.write(set.Export()); err != nil {
		r.complain(err)
		return
	}
	r.kept = now
}

// complain tells that no copy is kept, each reason once.
func (r *remote) complain(err error) {
	if text := err.Error(); text != r.failed {
		r.failed = text
		r.notCached(fmt.Errorf("keep a copy of the rules: %w", err))
	}
}

func (r *remote) watch(ctx context.Context, reload <-chan struct{}, look func(forced bool)) {
	for {
		fifth := float64(r.poll) / 5
		next := time.NewTimer(r.poll + time.Duration((2*rand.Float64()-1)*fifth))
		forced := false
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-reload:
			next.Stop()
			forced = true
		case <-next.C:
		}
		look(forced)
	}
}
