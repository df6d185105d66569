package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
)

// Doors are the metrics of the connections of listeners.
type Doors struct {
	open                  *prometheus.GaugeVec
	full, dropped, unsafe *prometheus.CounterVec
}

// NewDoors makes them, and registers them.
func NewDoors(r prometheus.Registerer) *Doors {
	vec := func(name, help string) *prometheus.CounterVec {
		return registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"listener"}))
	}
	return &Doors{
		open: registered(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_connections", Help: "Open connections.",
		}, []string{"listener"})),
		full: vec("weir_connections_full_total",
			"New connections that had to wait because the listener had its maximum of connections."),
		dropped: vec("weir_connections_dropped_total",
			"Idle connections, and admin connections without a token, that were closed to make room for new ones."),
		unsafe: vec("weir_tls_handshake_failures_total",
			"Connections whose TLS handshake failed, for example for want of a trusted certificate."),
	}
}

// Connections counts those of a listener.
func (d *Doors) Connections(door string) listen.Metrics {
	return listen.Metrics{
		Open: d.open.WithLabelValues(door), Full: d.full.WithLabelValues(door), Dropped: d.dropped.WithLabelValues(door),
	}
}

// HandshakeFailed counts connections without the TLS that is asked for.
func (d *Doors) HandshakeFailed(door string) func() { return d.unsafe.WithLabelValues(door).Inc }

// About tells which program this is, and whether it is ready.
func About(version string, ready func() bool) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		return []prometheus.Metric{
			Gauge("weir_build_info",
				"Always 1; the labels are the versions of Weir and of Go.",
				1, "version", version, "go", runtime.Version()),
			Flag("weir_ready",
				"1 when /readyz says 200: rules are loaded, and the daemon does not drain.", ready()),
		}
	})
}

// Admission tells of weir admission: how many reviews ended how, and its certificate.
func Admission(counts func() map[string]int64, pair *credentials.Server) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		return append(By(Counter[int64], "weir_admission_reviews_total",
			"Reviews of ConfigMaps for Kubernetes, by result.", "result", counts()),
			CredentialsCurrent("tls", pair.Failed() == ""), CertificateExpiry(pair))
	})
}

// CredentialsCurrent tells whether the active credentials of a name are those of their files.
func CredentialsCurrent(name string, yes bool) prometheus.Metric {
	return Flag("weir_credentials_reload_success",
		"1 when the active credentials are those of their files, 0 when the last reload failed and old ones are "+
			"active.", yes, "credentials", name)
}

// CertificateExpiry tells when the active certificate expires.
func CertificateExpiry(pair *credentials.Server) prometheus.Metric {
	return Gauge("weir_tls_certificate_expiry_timestamp_seconds",
		"When the active TLS certificate expires.", pair.Leaf().NotAfter.Unix())
}
