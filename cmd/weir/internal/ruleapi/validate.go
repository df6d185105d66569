package ruleapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// limitJSON is what a limit means.
type limitJSON struct {
	Rule      string `json:"rule"`
	Limit     string `json:"limit,omitempty"` // empty: unlimited
	Words     string `json:"words,omitempty"`
	Most      int64  `json:"most,omitempty"`      // events that may pass in any Period at most, or hold a permit
	WhyMore   string `json:"why_more,omitempty"`  // why Most is more than the count
	PeriodUS  int64  `json:"period_us,omitempty"` // microseconds; 0: Most is at a time
	Shadow    bool   `json:"shadow,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`
}

// validate tells what a file or a single rule would mean, or what is wrong with
// it. It changes nothing.
func validate(c *call) (answer, error) {
	body, err := c.read(maxBody)
	if err != nil {
		return answer{}, err
	}
	if err := rulestore.CheckSize(string(body)); err != nil {
		return answer{}, err
	}
	text, before := string(body), 0
	if c.query["domain"] != "" && !strings.Contains("\n"+text, "\ndomain:") {
		before = 2 // lines
		text = fmt.Sprintf("domain: %q\ndescriptors:\n%s", c.query["domain"], text)
	}
	set, err := rules.Parse("text", []byte(text))
	if err == nil {
		err = c.options.Check(set)
	}
	var findings []rules.Finding
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		findings = bad.Findings
	} else if err != nil {
		return answer{}, err
	}
	limits := []limitJSON{}
	if err == nil {
		findings = set.Warnings()
		for _, r := range set.Rules() {
			limits = append(limits, meaning(r))
		}
	}
	out := findingsOf(findings)
	for i := range out {
		out[i].Line = max(out[i].Line-before, 1)
	}
	if out == nil {
		out = []Finding{}
	}
	return answer{body: map[string]any{"valid": err == nil, "findings": out, "limits": limits}}, nil
}

func meaning(r *rules.Rule) limitJSON {
	out := limitJSON{Rule: r.Name, Shadow: r.Shadow, Unlimited: r.Unlimited}
	if r.Limit == nil {
		return out
	}
	out.Limit, out.Words = r.Limit.String(), r.Limit.Describe()
	spec := r.Limit.Spec()
	if spec.Algorithm == weir.Concurrent {
		out.Most = spec.Count
		return out
	}
	_, out.WhyMore = r.Limit.DescribeBound()
	out.Most, out.PeriodUS = r.Limit.Bound(spec.Period, 1), spec.Period.Microseconds()
	return out
}
