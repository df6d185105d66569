package ruleapi

import "net/http"

// route is a kind of call.
type route struct {
	method, path string
	serve        func(*call) (answer, error)
	parameters   string // of the query, separated by spaces; there are no others
}

// importPath is where lists of exceptions are imported, which may take longer than other calls.
const importPath = "/v1/exceptions/import"

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
		{post, "/v1/domains", with(createDomain), ""},
		{get, domain, getDomain, ""},
		{patch, domain, seen(with(updateDomain)), ""},
		{remove, domain, seen(deleteDomain), "confirm reason"},
		{post, domain + "/restore", with(restoreDomain), ""},
		{get, "/v1/deletions", listDeletions, "domain before limit"},
		{get, domain + "/file", getFile, "in_force"},
		{put, domain + "/file", putFile, "to reason team dry_run force"},
		{post, domain + "/override", with(override), ""},
		{get, "/v1/rules", listRules, "domain team state search gone after limit"},
		{post, "/v1/rules", with(createRule), ""},
		{get, rule, getRule, ""},
		{put, rule, seen(with(replaceRule)), ""},
		{remove, rule, seen(deleteRule), "to reason force"},
		{post, rule + "/state", seen(with(moveRule)), ""},
		{post, rule + "/rollback", seen(with(rollBack)), ""},
		{post, rule + "/override", with(override), ""},
		{get, rule + "/history", history, "before limit"},
		{get, rule + "/versions/{version}", getVersion, ""},
		{get, rule + "/versions/{version}/comments", listComments, ""},
		{post, rule + "/versions/{version}/comments", with(comment), ""},
		{get, rule + "/diff", diffVersions, "from to"},
		{get, "/v1/exceptions", listExceptions, "domain rule search after limit"},
		{post, "/v1/exceptions", with(setException), ""},
		{post, importPath, importExceptions, "domain reason dry_run"},
		{get, "/v1/exceptions/{exception}", getException, ""},
		{remove, "/v1/exceptions/{exception}", endException, "reason"},
		{post, UnblockPath, with(unblock), ""},
		{get, "/v1/inbox", inbox, ""},
		{post, "/v1/validate", validate, "domain"},
		{get, "/v1/teams", listTeams, "after limit"},
		{put, "/v1/teams/{team}", with(setQuota), ""},
		{get, "/v1/tokens", listTokens, "after limit"},
		{post, "/v1/tokens", with(createToken), ""},
		{remove, "/v1/tokens/{token}", revokeToken, "reason"},
		{get, "/v1/webhooks", listWebhooks, ""},
		{post, "/v1/webhooks", with(createWebhook), ""},
		{put, "/v1/webhooks/{webhook}", with(changeWebhook), ""},
		{remove, "/v1/webhooks/{webhook}", removeWebhook, "reason"},
		{post, "/v1/webhooks/{webhook}/secret", with(renewWebhook), ""},
		{post, "/v1/webhooks/{webhook}/retry", with(retryWebhook), ""},
		{post, "/v1/webhooks/{webhook}/ping", pingWebhook, ""},
		{get, "/v1/webhooks/{webhook}/deliveries", listDeliveries, ""},
		{get, "/v1/audit", audit, "after before domain rule changes limit format"},
	}
}

// seen is a call that names the revision which its caller has seen.
func seen(serve func(*call) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (a answer, err error) {
		if c.seen, err = c.match(); err != nil {
			return a, err
		}
		return serve(c)
	}
}

// with is a call with a JSON body.
func with[Body any](serve func(*call, Body) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (a answer, err error) {
		var in Body
		if err := c.decode(&in); err != nil {
			return a, err
		}
		return serve(c, in)
	}
}
