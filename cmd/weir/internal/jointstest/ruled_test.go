package jointstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// ruling is a rule database, and what it should have: the daemons' rules and exceptions are those of mirror, which decides nothing.
type ruling struct {
	more       []*running // further daemons with the same database
	mirror     front
	exceptions rules.Exceptions
	held       map[heldBy]heldException
}

// heldBy is a limit of a rule and a value of its key.
type heldBy struct {
	key, value string
	limit      int
}

type heldException struct {
	id   string
	body map[string]any // that has set it
	at   weir.StateKey
}

// rulingToken opens the admin listeners of daemons with a rule database.
const rulingToken = "a-token-of-the-file-for-the-tests-of-joints"

// openRuled is a daemon with a rule database in SQLite and counts in memory, or two daemons with one in PostgreSQL and counts in Redis.
func openRuled(t testing.TB, store, file string) (*served, error) {
	s := &served{t: t, store: store, ruled: &ruling{held: map[heldBy]heldException{}}}
	config := daemon.Config{Store: "memory:", Data: t.TempDir(), AdminTokenFile: filepath.Join(t.TempDir(), "tokens")}
	if err := os.WriteFile(config.AdminTokenFile, []byte(rulingToken+"\n"), 0o600); err != nil {
		return nil, err
	}
	daemons := 1
	if server, at := serve(t, store); server != nil {
		s.server, config.Store, config.Data, daemons = server, at, postgrestest.Start(t).Database(t), 2
	}
	traits, err := daemon.StoreTraits(config.Store)
	if err != nil {
		return nil, err
	}
	s.ruled.mirror = front{limiter: rules.NewLimiter(memstore.New(memstore.Options{}), nil), traits: traits}
	s.ruled.mirror.limiter.Except(&s.ruled.exceptions, nil)
	for i := range daemons {
		r, err := start(config)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.node = r
		} else {
			s.ruled.more = append(s.ruled.more, r)
		}
	}
	return s, s.publish(file)
}

// all is the daemons.
func (s *served) all() []*running { return append([]*running{s.node}, s.ruled.more...) }

// asks asks the rule API, and fails where it refuses.
func (s *served) asks(method, path, kind, body string, fields ...string) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	s.node.front.admin.ServeHTTP(w, r)
	if w.Code >= 300 {
		return w, fmt.Errorf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
	}
	return w, nil
}

// publish puts a file in force, and waits until all daemons have it.
func (s *served) publish(file string) error {
	set, err := rules.Parse("rules.yaml", []byte(file))
	if err != nil {
		return err
	}
	match := []string{"If-None-Match", "*"}
	if old, err := s.asks(http.MethodGet, "/v1/domains/d/file", "", ""); err == nil {
		match = []string{"If-Match", old.Header().Get("ETag")}
	}
	query := url.Values{"to": {"enforced"}, "force": {"true"}, "reason": {"a story"}, "team": {"joints"}}
	if _, err := s.asks(http.MethodPut, "/v1/domains/d/file?"+query.Encode(), "application/yaml", file, match...); err != nil {
		return err
	}
	s.ruled.mirror.limiter.Replace(set)
	return s.agree()
}

// agree waits until all daemons have the rules and exceptions that they should have.
func (s *served) agree() error {
	asked := map[oracle.Descriptor]bool{}
	for at := range s.ruled.held {
		asked[oracle.Descriptor{Key: at.key, Value: at.value}] = true
	}
	for _, r := range s.ruled.mirror.limiter.Set().Rules() {
		asked[oracle.Descriptor{Key: r.Path[0].Key, Value: "nobody"}] = true
	}
	for d := range asked {
		if err := s.agreeOn(d); err != nil {
			return err
		}
	}
	return nil
}

// agreeOn is agree about one client.
func (s *served) agreeOn(d oracle.Descriptor) error {
	peek := &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: d.Key, Value: d.Value}}}}, Peek: true}
	deciding, err := s.ruled.mirror.limiter.Reset(context.Background(), peek)
	if err != nil {
		return err
	}
	var want []string
	for _, r := range deciding {
		want = append(want, r.Name+" "+r.Limit.String())
	}
	body := fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":%q,"value":%q}]}],"peek":true}`, d.Key, d.Value)
	for _, r := range s.all() {
		var said string
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			w := call(r.front.admin, http.MethodPost, "/v1/reset", body)
			var answer struct {
				Reset []struct{ Rule, Limit string }
			}
			var has []string
			if said = w.Body.String(); json.Unmarshal(w.Body.Bytes(), &answer) == nil && w.Code == http.StatusOK {
				for _, one := range answer.Reset {
					has = append(has, one.Rule+" "+one.Limit)
				}
				if slices.Equal(has, want) {
					break
				}
			}
			if time.Now().After(end) {
				return fmt.Errorf("a daemon decides about %s=%s by %s, and not by %q", d.Key, d.Value, said, want)
			}
		}
	}
	return nil
}

// except sets or ends an exception of a limit of a rule, and waits until all daemons have it.
func (s *served) except(at heldBy, met []*rules.Rule, e rules.Exception, text string) error {
	was, there := s.ruled.held[at]
	switch {
	case text == "" && !there:
		return errNoStep
	case text == "":
		if _, err := s.asks(http.MethodDelete, "/v1/exceptions/"+was.id+"?reason=over", "", ""); err != nil {
			return err
		}
		delete(s.ruled.held, at)
	default:
		body := map[string]any{"domain": "d", "entries": []map[string]string{{"key": at.key, "value": at.value}}, "limit": text, "seconds": 3600, "reason": "a story"}
		if len(met) > 1 {
			name := met[at.limit].LimitName()
			if slices.IndexFunc(met, func(r *rules.Rule) bool { return r.LimitName() == name }) != at.limit {
				return errNoStep // another one has this name, too
			}
			body["of"] = name
		}
		id, err := s.sets(body)
		if err != nil {
			return err
		}
		s.ruled.held[at] = heldException{id, body, e.State}
	}
	s.ruled.exceptions.Change([]rules.Exception{e}, false, 1)
	return s.agreeOn(oracle.Descriptor{Key: at.key, Value: at.value})
}

func (s *served) sets(body map[string]any) (id string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	w, err := s.asks(http.MethodPost, "/v1/exceptions", "application/json", string(text))
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	return made.ID, json.Unmarshal(w.Body.Bytes(), &made)
}

// lapse has an exception end by itself, and waits until it has at all daemons.
func (s *served) lapse(at heldBy) error {
	was, there := s.ruled.held[at]
	if !there {
		return errNoStep
	}
	was.body["seconds"] = 1
	if _, err := s.sets(was.body); err != nil {
		return err
	}
	delete(s.ruled.held, at)
	s.ruled.exceptions.Change([]rules.Exception{{State: was.at}}, false, 1)
	return s.agreeOn(oracle.Descriptor{Key: at.key, Value: at.value})
}

// gone is the exceptions of rules that a file has no more: they end with these.
func (s *served) gone(next []oracle.Rule) (all []heldBy) {
	for at := range s.ruled.held {
		if !slices.ContainsFunc(next, func(r oracle.Rule) bool { return r.Key == at.key }) {
			all = append(all, at)
		}
	}
	for _, at := range all {
		s.ruled.exceptions.Change([]rules.Exception{{State: s.ruled.held[at].at}}, false, 1)
		delete(s.ruled.held, at)
	}
	return all
}

// unblock resets the counts of a client at all daemons.
func (s *served) unblock(d oracle.Descriptor) error {
	text, err := json.Marshal(map[string]any{"domain": "d", "entries": []map[string]string{{"key": d.Key, "value": d.Value}}, "reason": "a story"})
	if err != nil {
		return err
	}
	w, err := s.asks(http.MethodPost, "/v1/limited/unblock", "application/json", string(text))
	if err == nil && !strings.Contains(w.Body.String(), `"late":[]`) {
		err = errors.New("not all daemons have done it: " + w.Body.String())
	}
	if w.Code == http.StatusNotFound {
		return errNoStep // no rule is for it now
	}
	return err
}

// restartAll restarts the daemons one by one.
func (s *served) restartAll() error {
	for i, r := range s.all() {
		if err := r.end(); err != nil {
			return err
		}
		next, err := start(r.config)
		if err != nil {
			return err
		}
		if i == 0 {
			s.node = next
		} else {
			s.ruled.more[i-1] = next
		}
	}
	return s.agree()
}

// TestRuledStories plays stories of daemons with a rule database, whose exceptions are set, changed, ended, and end by themselves.
func TestRuledStories(t *testing.T) {
	for house, seeds := range map[string]uint64{"ruled memory": 4, "ruled redis": 2} {
		t.Run(house, func(t *testing.T) {
			if program := missing(house); program != "" {
				t.Skip("no " + program)
			}
			all := newMet(house)
			for seed := range seeds {
				s := draw(seed, house)
				v := perform(t, s)
				all.add(v.met)
				if v.err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, v.err, s)
				}
				if v.wrong() {
					keep(t, seed, s, v)
				}
			}
			for _, event := range []string{"except", "lapse", "reload", "reset"} {
				if all.events[event] == 0 {
					t.Errorf("no story of these seeds has %s", event)
				}
			}
			t.Logf("\n%s", all)
		})
	}
}
