package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/cmd/weir/internal/report"
	"github.com/weir-limit/weir/cmd/weir/internal/table"
	"github.com/weir-limit/weir/sim"
)

// maxClusterCells is how many clusters one command runs.
const maxClusterCells = 1000

// waysToShare are all those of a cluster.
var waysToShare = []string{"lease", "leader", "sticky", "mesh", "gossip", "hub", "divided"}

// allWays are these, and those without a cluster.
func allWays() []string {
	return append(slices.Clip(waysToShare), string(sim.SharingStore), string(sim.SharingLog))
}

// partitions are what a rule may say of nodes that can't reach each other.
var partitions = []string{"proportional", "closed", "reserve", "share", "open"}

// clusters is what the flags of weir simulate cluster say.
type clusters struct {
	limit     string
	nodes     []int
	sharings  []string
	loads     []int64
	workload  string
	partition string
	options   sim.ClusterOptions
	json      bool
	svg       string
	command   string
}

// clusterCell is one cluster of the grid, and its line of JSON.
type clusterCell struct {
	sim.ClusterFigures
	Workload string `json:"workload"`
	Unfit    string `json:"unfit,omitempty"` // why nodes can't share the limit so; the figures are 0 then

	load int64 // times the limit's pace; 0 with a workload of one's own
}

func clusterCommand() *cobra.Command {
	var k clusters
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Tell what nodes let pass together, by their number and the way they share a limit",
		Long: `Run the code of the nodes of a cluster in virtual time: for each number of nodes, way
to share, and load, tell how much more or less passes than one node would let pass,
by how much that is beyond the limit at worst, and how many messages it takes.

Each request goes to a node by chance. --cut parts the nodes into two halves that
can't reach each other; --loss loses messages. --sharing store is no cluster: the nodes
have a store, and lease: 100ms in the rule. --sharing log is none, either: the nodes
tell each other through an event log; with --log-rate it takes so many entries a
second only, so that its lag grows with the load. The same seed gives the same answer.
docs/simulate.md defines all figures.`,
		Example: `  weir simulate cluster
  weir simulate cluster --limit 1000/s --nodes 3,30 --sharing lease,mesh --cut 8s --duration 20s
  weir simulate cluster --limit "100/min burst 10" --workload "bursts size=50 every=10s clients=20"`,
		Args: noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&k.limit, "limit", "100/s", "`LIMIT` that the nodes share")
	f.IntSliceVar(&k.nodes, "nodes", []int{2, 5, 10, 50}, "`N,…` nodes")
	f.StringSliceVar(&k.sharings, "sharing", waysToShare, "`WAY,…` to share: "+theValues)
	choices(cmd, "sharing", allWays()...)
	f.Int64SliceVar(&k.loads, "load", []int64{1, 10}, "`TIMES,…` the limit's pace that requests come at")
	f.StringVar(&k.workload, "workload", "", "`TRAFFIC` of one key or several, in place of --load; weir simulate workloads lists all")
	f.StringVar(&k.partition, "partition", "proportional", "`POLICY` while nodes can't reach each other: "+theValues)
	choice(cmd, "partition", partitions...)
	f.Var((*timeFlag)(&k.options.Duration), "duration", "how long requests come (default 10s)")
	f.Var((*timeFlag)(&k.options.Cut), "cut", "how long two halves can't reach each other, from a quarter of the duration on")
	k.options.Delay = time.Millisecond
	f.Var((*timeOrNone)(&k.options.Delay), "delay", "the longest `TIME` that a message takes")
	f.IntVar(&k.options.Loss, "loss", 0, "`N` of a thousand messages are lost")
	f.IntVar(&k.options.LogRate, "log-rate", 0, "`N` entries a second that the log of --sharing log takes (default any number)")
	f.BoolVar(&k.options.Skewed, "skewed", false, "some nodes get more requests than others")
	f.Uint64Var(&k.options.Seed, "seed", 1, "`N` that all chance comes from")
	f.BoolVar(&k.json, "json", false, "print JSON, a line for each cluster")
	f.StringVar(&k.svg, "svg", "", "also write the picture cluster.svg, and lag.svg of a log, to folder `DIR`")
	cmd.MarkFlagsMutuallyExclusive("load", "workload")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		k.command = commandLine(cmd)
		bar, done := progress(cmd.ErrOrStderr(), "simulate cluster", progressbar.OptionShowBytes(false))
		defer done()
		cells, err := k.run(cmd.Context(), bar)
		done()
		if err != nil {
			return err
		}
		if err := k.draw(cells); err != nil {
			return err
		}
		if k.json {
			return printClusterJSON(cmd.OutOrStdout(), cells)
		}
		return k.print(cmd.OutOrStdout(), cells)
	})
	return cmd
}

// run runs all clusters: by load, then by way, then by nodes.
func (k *clusters) run(ctx context.Context, bar func(done, total int64)) ([]clusterCell, error) {
	l, err := weir.ParseLimit(k.limit)
	if err != nil {
		return nil, usagef("--limit: %w", err)
	}
	if err := k.read(l); err != nil {
		return nil, err
	}
	var cells []clusterCell
	total := len(k.loads) * len(k.sharings) * len(k.nodes)
	for _, load := range k.loads {
		text := k.workload
		if text == "" {
			text = fmt.Sprintf("poisson rate=%d/%dus", load*l.Spec().Count, l.Spec().Period.Microseconds())
		}
		w, err := sim.ParseWorkload(text, l)
		if err != nil {
			return nil, err
		}
		for _, how := range k.sharings {
			for _, n := range k.nodes {
				if bar != nil {
					bar(int64(len(cells)), int64(total))
				}
				o := k.options
				o.Nodes, o.Sharing, o.Partition = n, weir.Sharing(how), weir.Partition(k.partition)
				if o.Sharing != sim.SharingLog {
					o.LogRate = 0
				}
				cell := clusterCell{ClusterFigures: sim.ClusterFigures{Nodes: n, Sharing: o.Sharing}, Workload: w.String(), load: load}
				if cell.Unfit = o.Unfit(l); cell.Unfit == "" {
					f, err := sim.RunCluster(ctx, w, l, o)
					if err != nil {
						return nil, err
					}
					cell.ClusterFigures = *f
				}
				cells = append(cells, cell)
			}
		}
	}
	return cells, nil
}

// read checks the words and numbers of flags.
func (k *clusters) read(l *weir.Limit) error {
	all := allWays()
	for _, how := range k.sharings {
		if !slices.Contains(all, how) {
			return usagef("--sharing %s: take some of %s", how, strings.Join(all, ", "))
		}
	}
	if !slices.Contains(partitions, k.partition) {
		return usagef("--partition %s: take one of %s", k.partition, strings.Join(partitions, ", "))
	}
	if k.options.LogRate != 0 && !slices.Contains(k.sharings, string(sim.SharingLog)) {
		return usagef("--log-rate is of a log; add --sharing log")
	}
	if k.workload != "" {
		k.loads = []int64{0}
	}
	for _, load := range k.loads {
		if load < 0 || load == 0 && k.workload == "" || load > 1_000_000/max(l.Spec().Count, 1) {
			return usagef("--load %d: it must be at least 1, and at most 1,000,000 requests a period", load)
		}
	}
	if n := len(k.loads) * len(k.sharings) * len(k.nodes); n == 0 || n > maxClusterCells {
		return usagef("%d clusters; there may be 1…%d", n, maxClusterCells)
	}
	if k.options.Duration == 0 {
		k.options.Duration = 10 * time.Second
	}
	return nil
}

// title says what a load is.
func (c *clusterCell) title() string {
	switch c.load {
	case 0:
		return c.Workload
	case 1:
		return "as many requests as the limit lets pass"
	default:
		return fmt.Sprintf("%d times as many", c.load)
	}
}

// print writes two tables for each load: what passes, and messages.
func (k *clusters) print(to io.Writer, cells []clusterCell) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on nodes that share it, %v, seed %d; messages take up to %v", k.limit, k.options.Duration, k.options.Seed, k.options.Delay)
	if k.options.Loss > 0 {
		fmt.Fprintf(&b, ", %d of 1,000 are lost", k.options.Loss)
	}
	if k.options.Cut > 0 {
		fmt.Fprintf(&b, "; two halves can't reach each other for %v: %s", k.options.Cut, k.partition)
	}
	b.WriteByte('\n')
	each := len(k.sharings) * len(k.nodes)
	for i := 0; i < len(cells); i += each {
		some := cells[i : i+each]
		fmt.Fprintf(&b, "\n%s\n", some[0].title())
		k.table("passed", some, passedCell).Write(&b)
		b.WriteByte('\n')
		k.table("messages", some, k.messagesCell).Write(&b)
		if slices.Contains(k.sharings, string(sim.SharingLog)) {
			b.WriteByte('\n')
			k.table("lag", some, lagCell).Write(&b)
		}
	}
	b.WriteString("\npassed: more or less than one node would let pass; the most events in use beyond the limit, of how many it can be by proof.\n" +
		"messages: each node sends a second, and bytes of them.\n")
	if slices.Contains(k.sharings, string(sim.SharingLog)) {
		fmt.Fprintf(&b, "lag: from an event until all nodes had read of it, at worst; a node that waits longer than %v denies.\n", sim.LogMost)
	}
	said := map[string]bool{}
	for i := range cells {
		if c := &cells[i]; c.Unfit != "" && !said[c.Unfit] {
			said[c.Unfit] = true
			fmt.Fprintf(&b, "- where %s can't be shared by %s: %s.\n", k.limit, c.Sharing, c.Unfit)
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func (k *clusters) table(name string, cells []clusterCell, text func(f *sim.ClusterFigures) string) *table.Table {
	t := &table.Table{Rows: [][]string{{name}}, From: 1, To: 1 + len(k.nodes)}
	for _, n := range k.nodes {
		t.Rows[0] = append(t.Rows[0], counted(n))
	}
	for i := range cells {
		if i%len(k.nodes) == 0 {
			t.Rows = append(t.Rows, []string{string(cells[i].Sharing)})
		}
		last, cell := &t.Rows[len(t.Rows)-1], "-"
		if cells[i].Unfit == "" {
			cell = text(&cells[i].ClusterFigures)
		}
		*last = append(*last, cell)
	}
	return t
}

func counted(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}

func passedCell(f *sim.ClusterFigures) string {
	if f.Ahead == nil {
		return fmt.Sprintf("%s, %d", apart(f), f.Over)
	}
	return fmt.Sprintf("%s, %d of %d", apart(f), f.Over, *f.Ahead)
}

// lagCell is how late nodes learned of an event from the log, at worst.
func lagCell(f *sim.ClusterFigures) string {
	if f.Lag == nil {
		return "-"
	}
	return (time.Duration(*f.Lag) * time.Microsecond).Round(time.Millisecond).String()
}

// apart is how much more passed than on one node, in percent.
func apart(f *sim.ClusterFigures) string {
	more, sign := f.Passed-f.Ideal, "+"
	if more < 0 {
		more, sign = -more, "-"
	}
	percent := share(more, f.Ideal, 1)
	if strings.HasPrefix(percent, "0.0 ") {
		return percent
	}
	return sign + percent
}

func (k *clusters) messagesCell(f *sim.ClusterFigures) string {
	per := int64(f.Nodes) * k.options.Duration.Milliseconds()
	if per == 0 {
		return "-"
	}
	return fmt.Sprintf("%s, %d B", sim.Millionths(f.Messages*1_000_000_000/per).Fixed(1), f.Bytes*1000/per)
}

// draw writes the picture, if it is wanted.
func (k *clusters) draw(cells []clusterCell) error {
	if k.svg == "" {
		return nil
	}
	count := weir.MustParseLimit(k.limit).Spec().Count
	bars := plot.Bars{Of: "nodes", Measures: []plot.Measure{
		{Name: "passed, more or less than on one node", Axis: plot.Axis{Unit: plot.Millionths}},
		{Name: "most events in use beyond the limit of " + plot.Grouped(count, ",")},
	}}
	for i := range cells {
		c := &cells[i]
		if i%(len(k.nodes)*len(k.sharings)) == 0 {
			bars.Groups = append(bars.Groups, plot.BarGroup{Name: c.title()})
		}
		g := &bars.Groups[len(bars.Groups)-1]
		row := plot.BarRow{Name: string(c.Sharing), Of: strconv.Itoa(c.Nodes), Bars: []plot.Bar{{Text: "-", Empty: true}, {Text: "-", Empty: true}}}
		if c.Unfit == "" {
			row.Bars = []plot.Bar{
				{Text: apart(&c.ClusterFigures), Value: (c.Passed - c.Ideal) * 1_000_000 / max(c.Ideal, 1)},
				{Text: plot.Grouped(c.Over, ","), Value: c.Over},
			}
		}
		g.Rows = append(g.Rows, row)
	}
	p := plot.Picture{
		Name: "cluster", Title: k.limit + ": what nodes that share it let pass", Command: k.command,
		Description: "A row for each way to share the limit and each number of nodes. The left bar is how much more or less passed than on one node, the right one how many events were in use beyond the limit at worst. All bars of a column have the scale below it.",
		Drawing:     bars,
	}
	if lag, ok := k.lag(cells); ok {
		return report.Save(k.svg, p, lag)
	}
	return report.Save(k.svg, p)
}

// lag is how late the nodes read a log, by how many requests come.
func (k *clusters) lag(cells []clusterCell) (plot.Picture, bool) {
	lines := plot.Lines{
		X:      plot.Axis{Name: "requests, as multiples of the limit", Base: 10},
		Y:      plot.Axis{Name: "lag at worst, in ms", Base: 10},
		Levels: []plot.Level{{Name: "beyond this a node denies", Value: sim.LogMost.Milliseconds()}},
	}
	for _, n := range k.nodes {
		line := plot.Line{Name: counted(n)}
		for i := range cells {
			if c := &cells[i]; c.Lag != nil && c.Nodes == n {
				line.Points = append(line.Points, plot.Point{X: c.load, Y: (*c.Lag + 999) / 1000})
			}
		}
		lines.Lines = append(lines.Lines, line)
	}
	return plot.Picture{
		Name: "lag", Title: k.limit + ": how late nodes learn of each other's events from a log, the more requests come", Command: k.command,
		Description: "A line for each number of nodes: the longest that it took until all nodes had read an event from the log, for each number of requests. Above the level a node waits too long to read back its own events, and lets nothing pass.",
		Drawing:     lines,
	}, len(k.loads) > 1 && slices.Contains(k.sharings, string(sim.SharingLog))
}

func printClusterJSON(to io.Writer, cells []clusterCell) error {
	e := json.NewEncoder(to)
	for i := range cells {
		if err := e.Encode(&cells[i]); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}
