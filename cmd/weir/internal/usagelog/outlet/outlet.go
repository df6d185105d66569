// Package outlet opens logs of usage by their URLs: it finds the Sink that a scheme means, and reads
// the options that all of them have. kafka.go and nats.go are Sinks; package usagelog keeps files itself.
package outlet

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/internal/storeurl"
)

// The options that the URLs of all logs have.
const (
	optionNode    = "node"          // this daemon's name in records
	optionHashKey = "hash-key-file" // a file with the secret that hides keys
)

// minSecret is how many bytes a secret has at least that keys are hashed under.
const minSecret = 16

// schemes say what to write.
const schemes = "write file:DIR, kafka://HOST:PORT/TOPIC or nats://HOST:PORT/SUBJECT"

// Open opens a log by its URL. It fails for a URL that can't be meant and a folder that can't be
// written to; a broker may be away. node is this daemon's name, where the URL gives it no other.
// An error has nothing of a URL but what is wrong with it, for that may have a password.
func Open(url, node string, changed func(away error)) (*usagelog.Log, error) {
	sink, options, err := kindOf(url)
	if err != nil {
		return nil, err
	}
	o, err := common(options, node)
	if err != nil {
		return nil, err
	}
	o.Changed = changed
	opened, err := sink(o.Node)
	if err != nil {
		return nil, err
	}
	return usagelog.New(opened, o), nil
}

// kindOf is how to open what a URL means, and the options in it.
func kindOf(url string) (open func(node string) (usagelog.Sink, error), options map[string]string, err error) {
	if broker.IsKafka(url) {
		k, err := broker.ParseKafka(url, optionNode, optionHashKey)
		if err != nil {
			return nil, nil, err
		}
		return func(string) (usagelog.Sink, error) { return openKafka(k) }, k.Options, nil
	}
	if broker.IsNATS(url) {
		n, err := broker.ParseNATS(url, optionNode, optionHashKey)
		if err != nil {
			return nil, nil, err
		}
		return func(string) (usagelog.Sink, error) { return openNATS(n) }, n.Options, nil
	}
	rest, ok := strings.CutPrefix(url, "file:")
	if !ok {
		return nil, nil, errors.New("this is no usage log; " + schemes)
	}
	dir, query, _ := strings.Cut(rest, "?")
	if dir == "" {
		return nil, nil, errors.New("the folder is missing; " + schemes)
	}
	options, err = storeurl.Options(query, optionNode, optionHashKey)
	return func(node string) (usagelog.Sink, error) { return usagelog.OpenFiles(dir, node) }, options, err
}

// common is what the options of all logs say.
func common(options map[string]string, node string) (o usagelog.Options, err error) {
	o.Node = node
	if given, ok := options[optionNode]; ok {
		o.Node = given
	}
	if strings.Contains(o.Node, "/") || o.Node == "" {
		return o, fmt.Errorf("the name of this daemon is %q; give it one without a slash: ?%s=NAME", o.Node, optionNode)
	}
	if file, ok := options[optionHashKey]; ok {
		o.Hide, err = hider(file)
	}
	return o, err
}

// hider hides keys under the secret in the first line of a file.
func hider(file string) (func(string) string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	secret, _, _ := bytes.Cut(text, []byte{'\n'})
	secret = bytes.TrimSpace(secret)
	if len(secret) < minSecret {
		return nil, fmt.Errorf("%s: the first line of %s has %d bytes; keys are hashed under it, so it needs %d at least: openssl rand -hex 32 >FILE",
			optionHashKey, file, len(secret), minSecret)
	}
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
	}, nil
}
