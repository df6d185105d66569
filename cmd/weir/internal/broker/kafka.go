package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// optionSASL is how a user shows who it is.
const optionSASL = "sasl"

// Kafka is a topic at Kafka, or at a broker that speaks its protocol.
type Kafka struct {
	Topic   string
	Options map[string]string // those that the caller of ParseKafka knows

	hosts []string
	tls   *tls.Config
	sasl  sasl.Mechanism // nil: nobody asks
}

// IsKafka is whether a URL is one of Kafka.
func IsKafka(url string) bool { return strings.HasPrefix(url, "kafka://") }

// ParseKafka reads a URL, kafka://[USER:PASSWORD@]HOST:PORT[,…]/TOPIC, and connects to nobody. known
// are the options that the caller has itself.
func ParseKafka(url string, known ...string) (*Kafka, error) {
	p, err := readURL(url, "topic", append([]string{optionSASL}, known...))
	if err != nil {
		return nil, err
	}
	k := &Kafka{Topic: p.name, Options: p.options, hosts: p.hosts}
	if k.tls, err = p.tls(); err != nil {
		return nil, err
	}
	k.sasl, err = p.mechanism()
	return k, err
}

func (p *place) mechanism() (sasl.Mechanism, error) {
	kind, given := p.options[optionSASL]
	switch {
	case p.user == "" && given:
		return nil, errors.New(optionSASL + " is for a user; write USER:PASSWORD@ before the host")
	case p.user == "":
		return nil, nil
	}
	scrammed := scram.Auth{User: p.user, Pass: p.password}
	switch kind {
	case "", "scram-sha-512":
		return scrammed.AsSha512Mechanism(), nil
	case "scram-sha-256":
		return scrammed.AsSha256Mechanism(), nil
	case "plain":
		return plain.Auth{User: p.user, Pass: p.password}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("%s is %q; write scram-sha-512, scram-sha-256 or plain", optionSASL, kind)
}

// Client makes a client, which connects when it is used. It ends with Close.
func (k *Kafka) Client(o ...kgo.Opt) (*kgo.Client, error) {
	all := []kgo.Opt{kgo.SeedBrokers(k.hosts...), kgo.ClientID("weir")}
	if k.tls != nil {
		all = append(all, kgo.DialTLSConfig(k.tls.Clone()))
	}
	if k.sasl != nil {
		all = append(all, kgo.SASL(k.sasl))
	}
	return kgo.NewClient(append(all, o...)...)
}
