package size

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is the advice for a need, and what it takes.
type Report struct {
	Need   needLine  `json:"need"`
	Design string    `json:"design"`         // empty when none fits
	Why    string    `json:"why"`            // or why none does
	Run    string    `json:"run,omitempty"`  // how to run it
	Size   *Sizing   `json:"size,omitempty"` // absent for designs that are not Weir's
	Shares []Share   `json:"shares,omitempty"`
	Others []Verdict `json:"others"`
}

// needLine is a Need as it is reported.
type needLine struct {
	Limit     string `json:"limit"`
	Keys      int64  `json:"keys"`
	Limits    int64  `json:"limits_per_request"`
	Rate      int64  `json:"requests_per_second"`
	Nodes     int64  `json:"nodes"`
	Regions   int64  `json:"regions"`
	Tolerance int64  `json:"tolerance_percent"`
}

// NewReport advises, and sizes what it advises; or the given store, if any.
func NewReport(n *Need, store Store) (*Report, error) {
	r := &Report{
		Need:   needLine{n.Limit.String(), n.Keys, n.Limits, n.Rate, n.Nodes, n.Regions, n.Tolerance},
		Why:    "no design that there is yet is enough: see the reasons of each",
		Others: []Verdict{},
	}
	advised, sync := false, time.Duration(0)
	for _, v := range n.Advise() {
		if v.Fits && !advised {
			advised = true
			r.Design, r.Why, r.Run = v.Design, v.Why, v.Run
			if store == "" {
				store, sync = v.store, v.sync
			}
			continue
		}
		r.Others = append(r.Others, v)
	}
	if store == "" {
		return r, nil
	}
	if store == Nodes {
		if n.Nodes > maxShare || n.Regions > 1 {
			return nil, fmt.Errorf("a cluster is up to %d nodes that are near each other", maxShare)
		}
		r.Shares = n.shares()
		return r, nil
	}
	z, err := n.Of(store, sync)
	if err != nil {
		return nil, err
	}
	r.Size = &z
	return r, nil
}

// WriteJSON writes the report as one line.
func (r *Report) WriteJSON(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write sizes: %w", err)
	}
	return nil
}

// WriteText writes the report for people.
func (r *Report) WriteText(to io.Writer) error {
	var b strings.Builder
	n := &r.Need
	fmt.Fprintf(&b, "%s keys in use of %s, %s requests a second, %s on a request, %s", Count(n.Keys), n.Limit, Count(n.Rate), many(n.Limits, "limit"), many(n.Nodes, "node"))
	if n.Regions > 1 {
		fmt.Fprintf(&b, " in %s", many(n.Regions, "region"))
	}
	if n.Tolerance > 0 {
		fmt.Fprintf(&b, ", up to %d %% more may pass", n.Tolerance)
	}
	b.WriteString("\n\n")
	if r.Design == "" {
		wrap(&b, "take", "none: "+r.Why)
	} else {
		wrap(&b, "take", r.Design)
		wrap(&b, "because", r.Why)
	}
	if r.Run != "" {
		wrap(&b, "run", r.Run)
	}
	if r.Size != nil {
		b.WriteByte('\n')
		r.Size.write(&b, n)
	}
	if len(r.Shares) > 0 {
		b.WriteByte('\n')
		writeShares(&b, r.Shares, n)
	}
	b.WriteByte('\n')
	for _, v := range r.Others {
		word := "not"
		if v.Fits {
			word = "or"
		}
		wrap(&b, word, v.Design+": "+v.Why)
	}
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write sizes: %w", err)
	}
	return nil
}

// width is how long lines are, in characters.
const width = 100

// wrap writes text in lines behind a word.
func wrap(b *strings.Builder, word, text string) {
	fmt.Fprintf(b, "%-8s", word)
	at := 8
	for i, w := range strings.Fields(text) {
		if i > 0 && at+1+len(w) > width {
			b.WriteString("\n        ")
			at = 8
		} else if i > 0 {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += len(w)
	}
	b.WriteByte('\n')
}

func (z *Sizing) write(b *strings.Builder, n *needLine) {
	each := ""
	if n.Regions > 1 {
		each = ", in each region"
	}
	fmt.Fprintf(b, "with %s%s\n", z.Store, each)
	if z.Store == Memory {
		fmt.Fprintf(b, "  memory   %s on each node: %d B a key, and the daemon; give it twice\n", Bytes(z.MemoryBytes), z.KeyBytes)
		fmt.Fprintf(b, "  takes    %s a second, locally\n", Count(z.Takes))
		fmt.Fprintf(b, "  network  none but its callers'\n")
	} else {
		fmt.Fprintf(b, "  memory   %s: at most %d B a key; have twice, for a replica or a snapshot\n", Bytes(z.MemoryBytes), z.KeyBytes)
		fmt.Fprintf(b, "  takes    %s a second\n", Count(z.Takes))
		fmt.Fprintf(b, "  opened   %s to each server at most\n", many(z.Connections, "connection"))
		fmt.Fprintf(b, "  network  %s a second at most, both ways, between nodes and store\n", Bytes(z.NetworkBytes))
		fmt.Fprintf(b, "  servers  %s: %d %% of a processor in all; planned for %d %% of each, the rest is for peaks\n", many(z.Servers, "server"), z.StoreCPU, load)
	}
	nodes := up(n.Nodes, n.Regions)
	fmt.Fprintf(b, "  nodes    %d %% of a processor in all, %d %% on each of %s\n", z.NodeCPU, up(z.NodeCPU, nodes), many(nodes, "node"))
}

func many(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}
