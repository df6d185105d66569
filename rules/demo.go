package rules

// DemoText is the rule file of Demo.
const DemoText = `# The rules that weir starts with when it is given none.
domain: demo
descriptors:
  - key: client_id
    limits: [5/s burst 10]
  - key: remote_address
    limits: [100/min sliding-window 6]
`

// Demo is the rules that weir starts with when it is given none.
func Demo() *Set {
	set, err := Parse("demo.yaml", []byte(DemoText))
	if err != nil {
		panic("rules: " + err.Error())
	}
	return set
}
