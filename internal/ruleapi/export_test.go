package ruleapi

// Routes is all calls, as METHOD PATH.
func Routes() (list []string) {
	for _, r := range routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}
