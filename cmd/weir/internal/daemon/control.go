package daemon

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
	"github.com/weir-limit/weir/cmd/weir/internal/xds"
)

// openControl makes the source of rules that come from a control plane.
func (d *Daemon) openControl() error {
	if show := d.config.shown(); show.Given() {
		return &ConfigError{"--rules", "a control plane is shown what its URL says; write ?ca=FILE&cert=FILE&key=FILE, and a token as metadata=authorization:TOKEN, in place of --rules-ca, --rules-cert, --rules-key and --rules-token-file"}
	}
	s, err := xds.Open(d.config.Rules, xds.Options{
		Check: d.fits, NotKept: d.notKept,
		Held: func(domains []string, until time.Time) {
			const most = 10
			named := strings.Join(domains[:min(len(domains), most)], ", ")
			d.config.Log.Warn("the control plane names fewer domains since it was reached again; the others stay until it has had time to read all that it knows",
				"domains", len(domains), "named", named, "until", until.UTC().Format(time.RFC3339))
		},
	})
	if _, bad := errors.AsType[*credentials.Error](err); bad {
		return configError(err)
	}
	if err != nil {
		return &ConfigError{"--rules", err.Error()}
	}
	d.source, d.control = s, s
	return nil
}

// maxVersion is how many bytes of the name of a version metrics show.
const maxVersion = 64

// controlMetrics tells how it stands with the control plane.
func (d *Daemon) controlMetrics() []prometheus.Metric {
	s := d.control.Status()
	version := s.Version
	if len(version) > maxVersion {
		version = strings.ToValidUTF8(version[:maxVersion], "")
	}
	const answers = "Answers of the control plane by what became of them: accepted, refused, or superseded by a later one that came soon after it."
	return []prometheus.Metric{
		telemetry.Flag("weir_xds_connected", "1 while there is a stream to the control plane that rules come from.", s.Connected),
		telemetry.Gauge("weir_xds_version_info", "1, with the version of the active rules as the control plane calls it.", 1, "version", version),
		telemetry.Gauge("weir_xds_answered_timestamp_seconds", "When the last answer of the control plane was accepted; 0: none was yet.", unix(s.Answered)),
		telemetry.Gauge("weir_xds_changed_timestamp_seconds", "When the control plane last changed the active rules; 0: it has not yet.", unix(s.Changed)),
		telemetry.Gauge("weir_xds_held_domains", "Domains that stay for up to 30 s though the control plane, since it was reached again, does not name them.", s.Held),
		telemetry.Counter("weir_xds_answers_total", answers, s.Accepted, "result", "accepted"),
		telemetry.Counter("weir_xds_answers_total", answers, s.Refused, "result", "refused"),
		telemetry.Counter("weir_xds_answers_total", answers, s.Superseded, "result", "superseded"),
		telemetry.Counter("weir_xds_streams_total", "Streams to the control plane that were opened.", s.Streams),
		telemetry.Counter("weir_xds_stream_failures_total", "Streams to the control plane that could not be opened.", s.Failed),
		telemetry.Counter("weir_xds_received_bytes_total", "Size of all answers of the control plane.", s.Bytes),
	}
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// controlFact is how it stands with the control plane, for a page.
func (d *Daemon) controlFact() webui.Fact {
	s := d.control.Status()
	said := "not reached yet"
	if s.Connected {
		said = "reached since " + clock(s.Since)
	} else if !s.Since.IsZero() {
		said = "not reached since " + clock(s.Since)
	}
	if s.Version != "" {
		said += fmt.Sprintf("; version %s was accepted %s", s.Version, clock(s.Answered))
	}
	if s.Refused > 0 {
		said += fmt.Sprintf("; %d answers were refused", s.Refused)
	}
	return webui.Fact{Name: "Control plane " + d.control.Name(), Value: said}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
