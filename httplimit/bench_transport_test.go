package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/weir-limit/weir/httplimit"
)

type instant struct{ fields http.Header }

func (i instant) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: i.fields, Body: http.NoBody}, nil
}

// BenchmarkTransport is what a request costs that need not wait, over its base.
func BenchmarkTransport(b *testing.B) {
	for _, c := range []struct {
		name    string
		fields  http.Header
		options httplimit.TransportOptions
	}{
		{"no limits", http.Header{}, httplimit.TransportOptions{}},
		{"fields", http.Header{"Ratelimit": {`"a";r=50`}, "Ratelimit-Policy": {`"a";q=100;w=60`}}, httplimit.TransportOptions{}},
		{"own limit", http.Header{}, httplimit.TransportOptions{Limiter: ownLimit("1000000/ms")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.options.Base = instant{c.fields}
			tr, err := httplimit.NewTransport(c.options)
			if err != nil {
				b.Fatal(err)
			}
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://api.example/", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
