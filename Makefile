.DEFAULT_GOAL := help
TOOL := go tool -modfile=go.tools.mod

## build: compile the command into bin/
.PHONY: build
build:
	go build -trimpath -o bin/ ./cmd/...

## test: what a change must pass
.PHONY: test
test:
	go vet ./...
	go test ./...

## race: the same under the race detector, in random order
.PHONY: race
race:
	go test -race -shuffle=on ./...

## lint: linters and format, from the pinned tools
.PHONY: lint
lint:
	$(TOOL) golangci-lint run ./...

## golden: rewrite golden files and script sections, then show what changed
.PHONY: golden
golden:
	go test ./cmd/deltafold -args -update
	git diff --stat

## peers: install delta-rs, DuckDB, Spark and Sail outside the tree
.PHONY: peers
peers:
	.ci/peers

## servers: build and install the object stores of the tests (S3, GCS, Azure) outside the tree
.PHONY: servers
servers:
	.ci/servers

## stores: the tests on object stores, which must be there
.PHONY: stores
stores: servers
	DELTAFOLD_REQUIRE_SERVERS=1 go test -count 1 ./blobstore/... ./internal/storeserver

## interop: the tests beside the peers, which must be there
.PHONY: interop
interop: peers servers
	DELTAFOLD_REQUIRE_PEERS=1 DELTAFOLD_REQUIRE_SERVERS=1 go test -count 1 -timeout 30m ./internal/interop

## soak: every random test with its full number of cases, peers and stores included; takes long
.PHONY: soak
soak: SHELL := bash
soak: .SHELLFLAGS := -o pipefail -c
soak: peers servers
	mkdir -p bin && go build -o bin/testsum ./.ci/testsum
	DELTAFOLD_SOAK=1 DELTAFOLD_REQUIRE_PEERS=1 DELTAFOLD_REQUIRE_SERVERS=1 go test -json -count 1 -timeout 3h ./... | bin/testsum run -name soak -dir bin
	DELTAFOLD_SOAK=1 DELTAFOLD_REQUIRE_SERVERS=1 go test -json -count 1 -timeout 3h -tags failpoint -run 'Killed|Failpoint|Crash' ./internal/pipeline | bin/testsum run -name soak-failpoint -dir bin

## mutants: put known faults into a copy of the code, each must fail a test
.PHONY: mutants
mutants:
	.ci/mutants

## fuzz: each fuzz target for FUZZTIME (default 30s)
.PHONY: fuzz
fuzz:
	.ci/fuzz

## clean-check: generated files and go.mod are as committed
.PHONY: clean-check
clean-check:
	go generate ./...
	go mod tidy
	@test -z "$$(git status --porcelain)" || { git status --short; git diff; exit 1; }

## bench: benchmarks into bench.txt, ready for benchstat
.PHONY: bench
bench:
	go test -run '^$$' -bench . -benchmem -count 6 ./... | tee bench.txt

## bench-peers: the same guarded merge by deltafold and by delta-rs, 10,000,000 rows
.PHONY: bench-peers
bench-peers: peers
	go run ./bench

## ci: all of it, as a change is judged
.PHONY: ci
ci:
	bash .ci/run

.PHONY: help
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
