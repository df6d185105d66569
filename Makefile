# Go and make are all that test, build and run need. test also installs programs
# that it talks to, where it may: see tools/debian-packages. check also builds the
# linters pinned in tools/go.mod, which takes minutes the first time.

#
# The product is the modules of go.work; "work" names all their packages. bench,
# integrations and tools are modules that the product never requires, and that are
# built without go.work.

GO ?= go
ALONE = GOWORK=off $(GO)
TOOL = $$($(ALONE) tool -modfile=tools/go.mod -n $(1))
FUZZTIME ?= 5s
MODULE = github.com/weir-limit/weir

# Packages whose tests can rewrite the files that they compare with.
GOLDEN = $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -r -n1 dirname | sort -u)

.DEFAULT_GOAL := help
.PHONY: help test check fmt vet fix lint race fuzz torture cover build man run vectors golden bench bench-check bench-daemon bench-cluster bench-overload compare-ratelimit bench-peers bench-stores bench-outage bench-replay bench-usage bench-rules bench-smoke race-memory

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Parallel tests wait for servers more than they compute, so more of them run than there are cores.
# Tests need no debugging tables, which are a quarter of what it takes to link them. make vet looks for
# more than go test would.
test: ## Run all tests, and those of integrations/ and tools/
	@tools/debian-packages
	$(GO) test -timeout 10m -parallel 8 -vet=off -ldflags='-s -w' work
	cd tools && $(ALONE) test ./walks ./spec
	cd integrations && $(ALONE) test -timeout 5m ./...
	cd integrations/helm && $(ALONE) test -timeout 10m ./...

check: fmt vet fix lint race fuzz ## Run all that a change must pass: fmt, vet, fix, lint, race, fuzz

fmt: ## Name the files that gofumpt would format otherwise
	@files=$$($(call TOOL,gofumpt) -l .) && if [ -n "$$files" ]; then echo "gofumpt -w:" $$files; exit 1; fi

vet: ## Run go vet
	$(GO) vet work

fix: ## Show what a newer Go would write otherwise
	$(GO) fix -diff work

lint: ## Run the linters of .golangci.yml
	$(call TOOL,golangci-lint) run $$($(GO) list -m -f "{{.Dir}}/...")

race: ## Run all tests with the race detector, which needs a C compiler
	CGO_ENABLED=1 $(GO) test -race -timeout 15m work

fuzz: ## Run each fuzz test for FUZZTIME (5s)
	@$(GO) test -list '^Fuzz' work >fuzz.out || { cat fuzz.out; exit 1; }
	@awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' fuzz.out | \
	while read -r package name; do \
		echo "$$package $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package" </dev/null || exit 1; \
	done

torture: ## Fill all bounds: 108,000 idle connections, 100,000 rules, 10 million keys; 4 minutes, prints what it cost
	$(GO) test -run Torture -count 1 -timeout 15m -v ./cmd/weir ./rules ./memstore -torture

.PHONY: walks
walks: ## Count how a reader has to move about: arrows against the order of files, walks of a request
	@$(ALONE) build -C tools -o $(CURDIR)/bin/walks ./walks && bin/walks

cover: ## Measure how much of what decides is tested; the root must reach 95 %
	@$(GO) test -timeout 5m -coverprofile coverage.txt . ./memstore/... ./rules/... | awk ' \
		{ print } \
		$$1 == "FAIL" { failed = 1 } \
		$$2 == "$(MODULE)" && /coverage:/ { sub(/.*coverage: /, ""); root = $$1 + 0 } \
		END { if (!failed && root < 95) { print "root package: " root + 0 " % is less than 95 %"; failed = 1 } exit failed }'

.PHONY: tidy
tidy: ## Tidy the go.mod of each module
	tools/tidy

build: ## Build bin/weir, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/weir ./cmd/weir

man: build ## Write manual pages to bin/man/man1
	bin/weir man bin/man/man1

run: ## Start the daemon with its demo rules
	$(GO) run ./cmd/weir serve

vectors: ## Rewrite the results in testdata/vectors; read the diff
	$(GO) test . -run Vector -count 1 -update

golden: ## Rewrite all files that tests compare with, vectors too; read the diff
	@for package in $(GOLDEN); do $(GO) test "$$package" -count 1 -update || exit 1; done

.PHONY: docs-pictures
docs-pictures: ## Draw the pictures of docs/choosing.md again; look at them
	$(GO) test ./cmd/weir -run 'DocsPictures|ChoosingPage' -count 1 -update

.PHONY: docs-screenshots
docs-screenshots: ## Take the pictures of docs/self-service.md again; look at them
	@mkdir -p bin/screenshots
	WEIR_TEST_SCREENSHOTS=$(CURDIR)/bin/screenshots $(GO) test ./cmd/weir/internal/e2e -run 'TestPage/(axe|sqlite)' -count 1
	cp bin/screenshots/page-2-editor-1280-light.png docs/pictures/self-service-editor.png
	cp bin/screenshots/page-3-report-1280-light.png docs/pictures/self-service-report.png
	cp bin/screenshots/page-4-explained-1280-light.png docs/pictures/self-service-denial.png

bench: ## Measure what the README shows beside other limiters; 13 minutes; BENCH=-short takes 1, BENCH=-json prints JSON
	cd bench/memory && $(ALONE) build -trimpath -o ../../bin/bench-memory . && ../../bin/bench-memory $(BENCH)
	$(if $(findstring -only,$(BENCH)),,$(MAKE) bench-http BENCH="$(filter -short -json,$(BENCH))")

bench-replay: build ## Measure how fast weir replay reads logs; 2 minutes; BENCH=-short takes 10 s, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-replay ./replay && ../bin/bench-replay $(BENCH)

bench-rules: ## Measure 100,000 rules of a rule database in 1,000 domains, and pages of them; alone on the machine
	WEIR_BENCH_DOMAINS=1000 $(GO) test -timeout 2h -run '^$$' -bench 'ManyRules|Pages' -benchtime 30x -v ./cmd/weir/internal/daemon

bench-exceptions: ## Measure a check beside a million exceptions, and their memory; a minute, alone on the machine
	$(GO) test -run ExceptionMemory -bench Exceptions -v ./rules

bench-smoke: ## Run each benchmark shortly, to see that it works
	$(GO) test -short -run '^$$' -bench . -benchtime 10ms $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)
	cd bench/memory && $(ALONE) run . -short -rounds 1 -most 100000 >/dev/null

.PHONY: bench-memory
bench-memory: ## Measure what keys and rules cost in memory
	$(GO) test ./memstore -run '^$$' -bench Memory -benchtime 1x

race-memory: ## Look for races and lost counts in memstore; 5 minutes; needs a C compiler
	CGO_ENABLED=1 $(GO) test -race -count 40 -timeout 1h ./memstore -run 'Linearizable|NoDeadlock|SaveWhileTaking|HotKey'

.PHONY: bench-http integrations-check
bench-http: ## Measure what middleware adds to a request, beside others; 20 s; BENCH=-short takes 3, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-http ./http && ../bin/bench-http $(BENCH)

integrations-check: ## Vet and test httplimit in chi, echo and gin, and the chart by Helm; minutes the first time
	cd integrations && $(ALONE) vet ./... && $(ALONE) test ./...
	cd integrations/helm && $(ALONE) vet ./... && $(ALONE) test ./...

.PHONY: deploy
deploy: ## Write deploy/kubernetes*.yaml from the chart in deploy/helm; read the diff
	cd integrations/helm && $(ALONE) test . -run TestManifests -count 1 -update

bench-check: ## Build, vet and test the measurements of bench/
	cd bench && $(ALONE) vet ./... && $(ALONE) test ./...
	cd bench/envoyratelimit && $(ALONE) vet ./... && $(ALONE) test ./...
	cd bench/memory && $(ALONE) vet ./... && $(ALONE) test ./...

.PHONY: bench-noop
bench-noop:
	$(GO) build -trimpath -o bin/bench-noop ./cmd/weir/internal/nooptest

bench-daemon: build bench-noop ## Measure the daemon beside servers that decide nothing, or beside an older program with BENCH="-old PROGRAM"; BENCH=-short takes a minute, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-daemon ./daemon && ../bin/bench-daemon $(BENCH)

bench-usage: build ## Measure what --usage-log costs at 100,000 decisions/s; 4 minutes; BENCH=-short takes half a minute, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-usage ./usage && ../bin/bench-usage $(BENCH)

bench-cluster: build bench-noop ## Measure three nodes beside a server that decides nothing; 1 minute; BENCH=-short takes 10 s, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-cluster ./cluster && ../bin/bench-cluster $(BENCH)

bench-overload: build ## Offer the daemon five times what it can do; BENCH=-times=2 offers less, BENCH=-short takes a minute
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-overload ./overload && ../bin/bench-overload $(BENCH)

compare-ratelimit: ## Ask a real envoyproxy/ratelimit and Weir the same at random; COMPARE='-seed 2 -json', or -help
	cd bench/envoyratelimit && $(ALONE) build -trimpath -o ../../bin/compare-ratelimit . && ../../bin/compare-ratelimit $(COMPARE)

.PHONY: compare-gateway
compare-gateway: ## Have a real Envoy Gateway hand its rules to Weir; the first time it takes minutes to build; GATEWAY='-only golden', or -help
	cd bench/envoygateway && $(ALONE) build -trimpath -o ../../bin/compare-gateway . && ../../bin/compare-gateway $(GATEWAY)

bench-peers: ## Measure Weir and a real envoyproxy/ratelimit with Redis by turns; 30 s
	cd bench/envoyratelimit && $(ALONE) build -trimpath -o ../../bin/compare-ratelimit . && ../../bin/compare-ratelimit -bench $(COMPARE)

.PHONY: bench-store-memory
bench-store-memory: ## Measure what keys cost in Redis and memcached; 1 minute
	$(GO) test ./redisstore ./memcachestore -run '^$$' -bench Memory -benchtime 1x

.PHONY: bench-client
bench-client: ## Measure takes at a daemon beside Redis and Envoy's call; 30 s; needs redis-server
	@$(GO) test ./cmd/weir -run '^$$' -bench '^BenchmarkTake$$' | awk ' \
		{ print } \
		$$1 == "FAIL" { failed = 1 } \
		/^BenchmarkTake/ { split($$1, name, "[/-]"); us[name[3], name[2]] = $$3 / 1000; allocations[name[3], name[2]] = $$7 } \
		END { \
			print "\n| | 1 goroutine | 64 goroutines | allocations |\n|---|---|---|---|"; \
			for (n = split("client redisstore redisstore.Dial ShouldRateLimit", all, " "); ++i <= n; ) \
				printf "| `%s` | %.0f | %.1f | %d, %d |\n", all[i], us[all[i], 1], us[all[i], 64], allocations[all[i], 1], allocations[all[i], 64]; \
			exit failed \
		}'

bench-stores: ## Measure Weir's stores in Redis, PostgreSQL, memcached and NATS beside others; 9 minutes; BENCH=-short takes 40 s, BENCH=-json prints JSON
	cd bench && $(ALONE) build -trimpath -o ../bin/bench-stores ./stores && ../bin/bench-stores $(BENCH)

.PHONY: bench-simulate
bench-simulate: ## Measure the simulator: 1 million requests on each algorithm, 10 million through all; 1 minute
	$(GO) test ./sim -run '^$$' -bench 'Algorithms|TenMillion' -benchtime 1x -cpu 1

.PHONY: simulate-cluster
FOR ?= 1m
simulate-cluster: ## Look for a way over a limit that nodes share, for FOR (1m); FOR=8h the night through
	$(GO) test ./internal/cluster/simulation -run 'Swarm|Mutants|Figures' -count 1 -v -timeout 0 -swarm $(FOR)

.PHONY: changes
changes: ## Hold stores in servers to what changed limits promise, with as many histories as a store in memory
	$(GO) test -count 1 -timeout 30m ./redisstore ./pgstore ./client ./cmd/weir/internal/logstore -run '^Test(Store|StoreInRedis|StoreOfThree|GeneralScript|Cluster|Valkey)$$/^changes$$' -rapid.checks 500
	$(GO) test -count 1 -timeout 30m ./internal/cas ./cmd/weir/internal/cluster -run '^TestStore$$/./^changes$$' -rapid.checks 500
	$(GO) test -count 1 -timeout 30m ./cmd/weir/internal/natsstoretest ./memcachestore -run '^Test(Store|StoreInRedis|StoreOfThree|GeneralScript|Cluster|Valkey)$$/^changes$$' -rapid.checks 150

.PHONY: spec
spec: ## Have Spin check the models of leases and shares in spec, and find their mutants; 2 minutes; needs spin and gcc
	$(GO) test ./internal/cluster/lease -run Spin -count 1 -v -spec

.PHONY: explore-cluster
explore-cluster: ## Look at all that can happen to small clusters, and find all mutants, for FOR (1m); FOR=8h the night through
	$(GO) test ./internal/cluster/simulation -run Explore -count 1 -v -timeout 0 -explore $(FOR)

.PHONY: simulate-leaders
simulate-leaders: ## The same for rules with leaders that are killed each three seconds, and for hubs, for FOR (1m)
	$(GO) test ./internal/cluster/simulation -run 'Leader' -count 1 -v -timeout 0 -leaders $(FOR)
	$(GO) test ./internal/cluster/counter -run 'Hub' -count 1 -v -timeout 0 -hubs $(FOR)

.PHONY: torture-joints
torture-joints: ## Draw rules, requests and events for the whole product, for FOR (1m), and hold it to an oracle; FOR=8h the night through
	$(GO) test ./cmd/weir/internal/jointstest -run 'Stories|Joints' -count 1 -v -timeout 0 -joints $(FOR)

.PHONY: test-cluster
test-cluster: ## Run clusters of processes while networks and processes fail, and print figures; 15 minutes; needs root on Linux
	$(GO) test ./cmd/weir -run TestClusterKeeps -count 1 -v -timeout 30m -keys-kept 3000
	$(GO) test ./cmd/weir/internal/clustertest -count 1 -v -timeout 30m -whole . -artifacts -outputdir .

simulate-rlqs: ## Print what 1 to 200 proxies pass of a limit that they share by RLQS; 6 minutes
	go test -count 1 -run TestFigures -v ./cmd/weir/internal/rlqs -whole

bench-rlqs: ## Measure what reports of 100 proxies on 10,000 buckets cost; half a minute
	go test -count 1 -run '^$$' -bench Report -benchtime 200x ./cmd/weir/internal/rlqs

bench-outage: ## Print what 2,000 calls a second meet while a store is killed for 2 s and frozen for 3 s; 25 s
	$(GO) test ./cmd/weir/internal/guardtest -run TestOutage -count 1 -v -outage

.PHONY: bench-floods
bench-floods: ## Print what each known attack on the gRPC listener costs it and other clients; 2 minutes, alone on the machine
	$(GO) test ./cmd/weir/internal/e2e -run TestAttackCosts -count 1 -v -costs
