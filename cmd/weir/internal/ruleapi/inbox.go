package ruleapi

import (
	"net/http"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// inbox lists what waits for the caller, and what of the caller's waits for others.
func inbox(c *call) (answer, error) {
	in, err := changes.Inbox(c.r.Context(), c.store, c.by)
	return answer{body: in}, err
}

// listComments lists the comments on a version, the oldest first.
func listComments(c *call) (answer, error) {
	n, err := c.version()
	if err != nil {
		return answer{}, err
	}
	domain, rule := c.r.PathValue("domain"), c.r.PathValue("rule")
	list, err := c.store.Comments(c.r.Context(), domain, rule, n)
	if err == nil && len(list) == 0 {
		_, err = c.store.Version(c.r.Context(), domain, rule, n) // else nobody learns that there is no such version
	}
	return answer{body: map[string][]rulestore.Comment{"comments": append([]rulestore.Comment{}, list...)}}, err
}

// said is a comment to be made.
type said struct{ Text string }

// comment adds a comment to a version.
func comment(c *call, in said) (answer, error) {
	n, err := c.version()
	if err != nil {
		return answer{}, err
	}
	made, err := c.store.Comment(c.r.Context(), c.by, c.r.PathValue("domain"), c.r.PathValue("rule"), n, in.Text)
	return answer{status: http.StatusCreated, body: made}, err
}
