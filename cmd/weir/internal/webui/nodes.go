package webui

import "net/http"

// nodes shows this node, and what it knows of others.
func (p *Pages) nodes(v *visit) error {
	return v.show(http.StatusOK, "nodes", "Nodes", p.options.Node(v.r.Context()))
}
