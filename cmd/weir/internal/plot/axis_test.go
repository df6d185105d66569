package plot

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis   Axis
		values []int64
		want   string
	}{
		{Axis{}, []int64{7}, "0 1 2 3 4 5 6 7"},
		{Axis{}, []int64{103}, "0 20 40 60 80 100 120"},
		{Axis{}, []int64{1_234_567}, "0 200k 400k 600k 800k 1M 1.2M 1.4M"},
		{Axis{}, []int64{-3, 4}, "-3 -2 -1 0 1 2 3 4"},
		{Axis{Unit: Micros, Max: 5 * minute}, nil, "0 1 min 2 min 3 min 4 min 5 min"},
		{Axis{Unit: Micros, Max: 15 * minute}, nil, "0 2 min 4 min 6 min 8 min 10 min 12 min 14 min"},
		{Axis{Unit: Micros, Max: 90 * second}, nil, "0 15 s 30 s 45 s 60 s 75 s 90 s"},
		{Axis{Unit: Micros, Max: day}, nil, "0 3 h 6 h 9 h 12 h 15 h 18 h 21 h 24 h"},
		{Axis{Unit: Micros, Min: -15 * minute, Ago: true}, nil, "14 min ago 12 min ago 10 min ago 8 min ago 6 min ago 4 min ago 2 min ago now"},
		{Axis{Unit: Micros, Min: -6 * hour, Ago: true}, nil, "6 h ago 5 h ago 4 h ago 3 h ago 2 h ago 1 h ago now"},
		{Axis{Unit: Micros, Min: -7 * day, Ago: true}, nil, "7 d ago 6 d ago 5 d ago 4 d ago 3 d ago 2 d ago 1 d ago now"},
		{Axis{Unit: Micros}, []int64{3}, "0 1 µs 2 µs 3 µs"},
		{Axis{Unit: Millionths}, []int64{123_456}, "0 % 2 % 4 % 6 % 8 % 10 % 12 % 14 %"},
		{Axis{Unit: Millionths, Base: 10}, []int64{0, 900, 500_000}, "0 % 0.1 % 1 % 10 %"},
		{Axis{Base: 10}, []int64{3, 40}, "2 5 10 20 50"},
		{Axis{Base: 10}, []int64{7}, "5 10"},
		{Axis{Unit: Fractions, Max: 5_000_000}, nil, "0 1 2 3 4 5"},
		{Axis{Base: 2}, []int64{16, 808}, "16 32 64 128 256 512 1,024"},
	} {
		s := newScale(c.axis, 0, 4000, 500, c.values)
		var labels []string
		for _, v := range s.ticks() {
			labels = append(labels, s.label(v))
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%+v of %v has the ticks %s, want %s", c.axis, c.values, got, c.want)
		}
	}
}

// TestScale: values keep their order, all lie within, and ticks have room.
func TestCount(t *testing.T) {
	for v, want := range map[int64]string{
		0: "0", 999: "999", 5_000: "5,000", 10_000: "10k", 12_345: "12,345", 1_500_000: "1.5M", 2e9: "2G",
		-999: "-999", -5_000: "-5,000", -10_000: "-10k", -12_345: "-12,345", -1_500_000: "-1.5M", -2e9: "-2G",
	} {
		if got := count(v); got != want {
			t.Errorf("%d: %s, want %s", v, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Axis{
			Unit: rapid.SampledFrom([]Unit{Events, Micros, Millionths}).Draw(t, "unit"),
			Base: rapid.SampledFrom([]int64{0, 0, 2, 10}).Draw(t, "base"),
		}
		least := int64(0)
		if a.Base == 0 && rapid.Bool().Draw(t, "negative") {
			least = -1 << 50
		}
		values := rapid.SliceOfN(rapid.Int64Range(least, 1<<50), 1, 20).Draw(t, "values")
		from, to := px(rapid.Int64Range(0, 5000).Draw(t, "from")), px(rapid.Int64Range(0, 5000).Draw(t, "to"))
		room := px(rapid.Int64Range(200, 900).Draw(t, "room"))
		s := newScale(a, from, to, room, values)
		slices.Sort(values)
		last := s.at(values[0])
		for _, v := range values {
			at := s.at(v)
			if at < min(from, to) || at > max(from, to) {
				t.Fatalf("%d is at %d, outside of %d…%d", v, at, from, to)
			}
			if (at-last)*(to-from) < 0 {
				t.Fatalf("%d is at %d, and a smaller value at %d", v, at, last)
			}
			last = at
		}
		if n := len(s.ticks()); n == 0 || int64(n) > s.most(room)+3 {
			t.Fatalf("%d ticks where %d have room", n, s.most(room))
		}
	})
}

// TestZeroOfPowers: 0 has a place of its own beside the powers.
func TestZeroOfPowers(t *testing.T) {
	s := newScale(Axis{Base: 10}, 0, 4000, 500, []int64{0, 1, 1000})
	if zero, one, most := s.at(0), s.at(1), s.at(1000); zero != 0 || one < 300 || most != 4000 {
		t.Errorf("0, 1 and 1000 are at %v, %v and %v", zero, one, most)
	}
	if s := newScale(Axis{Base: 10}, 0, 4000, 500, []int64{1, 1000}); s.at(1) != 0 {
		t.Errorf("without a 0 the least is at %v", s.at(1))
	}
}

func TestDoublings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(1, math.MaxInt64).Draw(t, "v")
		if got, want := doublings(v), math.Log2(float64(v))*65536; math.Abs(float64(got)-want) > 1.5 {
			t.Fatalf("the logarithm of %d is %d/65536, want %f", v, got, want)
		}
	})
}

// TestWrap: lines are as narrow as asked, and together they say it all, or end
// with "…".
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("abW -.日"))).Draw(t, "text")
		most, lines := px(rapid.Int64Range(200, 2000).Draw(t, "width")), rapid.IntRange(1, 5).Draw(t, "lines")
		got := wrap(text, most, 100, lines)
		if len(got) > lines {
			t.Fatalf("%d lines, at most %d", len(got), lines)
		}
		for _, line := range got {
			if width(line, 100) > most && len([]rune(line)) > 2 {
				t.Fatalf("%q is %v wide, at most %v", line, width(line, 100), most)
			}
		}
		all, want := strings.ReplaceAll(strings.Join(got, ""), " ", ""), strings.Join(strings.Fields(text), "")
		if head, isCut := strings.CutSuffix(all, "…"); isCut && strings.HasPrefix(want, head) {
			return
		}
		if all != want {
			t.Fatalf("%q was given, and %q came out", want, all)
		}
	})
}

// TestWay: however many points a line has, what is drawn has few, and is in each
// pixel's column as high and as low as they are.
func TestWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "points")
		values := rapid.SliceOfN(rapid.Int64Range(0, 1000), n, n).Draw(t, "values")
		line := Line{Steps: rapid.Bool().Draw(t, "steps")}
		for i, v := range values {
			line.Points = append(line.Points, Point{int64(i), v})
		}
		b := box{0, 0, 1000, 1000}
		g := grid{b, newScale(Axis{Max: int64(n)}, 0, 1000, 100, nil), newScale(Axis{Max: 1000}, 1000, 1, 100, nil)}
		way := g.way(line)
		if len(way) > 5*101 {
			t.Fatalf("%d spots for 100 pixels", len(way))
		}
		highest, lowest := map[px]px{}, map[px]px{}
		for _, s := range way {
			highest[s.x/10] = min(s.y, cmp.Or(highest[s.x/10], s.y))
			lowest[s.x/10] = max(s.y, lowest[s.x/10])
		}
		for _, p := range line.Points {
			s := spot{g.x.at(p.X), g.y.at(p.Y)}
			if column := s.x / 10; s.y < highest[column] || s.y > lowest[column] {
				t.Fatalf("a point at %v is not within what is drawn there, %v to %v", s, highest[column], lowest[column])
			}
		}
		if !slices.IsSortedFunc(way, func(a, b spot) int { return int(a.x - b.x) }) {
			t.Fatal("the line goes back")
		}
	})
}

// TestLabelsStandApart: names beside lines never stand on each other, and stay
// beside the drawing as long as there is room.
func TestLabelsStandApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := box{0, 1000, 1000, 4000}
		ends := rapid.SliceOfN(rapid.Int64Range(1000, 4000), 1, 12).Draw(t, "ends")
		l := labels{f: frames()[0]}
		order := make([]int, len(ends))
		slices.Sort(ends)
		for i, end := range ends {
			order[i] = i
			l.names = append(l.names, label{text: []string{"a"}, ideal: px(end)})
		}
		l.place(order, b)
		for i := range l.names {
			if l.names[i].top < b.top-l.f.line() || l.names[i].top+l.height(i) > b.bottom+l.f.line() {
				t.Fatalf("label %d is at %v, outside of %v…%v", i, l.names[i].top, b.top, b.bottom)
			}
			if i > 0 && l.names[i].top < l.names[i-1].top+l.height(i-1) {
				t.Fatalf("label %d at %v stands on the one before, at %v", i, l.names[i].top, l.names[i-1].top)
			}
		}
	})
}
