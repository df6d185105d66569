package ruleapi

import "net/http"

// route is a kind of call.
type route struct {
	method, path string
	serve        func(*call) (answer, error)
	parameters   string // of the query, separated by spaces; there are no others
}

// routes is all that the API answers.
func routes() []route {
	const (
		get, post, put, patch, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
		domain                        = "/v1/domains/{domain}"
		rule                          = "/v1/rules/{domain}/{rule}"
	)
	return []route{
		{get, "/v1/whoami", whoami, ""},
		{get, "/v1/domains", listDomains, "team after limit"},
		{post, "/v1/domains", createDomain, ""},
		{get, domain, getDomain, ""},
		{patch, domain, updateDomain, ""},
		{remove, domain, deleteDomain, "reason"},
		{get, domain + "/file", getFile, "in_force"},
		{put, domain + "/file", putFile, "to reason team dry_run force"},
		{post, domain + "/override", override, ""},
		{get, "/v1/rules", listRules, "domain team state search gone after limit"},
		{post, "/v1/rules", createRule, ""},
		{get, rule, getRule, ""},
		{put, rule, replaceRule, ""},
		{remove, rule, deleteRule, "to reason force"},
		{post, rule + "/state", moveRule, ""},
		{post, rule + "/rollback", rollBack, ""},
		{post, rule + "/override", override, ""},
		{get, rule + "/history", history, "before limit"},
		{get, rule + "/versions/{version}", getVersion, ""},
		{get, rule + "/diff", diffVersions, "from to"},
		{post, "/v1/validate", validate, "domain"},
		{get, "/v1/teams", listTeams, "after limit"},
		{put, "/v1/teams/{team}", setQuota, ""},
		{get, "/v1/tokens", listTokens, "after limit"},
		{post, "/v1/tokens", createToken, ""},
		{remove, "/v1/tokens/{token}", revokeToken, "reason"},
		{get, "/v1/audit", audit, "after before domain rule changes limit format"},
	}
}
