.DEFAULT_GOAL := help
SHELL := /bin/bash

GO      ?= go
PKGS    ?= ./...
BIN     := bin/recourse

.PHONY: help run build test vet fuzz bench sim mutants fmt clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## play the demo: sagas that succeed, fail, are undone, and survive a crash; then stay up
	@$(MAKE) --no-print-directory build
	@$(BIN) demo

build: ## build bin/recourse
	$(GO) build -trimpath -o $(BIN) ./cmd/recourse

test: vet ## everything, with -race, on SQLite and on a real Postgres (found, started or installed)
	$(GO) run ./internal/testpg/run -- $(GO) test -race -timeout 25m $(PKGS)

vet: ## gofmt, go vet (with every build tag), go mod tidy -diff
	@off=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$off" ]; then echo "gofmt would change:"; echo "$$off"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags failpoints ./internal/failpoint ./engine ./cmd/recourse
	$(GO) vet -tags mutants ./internal/mutant ./engine/... ./saga ./journal/memory
	$(GO) mod tidy -diff

FUZZTIME ?= 30s
fuzz: ## each fuzz target for FUZZTIME
	@set -e; for f in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
	  for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$f); do \
	    echo "$$(dirname $$f) $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$(dirname $$f); \
	  done; done

bench: ## cost per step of a saga of 100 steps and of 10,000
	$(GO) test -run '^$$' -bench PerStep -benchtime 5x ./engine

SEEDS ?= 2000
START ?= 1
sim: ## simulate SEEDS runs from seed START, with crashes and faults
	$(GO) run ./engine/sim/run -seeds $(SEEDS) -start $(START)

mutants: ## switch on one deliberate bug after the other; each has to be noticed by the simulator
	$(GO) run -tags mutants ./engine/sim/mutants

fmt: ## gofmt everything
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what building left
	rm -rf bin
