# Every check that CI runs is a target here. Tools are built by `go run` at a fixed version and stay in
# Go's build cache, so that they never touch this module's dependencies.
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK   := go run golang.org/x/vuln/cmd/govulncheck@v1.9.0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The largest binary, in bytes: it is pulled by every node that runs a contender.
MAX_SIZE := 12000000

# Arguments of `make test`, for example ARGS='-run Hangs ./pkg/election'.
ARGS ?= ./...

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build size demo test lint fmt vuln cover bench clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/simba-sidecar, static and stripped
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o bin/simba-sidecar ./cmd/simba-sidecar

size: build ## Fail if the binary has outgrown its budget
	@size=$$(stat -c %s bin/simba-sidecar); echo "bin/simba-sidecar: $$size of $(MAX_SIZE) bytes"; \
	[ "$$size" -le $(MAX_SIZE) ]

demo: build ## Watch three contenders elect a leader and hand over, in a few seconds
	@cmd/simba-sidecar/demo.sh

test: ## Run all tests with the race detector on real servers (installs missing ones as root)
	@command -v "$$(go env CC)" >/dev/null || { echo "the race detector needs a C compiler: apt-get install gcc libc6-dev"; exit 1; }
	@internal/testserver/install.sh
	@go test -race -p 2 -timeout 20m $(if $(CI),-count=1) -json $(ARGS) | go run .ci/testcount.go

lint: ## Check format, vet, lint, layering and tidiness of both modules
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -s -l); [ -z "$$unformatted" ] || { echo "run make fmt for: $$unformatted"; exit 1; }
	go vet .ci/testcount.go # its folder is not part of ./...
	for module in . bench; do (cd $$module && go mod tidy -diff && go vet ./... && $(GOLANGCI_LINT) run); done
	@# Outside the bubbles of testing/synctest a sleep is the interval of a poll, or says on its line what it is for.
	@sleeps=$$(git ls-files -z '*.go' | xargs -0 grep -LZ '"testing/synctest"' | xargs -0 grep -n 'time\.Sleep(' | \
		grep -vE 'for .*; time\.Sleep\(|time\.Sleep\(.*\) // [a-z]' || true); \
	[ -z "$$sleeps" ] || { echo "wait for a condition instead of sleeping:"; echo "$$sleeps"; exit 1; }

fmt: ## Format all Go files
	git ls-files -z '*.go' | xargs -0 gofmt -s -w

vuln: ## Look for known vulnerabilities (needs access to vuln.go.dev)
	$(GOVULNCHECK) ./...

cover: ## Show how much of each function the tests run
	@internal/testserver/install.sh
	@mkdir -p .cache
	go test -p 2 -timeout 20m -coverpkg=./pkg/...,./cmd/... -coverprofile=.cache/cover.out ./...
	go tool cover -func=.cache/cover.out

bench: ## Measure, and print the tables of docs/performance.md
	cd bench && go run .

clean: ## Remove what was built
	rm -rf bin .cache
