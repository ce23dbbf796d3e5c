.DEFAULT_GOAL := help
SHELL := /bin/bash

GO      ?= go
PKGS    ?= ./...
BIN     := bin/recourse

PG      := $(GO) run ./internal/test/pgserver/run --

# The race detector looks at everything but SQLite, which is C translated to Go and five times
# slower with it, and what parses command lines, which has no goroutines and is built again by each
# test that runs a command. A package that uses sync.Map must be looked at: its copies of sync's
# generic code may be the ones that are linked, and without instrumentation they cause false
# reports. Package modernc.org/sqlite, the driver, uses it; the C is in its lib.
RACE    := -race -gcflags='modernc.org/...=-race=false -d=checkptr=0' -gcflags='modernc.org/sqlite=-d=checkptr=0' -gcflags='github.com/alecthomas/kong/...=-race=false' -gcflags='regexp/...=-race=false'

.PHONY: help run build check lint test test-short deps module-path flaky mutation style vet prove crash crash-race ha container examples agents fuzz bench bench-scale bench-peers bench-steps sim mutants soak pictures fmt clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## run the demo: sagas that succeed, fail, are undone, and survive a crash; then the server stays up
	@$(MAKE) --no-print-directory build
	@$(BIN) demo

PROGRAMS := ./cmd/recourse ./examples/world/cmd/world
# Counts the lines of go build -v, one for each package that is compiled; other lines pass. A
# terminal gets one line.
define PROGRESS
n=0; while IFS= read -r line; do case $$line in \
  *' '*|*:*) echo "$$line";; \
  *) n=$$((n + 1)); if [ -t 1 ]; then printf '\rcompiling: %d packages (a first build: about 450)' $$n; \
     elif [ $$((n % 50)) = 1 ]; then echo "compiling: $$n packages (a first build: about 450)"; fi;; \
esac; done; if [ -t 1 ] && [ $$n != 0 ]; then echo; fi
endef

# Without -trimpath, so that go run, go vet and go test find the same packages in the cache. -s
# leaves out the symbol table and DWARF, which debuggers need; stack traces and profiles stay as
# they are.
build: ## build bin/recourse, and bin/world, the mock services
	@$(GO) build -v -ldflags=-s -o bin/ $(PROGRAMS) 2>&1 | { $(PROGRESS); }; exit $${PIPESTATUS[0]}

# The pure packages, the simulation and internal/arch start no goroutines (internal/arch sees to
# that): the race detector has nothing to find in their tests, and makes them ten times slower.
UNRACED := compensation idempotency retry saga saga/history saga/machine saga/dsl saga/expr saga/compare saga/replay internal/arch internal/test/sim
# The tests of these packages drive the real program, which they build themselves. The race detector
# would look only at the tests, and take the processor that the program needs to keep its times. They
# run before the others compile, for the same reason.
DRIVERS := internal/test/crash internal/test/examples internal/test/browser
# The packages that take longest begin first, so that none of them is left at the end while a core
# idles.
LONGEST := cmd/recourse api api/ui internal/test/wire journal/postgres journal/sqlite journal/journaltest internal/tracing
# Without debug information, tests are linked in two thirds of the time. vet is a target of its own.
TEST  := $(GO) test -vet=off -ldflags=-w
# Most tests wait most of the time, for leases and for other programs: two packages run at the same
# time for each core, and two tests of each.
twice := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
CROWD := -p $(twice) -parallel $(twice) -timeout 25m
listed   = $(shell $(GO) list $(PKGS))
module  := $(shell sed -n "s/^module //p" go.mod)
unraced  = $(filter $(addprefix $(module)/,$(UNRACED)),$(listed))
drivers  = $(filter $(addprefix $(module)/,$(DRIVERS)),$(listed))
longest  = $(foreach p,$(LONGEST),$(filter $(module)/$(p),$(listed)))
# By default each process with the race detector sleeps for a second before it exits. Go's own tests
# do without it: https://go.dev/doc/articles/race_detector#Options
GORACE  := GORACE=atexit_sleep_ms=0
raced    = $(longest) $(filter-out $(unraced) $(drivers) $(longest),$(listed))
test: ## run every test, on SQLite and a real Postgres; with -race where there are goroutines
	$(if $(unraced),$(TEST) $(unraced))
	$(if $(drivers),$(PG) $(TEST) $(CROWD) $(drivers))
	$(if $(strip $(raced)),$(GORACE) $(PG) $(TEST) $(RACE) $(CROWD) $(raced))

# What needs no database, server or second process.
SHORT := ./compensation ./idempotency ./retry ./saga/... ./catalog ./trigger ./journal ./journal/memory ./internal/arch ./internal/cli ./internal/cli/config ./internal/cli/export ./internal/cli/remote ./internal/cli/view ./internal/story/... ./internal/costs/...
test-short: ## run the tests of SHORT, without -race: the core and the checks of the code's structure
	$(TEST) $(SHORT)

check: vet test-short ## run this before each commit: vet and test-short

FLAKY_RUNS ?= 20
FLAKY_PKGS ?= ./...
# As in test, the drivers run without the race detector. A crowd needs more connections.
flaky: ## run each package's tests FLAKY_RUNS times, half of them crowded, and list the tests that failed
	$(GO) run ./internal/test/pgserver/run -c max_connections=1000 -- $(GO) run ./internal/flaky -runs $(FLAKY_RUNS) -unraced "$(addprefix $(module)/,$(UNRACED) $(DRIVERS))" $(FLAKY_PKGS)

MUTATED ?= ./retry ./idempotency ./compensation ./trigger ./internal/outbox ./journal ./saga ./saga/machine ./api
# Of api the files that say who may do what, and what a person's decision does: all of them would
# take a day.
MUTATED_OF_API := auth guard commands approve resolve
NOT_OF_API = $(patsubst api/%,-E ^%,$(filter-out $(MUTATED_OF_API:%=api/%.go) api/%_test.go,$(wildcard api/*.go)))
mutation: ## make small changes to the code of MUTATED, and list those that no test detects
	$(GO) -C internal/mutation build -o $(CURDIR)/bin/gremlins github.com/go-gremlins/gremlins/cmd/gremlins
	@for p in $(MUTATED); do echo "$$p"; [ $$p = ./api ] && not="$(NOT_OF_API)" || not=; \
	  $(PG) bin/gremlins unleash --workers 2 --test-cpu 1 --timeout-coefficient 20 --invert-logical --invert-loopctrl --invert-negatives --output-statuses lct -E / $$not $$p || exit 1; done

style: ## gofmt, the width of comments, go mod tidy -diff
	@off=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$off" ]; then echo "gofmt would change:"; echo "$$off"; exit 1; fi
	@git ls-files '*.go' | xargs $(GO) run ./internal/commentwidth
	$(GO) mod tidy -diff

vet: style ## style, and go vet (with every build tag)
	$(GO) vet ./...
	$(GO) vet -tags failpoints ./internal/failpoint/... ./engine ./api ./journal/sqlite ./journal/postgres ./cmd/recourse
	$(GO) vet -tags ha ./internal/test/pgha ./internal/test/crash

LINT := $(GO) tool -modfile=internal/lint/go.mod golangci-lint run
lint: style ## style, and the linters of .golangci.yml (go vet's, too), with every build tag; the first run builds them
	$(LINT) --build-tags failpoints,ha
	$(LINT) ./internal/failpoint/...

PROVE_SEEDS ?= 100000
prove: ## the full check of the promises: lint, sim, mutants, crash and fuzz; CI runs a smaller one
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory sim SEEDS=$(PROVE_SEEDS)
	$(MAKE) --no-print-directory mutants
	RECOURSE_RANDOM_ROUNDS=$(ROUNDS) $(GO) test -count 1 -timeout 6h -run 'TestAnyHistory' ./saga/machine
	$(MAKE) --no-print-directory crash
	RECOURSE_LARGE_ANSWERS=256 $(PG) $(GO) test -v -count 1 -timeout 1h -run 'TestManyLargeAnswers' ./internal/test/crash
	$(MAKE) --no-print-directory fuzz

ROUNDS ?= 20
# Fail-over, restarts and large answers have no rounds: they are in test and ha.
crash: crash-race ## kill, freeze and fail the real program at every point, once with -race and ROUNDS times
	RECOURSE_CRASH_ROUNDS=$(ROUNDS) $(PG) $(GO) test -v -count 1 -parallel 4 -timeout 6h ./internal/test/crash -skip 'TestFailover|TestRestartGoesOnAtOnce|TestManyLargeAnswers'

crash-race: ## the part of crash that has a program with the race detector
	RECOURSE_CRASH_RACE=1 $(PG) $(GO) test -v -count 1 -timeout 1h ./internal/test/crash -run 'TestStrike|TestErrorsAlone|TestRandomKills'

ha: ## test failover by hand and by Patroni, restarts after kill -9, and poolers
	$(GO) test -tags ha -v -count 1 -timeout 30m ./internal/test/pgha
	RECOURSE_RESTART_EXACT=1 $(PG) $(GO) test -tags ha -v -count 1 -timeout 30m ./internal/test/crash -run 'TestPatroni|TestFailover|TestRestartGoesOnAtOnce'
	$(PG) $(GO) test -v -count 1 -timeout 30m ./journal/postgres ./cmd/recourse -run 'TestGoingBack|TestMemory|TestOldPrimaryLives|TestUnknownIdentity|TestUnknownWithoutStandby|TestServeBehindAPooler|TestVerifyReadWrite|TestNoConnectionLeft'

IMAGE ?= recourse
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt
container: ## build the container image IMAGE with buildah, and run it once to print its version
	rm -rf bin/container && mkdir -p bin/container/state
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/container/ ./cmd/recourse
	cp $(CERTIFICATES) bin/container/ca-certificates.crt
	buildah bud --isolation chroot -f deploy/Containerfile -t $(IMAGE) bin/container
	c=$$(buildah from $(IMAGE)) && buildah run --isolation chroot $$c -- /usr/local/bin/recourse version; \
	  status=$$?; buildah rm $$c >/dev/null; exit $$status

examples: ## run the definitions of examples/ with the real program and with faults, one of them with twenty kills; part of test
	$(PG) $(GO) test -v -count 1 ./internal/test/examples

agents: ## run the agents of examples/agents by each client package, kill each that books twenty times, cut off each byte that MCP answers, and print what happened
	RECOURSE_AGENT_CLIENTS=all $(GO) test -v -count 1 -timeout 1h -run 'TestBookingAgents|TestMCPCut' ./internal/test/examples

FUZZTIME ?= 30s
# Go before 1.27 may report the end of FUZZTIME as a failure, without an input that fails:
# https://go.dev/issue/75804.
AT_ITS_END = echo "$$out" | grep -qx "    context deadline exceeded" && ! echo "$$out" | grep -q "Failing input written\|panic:"
fuzz: ## run each fuzz target for FUZZTIME, two at a time
	@grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r f; do \
	  sed -n "s|^func \(Fuzz[A-Za-z0-9]*\)(.*|$$(dirname $$f) \1|p" $$f; \
	done | xargs -P 2 -L 1 sh -c 'out=$$($(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s -parallel 1 $$0 2>&1) || { $(AT_ITS_END); } && echo "$$0 $$1: $$(echo "$$out" | grep -o "execs: [0-9]*" | tail -1)" || { echo "$$0 $$1 failed:"; echo "$$out"; exit 255; }'

bench: build ## measure what a saga costs in addition to its requests, on SQLite and on Postgres, both with fsync
	$(BIN) bench
	$(GO) run ./internal/test/pgserver/run -c fsync=on -c synchronous_commit=on -c full_page_writes=on -- sh -c '$(BIN) bench --database "$$RECOURSE_TEST_POSTGRES"'

WORKLOADS ?= wide start long parked recover list growth overload agent
bench-scale: build ## measure the other WORKLOADS: wide, long and a million parked sagas, bare starts, recovery, lists, growth, overload, agents; on SQLite and on Postgres
	for w in $(WORKLOADS); do $(BIN) bench --workload $$w || exit 1; done
	$(GO) run ./internal/test/pgserver/run -c fsync=on -c synchronous_commit=on -c full_page_writes=on -- \
	  sh -c 'for w in $(WORKLOADS); do $(BIN) bench --workload $$w --database "$$RECOURSE_TEST_POSTGRES" || exit 1; done'

PEERS       ?=
PEERS_FLAGS ?=
# The peers are in modules and npm packages of their own; the first run downloads them.
bench-peers: build ## compare booking3 with other programs, PEERS (default: all), on a Postgres with fsync; PEERS_FLAGS=--quick for a short run
	$(GO) build -o bin/bench-peers ./bench/peers
	$(GO) run ./internal/test/pgserver/run -c fsync=on -c synchronous_commit=on -c full_page_writes=on -- bin/bench-peers $(if $(PEERS),--peers $(PEERS)) $(PEERS_FLAGS)

bench-steps: ## measure the cost per step of a saga with 100 steps and with 10,000
	$(GO) test -run '^$$' -bench PerStep -benchtime 5x ./engine

SEEDS ?= 2000
START ?= 1
sim: ## simulate SEEDS runs from seed START, with crashes and faults
	$(GO) run ./internal/test/sim/run -seeds $(SEEDS) -start $(START)

SAMPLE ?= 200
mutants: ## switch on one deliberate bug after another; the simulator must detect each; SAMPLE seeds give the rate
	$(GO) run ./internal/test/mutant/overlay bin/_mutants
	$(GO) run -overlay bin/_mutants/overlay.json ./internal/test/sim/mutants -sample $(SAMPLE) -skip "$(SKIP)"

HOURS ?= 2
soak: ## repeat the checks for HOURS, with new seeds each time; stops at the first failure
	@end=$$(($$(date +%s) + $(HOURS) * 3600)); start=$$(date +%s)0000; \
	while [ $$(date +%s) -lt $$end ]; do \
	  $(MAKE) --no-print-directory sim SEEDS=200000 START=$$start || exit 1; start=$$((start + 200000)); \
	  $(MAKE) --no-print-directory crash ROUNDS=60 || exit 1; \
	  RECOURSE_EXAMPLES_SEED=$$start $(MAKE) --no-print-directory examples || exit 1; \
	  RECOURSE_HISTORY_ROUNDS=30 $(PG) $(GO) test $(RACE) -count 1 -timeout 2h ./internal/test/linearizability || exit 1; \
	  $(PG) $(GO) test $(RACE) -count 1 -timeout 1h ./internal/test/wire ./journal/... || exit 1; \
	  $(MAKE) --no-print-directory fuzz FUZZTIME=5m || exit 1; \
	done

pictures: ## take the screenshots of docs again, from the demo in a real browser
	@mkdir -p docs/images && rm -f docs/images/*.png
	RECOURSE_PICTURES=$$PWD/docs/images $(GO) test -count 1 -run 'TestPictures$$' ./internal/test/browser

# Tools have modules of their own, so that go.mod has only what the program and its tests need.
TOOLS := internal/mutation internal/lint
DEPS_FORMAT := {{.Path}} {{.Version}}{{with .Time}} of {{.Format "2006-01-02"}}{{end}}{{with .Update}}; newer: {{.Version}}{{end}}{{with .Deprecated}}; deprecated: {{.}}{{end}}{{with .Retracted}}; retracted: {{.}}{{end}}
deps: ## list modules that have a newer version, are deprecated or retracted, or have had no release for two years
	@{ $(GO) list -m -u -retracted -f '$(DEPS_FORMAT)' $$(sed -n 's/^\t\([^ ]*\) v.*/\1/p' go.mod); \
	  for dir in $(TOOLS); do $(GO) -C $$dir list -m -u -retracted -f '$(DEPS_FORMAT)' $$($(GO) -C $$dir list -f '{{.Module.Path}}' tool); done; } | \
	  awk -v old="$$(date -d '2 years ago' +%F 2>/dev/null || date -v-2y +%F)" '/; / {print; next} $$4 < old {print $$0 "; no newer release"}'

module-path: ## rename the module to MODULE, a path that go get can fetch: MODULE=example.org/x/recourse
	@$(GO) run ./internal/modulepath "$(MODULE)"

fmt: ## gofmt everything
	gofmt -w $$(git ls-files '*.go')

clean: ## delete build output
	rm -rf bin
