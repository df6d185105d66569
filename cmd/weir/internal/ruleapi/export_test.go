package ruleapi

import "strings"

// Routes is the parameters of all calls, by METHOD PATH.
func Routes() map[string][]string {
	all := map[string][]string{}
	for _, r := range routes() {
		all[r.method+" "+r.path] = strings.Fields(r.parameters)
	}
	return all
}
