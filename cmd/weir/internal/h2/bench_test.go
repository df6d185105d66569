package h2

import (
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// BenchmarkBytesApart is a byte of a request and a call, in a packet of their own, while other requests of the connection
// wait for theirs: it should cost the same however many wait.
func BenchmarkBytesApart(b *testing.B) {
	for name, waiting := range map[string]uint32{"alone": 0, "250": 250, "2000": 2000} {
		b.Run(name, func(b *testing.B) {
			address := open(b, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
			}))
			var dialer net.Dialer
			nc, err := dialer.DialContext(b.Context(), "tcp", address)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			f := http2.NewFramer(nc, nc)
			_, _ = io.WriteString(nc, preface) // the last frame tells
			_ = f.WriteSettings()
			for id := uint32(1); id < 2*waiting+2; id += 2 {
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x83, 0x86, 0x84}, EndHeaders: true})
			}
			block := append([]byte{0x83, 0x86, 0x04, 5}, "/fast"...)
			for id := 2*waiting + 3; b.Loop(); id += 2 {
				text := append(appendHead(nil, 1, frameData, 0, 1), 'x')
				text = append(appendHead(text, len(block), frameHeaders, flagEndHeaders|flagEndStream, id), block...)
				if _, err := nc.Write(text); err != nil {
					b.Fatal(err)
				}
				for {
					fr, err := f.ReadFrame()
					if err != nil {
						b.Fatal(err)
					}
					if h := fr.Header(); h.StreamID == id && h.Flags.Has(flagEndStream) {
						break
					}
				}
			}
		})
	}
}
