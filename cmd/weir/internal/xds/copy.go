package xds

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/internal/atomicfile"
	"github.com/weir-limit/weir/rules"
)

const (
	// keepEvery is how often the copy is written while rules change.
	keepEvery = time.Second
	// maxCopy is how large the copy may be, in bytes: an answer, with what stays of earlier ones.
	maxCopy = 2 * maxAnswer
)

// keeper keeps the last good copy, for a start without the control plane: a DiscoveryResponse with the resources that are active.
type keeper struct {
	file     string // empty: there is no place for it
	complain func(error)
	failed   string // what was complained of last
	dirty    bool   // the copy is older than the rules
	written  time.Time
}

// due is in what time the copy is to be written; false: it needs not be.
func (k *keeper) due(now time.Time) (time.Duration, bool) {
	return max(k.written.Add(keepEvery).Sub(now), 0), k.dirty && k.file != ""
}

// flush writes the copy, if it is older than the rules. A disk that is full is not tried without a pause.
func (k *keeper) flush(b *book) {
	if _, due := k.due(time.Now()); !due {
		return
	}
	k.written, k.dirty = time.Now(), false
	text, err := proto.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Resources: b.resources()})
	if err == nil {
		err = atomicfile.Put(k.file, text)
	}
	if err != nil {
		k.dirty = true
		k.fail(err)
		return
	}
	k.failed = ""
}

// fail tells that no copy is kept, each reason once.
func (k *keeper) fail(err error) {
	if text := err.Error(); text != k.failed {
		k.failed = text
		k.complain(fmt.Errorf("keep a copy of the rules: %w", err))
	}
}

// read reads the copy.
func (k *keeper) read() (*discoveryv3.DiscoveryResponse, error) {
	if k.file == "" {
		return nil, fs.ErrNotExist
	}
	atomicfile.RemoveAbandoned(k.file)
	f, err := os.Open(k.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", k.file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCopy+1))
	if err == nil && len(text) > maxCopy {
		err = fmt.Errorf("it has more than %d bytes", maxCopy)
	}
	var answer discoveryv3.DiscoveryResponse
	if err == nil {
		err = proto.Unmarshal(text, &answer)
	}
	if err == nil && answer.GetTypeUrl() != typeURL {
		err = errors.New("it is no copy of rules")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it", k.file, err)
	}
	return &answer, nil
}

// loadCopy makes the last good copy what is active, and gives its rules.
func (s *Source) loadCopy() (*rules.Set, error) {
	answer, err := s.copy.read()
	if err != nil {
		return nil, err
	}
	domains, err := s.book.read(answer.GetResources())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.copy.file, err)
	}
	set, err := join(domains)
	if err == nil {
		err = s.options.Check(set)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.copy.file, err)
	}
	s.book.domains = domains
	return set, nil
}
