package ruleapi

import (
	"net/http"

	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// UnblockPath is where clients are unblocked. The paths beside it are no calls of the API.
const UnblockPath = "/v1/limited/unblock"

// unblocking is a client whose counts are to be reset.
type unblocking struct {
	Domain  string
	Entries []rulestore.Entry // of a descriptor of its requests
	Reason  string
}

// unblocked is what came of it.
type unblocked struct {
	Text   string         `json:"text"` // all of it in words
	Nodes  int            `json:"nodes"`
	Late   []string       `json:"late"`
	Limits []unblockedFor `json:"limits"`
}

// unblockedFor is a limit whose count was reset, as it is for this client.
type unblockedFor struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
}

// unblock has all nodes reset the counts of a client.
func unblock(c *call, in unblocking) (answer, error) {
	ctx, wanted := c.r.Context(), rulestore.Exception{Entries: in.Entries}
	entries := wanted.Request()
	rule, name, why := limited.Called(c.options.InForce(), in.Domain, entries)
	if why != "" {
		return answer{}, &problem{Status: http.StatusNotFound, Field: "entries", Detail: "entries: " + why + "; POST /v1/explain says which rules a request meets, and POST /v1/reset resets its counts at one node"}
	}
	deciding, err := c.options.Decides(ctx, in.Domain, entries)
	if err != nil {
		return answer{}, err
	}
	nodes, late, err := c.options.Unblock(ctx, c.by, rulestore.Unblock{Domain: in.Domain, Item: rule.Path[0].ID(), Rule: rule.Name, Client: []byte(name), Reason: in.Reason})
	if err != nil {
		return answer{}, err
	}
	done := unblocked{Text: limited.Unblocked(name, deciding, nodes, late), Nodes: nodes, Late: append([]string{}, late...), Limits: limitsOf(deciding)}
	return answer{body: done}, nil
}

func limitsOf(deciding []*rules.Rule) []unblockedFor {
	limits := make([]unblockedFor, len(deciding))
	for i, r := range deciding {
		limits[i] = unblockedFor{r.Name, r.Limit.String()}
	}
	return limits
}
