package httpapi

import (
	"net/http"

	"github.com/weir-limit/weir/rules"
)

// Owner is the node of a cluster that keeps the count which a request asks about.
type Owner struct {
	Node string // its name
	HTTP string // HOST:PORT of its HTTP listener; empty: not known
	Here bool   // it is this one
	None string // why there is no owner, else empty
}

// NoOwner begins what is said where nobody owns what was asked about.
const NoOwner = "no node owns this count: "

// ownerHeader names the HTTP listener of the owner.
const ownerHeader = "Weir-Owner"

// route is GET /v1/route?domain=D&e=KEY=VALUE…, for balancers: whose the count of a
// descriptor is.
func (a *API) route(w http.ResponseWriter, r *http.Request) int {
	q, deny, err := readAuth(r)
	if err == nil && deny != http.StatusTooManyRequests {
		err = faultf("deny: a route decides nothing, so it can't deny; leave it out")
	}
	if err != nil {
		return a.fail(w, r, err)
	}
	o := a.options.Owner(q)
	if o.None != "" {
		return send(w, &problem{http.StatusNotFound, NoOwner + o.None})
	}
	b := append([]byte(nil), `{"owner":`...)
	b = appendString(b, o.Node)
	b = append(b, `,"http":`...)
	b = appendString(b, o.HTTP)
	b = append(b, `,"here":`...)
	if o.Here {
		b = append(b, "true}"...)
	} else {
		b = append(b, "false}"...)
	}
	if o.HTTP != "" {
		w.Header().Set(ownerHeader, o.HTTP)
	}
	return sendAnswer(w, b)
}

// elsewhere is the HTTP listener of the node that owns the count, for a caller that wants to
// be redirected there (?redirect=true). It is empty where this node is to answer. The owner
// redirects nobody further.
func (a *API) elsewhere(r *http.Request, q *rules.Request) (owner string, err error) {
	switch r.URL.RawQuery {
	case "", "redirect=false":
		return "", nil
	case "redirect=true":
	default:
		return "", faultf("the query may be redirect=true or redirect=false, and nothing else")
	}
	if a.options.Owner == nil {
		return "", nil
	}
	o := a.options.Owner(q)
	if o.None != "" || o.Here {
		return "", nil
	}
	return o.HTTP, nil
}

// redirect sends a caller to the HTTP listener of the owner.
func redirect(w http.ResponseWriter, r *http.Request, owner string) int {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	h := w.Header()
	h.Set(ownerHeader, owner)
	h.Set("Location", scheme+owner+r.URL.Path)
	h["Cache-Control"] = noStore
	w.WriteHeader(http.StatusTemporaryRedirect)
	return http.StatusTemporaryRedirect
}
