package httpapi

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// AppendExplanation appends an explanation to b as /v1/explain gives it, on one
// line. docs/explain.md tells its members. Members that it shares with /v1/check have the same
// names and mean the same.
func AppendExplanation(b []byte, e *rules.Explanation) []byte {
	a := e.Answer
	b = append(b, '{')
	if e.ID != "" {
		b = append(b, `"id":`...)
		b = append(appendString(b, e.ID), ',')
	}
	b = append(b, `"at":`...)
	b = appendTime(b, e.At)
	b = append(b, `,"domain":`...)
	b = appendString(b, e.Domain)
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = append(b, `,"decisive":`...)
	if a.Decisive < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(a.Decisive), 10)
	}
	b = append(b, `,"summary":`...)
	b = appendString(b, e.Summary)
	b = appendPassing(b, e.At, e.Passing)
	b = append(b, `,"together":`...)
	b = strconv.AppendBool(b, e.Together)
	b = append(b, `,"descriptors":`...)
	b = appendList(b, e.Descriptors, appendTrace)
	b = append(b, `,"limits":[`...)
	for i := range a.Decisions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, e, i)
	}
	return append(b, "]}"...)
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, list[i])
	}
	return append(b, ']')
}

func appendPassing(b []byte, at weir.Instant, p rules.Passing) []byte {
	b = append(b, `,"passes":`...)
	b = appendString(b, string(p.When))
	if p.When == rules.PassesLater {
		b = append(b, `,"passes_after_seconds":`...)
		b = appendSeconds(b, p.After)
		b = append(b, `,"passes_at":`...)
		b = appendTime(b, at+weir.Instant(p.After/time.Microsecond))
	}
	return b
}

func appendTime(b []byte, i weir.Instant) []byte {
	b = append(b, '"')
	b = i.Time().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func appendTrace(b []byte, d rules.DescriptorTrace) []byte {
	b = append(b, `{"entries":`...)
	b = appendList(b, d.Entries, func(b []byte, e rules.Entry) []byte { return append(appendEntry(append(b, '{'), e), '}') })
	b = append(b, `,"cost":`...)
	b = strconv.AppendInt(b, d.Cost, 10)
	b = append(b, `,"summary":`...)
	b = appendString(b, d.Summary)
	b = append(b, `,"rules":`...)
	b = appendList(b, d.Rules, func(b []byte, r *rules.Rule) []byte {
		b = append(b, `{"rule":`...)
		b = appendString(b, r.Name)
		b = appendWhere(b, r.File, r.Line)
		b = append(b, `,"unlimited":`...)
		return append(strconv.AppendBool(b, r.Unlimited), '}')
	})
	b = append(b, `,"levels":`...)
	return append(appendList(b, d.Levels, appendLevel), '}')
}

func appendLevel(b []byte, l rules.LevelTrace) []byte {
	b = appendEntry(append(b, '{'), l.Entry)
	b = append(b, `,"met":`...)
	if l.Met == nil {
		b = append(b, "null"...)
	} else {
		b = appendPlace(b, *l.Met)
	}
	b = append(b, `,"why":`...)
	b = appendString(b, l.Why)
	b = append(b, `,"passed_over":`...)
	b = appendList(b, l.Passed, appendPlace)
	b = append(b, `,"there":`...)
	b = appendList(b, l.There, appendPlace)
	b = append(b, `,"omitted":`...)
	return append(strconv.AppendInt(b, int64(l.Omitted), 10), '}')
}

func appendPlace(b []byte, p rules.Place) []byte {
	b = appendEntry(append(b, '{'), p.Entry)
	return append(appendWhere(b, p.File, p.Line), '}')
}

func appendEntry(b []byte, e rules.Entry) []byte {
	b = append(b, `"key":`...)
	b = appendString(b, e.Key)
	b = append(b, `,"value":`...)
	return appendString(b, e.Value)
}

// appendWhere leaves out what stands in no file.
func appendWhere(b []byte, file string, line int) []byte {
	if file == "" {
		return b
	}
	b = append(b, `,"file":`...)
	b = appendString(b, file)
	b = append(b, `,"line":`...)
	return strconv.AppendInt(b, int64(line), 10)
}

func appendLimit(b []byte, e *rules.Explanation, i int) []byte {
	d, x := &e.Answer.Decisions[i], &e.Limits[i]
	b = append(b, `{"descriptor":`...)
	b = strconv.AppendInt(b, int64(d.Descriptor), 10)
	b = append(b, `,"rule":`...)
	b = appendString(b, d.Rule.Name)
	b = appendWhere(b, d.Rule.File, d.Rule.Line)
	b = append(b, `,"limit":`...)
	b = appendString(b, d.Rule.Limit.String())
	b = append(b, `,"words":`...)
	b = appendString(b, x.Words)
	if x.Most != math.MaxInt64 {
		b = append(b, `,"most_in_a_period":`...)
		b = strconv.AppendInt(b, x.Most, 10)
	}
	b = append(b, `,"outcome":"`...)
	b = append(b, d.Outcome.String()...)
	b = append(b, `","enforced":`...)
	b = strconv.AppendBool(b, x.Enforced)
	b = append(b, `,"shadow":`...)
	b = strconv.AppendBool(b, d.Rule.Shadow)
	b = append(b, `,"cost":`...)
	b = strconv.AppendInt(b, x.Cost, 10)
	b = append(b, `,"charged":`...)
	b = strconv.AppendBool(b, d.Charged)
	b = append(b, `,"before":`...)
	b = appendCount(b, x.Before)
	b = append(b, `,"after":`...)
	b = appendCount(b, x.After)
	b = appendPassing(b, e.At, x.Passing)
	if queues(d) {
		b = append(b, `,"hold_seconds":`...)
		b = appendSeconds(b, d.Hold)
	}
	b = append(b, `,"fits":`...)
	b = strconv.AppendInt(b, x.Fits, 10)
	if x.Enough != nil {
		b = append(b, `,"enough":`...)
		b = appendString(b, x.Enough.String())
	}
	b = append(b, `,"notes":`...)
	return append(appendList(b, x.Notes, appendString), '}')
}

func appendCount(b []byte, s rules.Standing) []byte {
	b = append(b, `{"used":`...)
	b = strconv.AppendInt(b, s.Used, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, s.Remaining, 10)
	b = append(b, `,"reset_after_seconds":`...)
	return append(appendSeconds(b, s.ResetAfter), '}')
}
