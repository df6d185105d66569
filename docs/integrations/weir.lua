-- http-request lua.weir QUERY asks /auth?domain=edge&QUERY and sets
--   txn.weir.outcome   allowed, denied, away (nobody answered), or fault
--   txn.weir.limit, txn.weir.policy, txn.weir.retry, txn.weir.denial   the headers of the answer
-- What a client writes goes into a header, never into QUERY.

local auth = "http://127.0.0.1:8079/auth?domain=edge&"
local timeout = 500 -- ms, the last resort; the section weir has the real ones

local function outcome(status)
	if status == 200 then return "allowed" end
	if status == 429 then return "denied" end
	if status == 0 or status >= 500 then return "away" end
	return "fault" -- a query or a value that weir refuses: not a way around it
end

core.register_action("weir", {"http-req"}, function(txn, query)
	local fields = {["x-client"] = {txn.f:src()}}
	local key = txn.f:req_fhdr("x-api-key")
	if key and key ~= "" then fields["x-api-key"] = {key} end

	local answer = core.httpclient():get{url = auth .. query, headers = fields, timeout = timeout}
	local result = outcome(answer and answer.status or 0)
	txn:set_var("txn.weir.outcome", result)
	if result ~= "allowed" and result ~= "denied" then return end
	for variable, field in pairs({limit = "ratelimit", policy = "ratelimit-policy", retry = "retry-after", denial = "weir-denial"}) do
		local values = answer.headers[field]
		if values then txn:set_var("txn.weir." .. variable, values[0]) end
	end
end, 1)
