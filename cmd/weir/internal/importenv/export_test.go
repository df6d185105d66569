package importenv

// Store is the URL of the store. A secret in it stands as ${NAME} of a variable.
func (p *Plan) Store() string { return p.value("--store") }

// Names are all variables that are known.
func Names() []string { return group("") }
