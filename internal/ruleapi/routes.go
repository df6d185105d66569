package ruleapi

import "net/http"

// route is a kind of call.
type route struct {
	method, path string
	serve        func(*call) (answer, error)
}

// routes is all that the API answers.
func routes() []route {
	const (
		get, post, put, patch, remove = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
		domain                        = "/v1/domains/{domain}"
		rule                          = "/v1/rules/{domain}/{rule}"
	)
	return []route{
		{get, "/v1/whoami", whoami},
		{get, "/v1/domains", listDomains},
		{post, "/v1/domains", createDomain},
		{get, domain, getDomain},
		{patch, domain, updateDomain},
		{remove, domain, deleteDomain},
		{get, domain + "/file", getFile},
		{put, domain + "/file", putFile},
		{post, domain + "/override", override},
		{get, "/v1/rules", listRules},
		{post, "/v1/rules", createRule},
		{get, rule, getRule},
		{put, rule, replaceRule},
		{remove, rule, deleteRule},
		{post, rule + "/state", moveRule},
		{post, rule + "/rollback", rollBack},
		{post, rule + "/override", override},
		{get, rule + "/history", history},
		{get, rule + "/versions/{version}", getVersion},
		{get, rule + "/diff", diffVersions},
		{post, "/v1/validate", validate},
		{get, "/v1/teams", listTeams},
		{put, "/v1/teams/{team}", setQuota},
		{get, "/v1/tokens", listTokens},
		{post, "/v1/tokens", createToken},
		{remove, "/v1/tokens/{token}", revokeToken},
		{get, "/v1/audit", audit},
	}
}
