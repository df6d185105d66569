// The library: limits, stores in memory and memcached, rules, middleware, simulation.
// It requires small leaves alone, for each program that imports it requires them too:
// TestModules says which.
module github.com/weir-limit/weir

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/fsnotify/fsnotify v1.10.1
	github.com/google/go-cmp v0.7.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.yaml.in/yaml/v4 v4.0.0
	pgregory.net/rapid v1.3.0
)

require (
	golang.org/x/sys v0.13.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)
