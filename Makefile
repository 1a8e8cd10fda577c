# What people run. Every target that needs the environment brings it up to date first (under a second when it is).
# GNU make 3.81 or newer, and a POSIX sh.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python of the machine that is new enough; or name one: make setup PYTHON=/path/to/python3.12
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
endif
BIN := .venv/bin
UV ?= uv
KUBECTL ?= $(shell command -v kubectl 2>/dev/null || echo "$(BIN)/ansible-operator dev kubectl")
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH ?=
BENCH_ARGS ?=

SOURCES := runner tests tools $(wildcard plugins handlers)
# Folders that hold YAML of ours; the ones that are there.
YAML := $(wildcard watches.yaml requirements.yml crds config roles playbooks molecule examples .github)

.NOTPARALLEL:
.PHONY: help setup demo dev-up dev-down licences manifests requirements install uninstall run check test test-full bench bench-proxy clean
CHECKS := check-lint check-format check-types check-layers check-limits check-go check-yaml check-ansible check-generated check-licences
.PHONY: $(CHECKS)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

setup: ## Create or update .venv from the hashed lock files, with the Ansible collections
	@test -n "$(PYTHON)" || { echo "setup: no Python 3.11 or newer found on PATH; install one, or name it: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m tools.setup --quiet

demo: setup ## Show an EC2Instance being created, repaired and deleted, on this machine (KEEP=1 keeps it, USE_CLUSTER=1 uses yours; SCENARIO=conflict or autoscale)
	@$(BIN)/ansible-operator demo $(if $(SCENARIO),--scenario=$(SCENARIO)) $(if $(filter-out 0,$(KEEP)),--keep) $(if $(filter-out 0,$(USE_CLUSTER)),--use-cluster) $(DEMO_ARGS)

dev-up: setup ## Start a local Kubernetes and an AWS emulator, and leave them running
	@$(BIN)/ansible-operator dev up

dev-down: setup ## Stop what dev-up started
	@$(BIN)/ansible-operator dev down

manifests: setup ## Write RBAC and kustomizations from watches.yaml, crds/ and config/rbac/extra_rules.yaml
	@$(BIN)/python -m tools.manifests

licences: setup ## Write docs/licences.md: what the image ships, and under which licences
	@$(BIN)/python -m tools.licences

requirements: ## Compile requirements/*.in into hashed lock files (needs uv on PATH)
	@for name in runtime dev ansible-2.18; do \
		$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
			--custom-compile-command "make requirements" requirements/$$name.in -o requirements/$$name.txt || exit 1; \
	done

install: setup ## Apply the CRDs to the cluster of the current KUBECONFIG
	@$(KUBECTL) apply -k crds

uninstall: setup ## Delete the CRDs, and with them every object of their kinds, from the cluster of KUBECONFIG
	@$(KUBECTL) delete -k crds --ignore-not-found

run: setup ## Run the operator in the foreground against the cluster of KUBECONFIG
	@ANSIBLE_ROLES_PATH="$(CURDIR)/roles" ANSIBLE_GATHERING=explicit $(BIN)/ansible-operator run

check: $(CHECKS) ## Lint, types, layers, limits, YAML, Ansible, generated files (make -k check: all findings at once)

check-lint: setup
	$(BIN)/ruff check $(SOURCES)

check-format: setup
	$(BIN)/ruff format --check $(SOURCES)

check-types: setup
	$(BIN)/mypy

check-layers: setup
	$(BIN)/lint-imports --no-cache --no-logo

check-limits: setup
	$(BIN)/python -m tools.limits

check-go:
	@command -v gofmt >/dev/null 2>&1 || exit 0; echo "gofmt -l runner/localdev/kubernetes"; \
	bad=`gofmt -l runner/localdev/kubernetes`; test -z "$$bad" || { echo "gofmt -w: $$bad"; exit 1; }

check-yaml: setup
	$(if $(YAML),$(BIN)/yamllint --strict $(YAML))

check-ansible: setup
	$(if $(wildcard roles),PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ansible-lint --offline)

check-generated: setup
	$(if $(wildcard watches.yaml),$(BIN)/python -m tools.manifests --check)

check-licences: setup
	$(BIN)/python -m tools.licences --check

test: setup ## Run every test but the full-size ones (PYTEST_ARGS='-k name' for some of them)
	@$(BIN)/python -m pytest -m "not full" $(PYTEST_ARGS)

test-full: setup ## Run every test, with the full figures, and on ansible-core 2.18 too (in .venv-2.18)
	@$(PYTHON) -m tools.setup --quiet --ansible-2.18
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: setup ## Measure reconciles warm, cold and with PEER=BINARY; BENCH='one-task memory' for some sections
	@$(BIN)/python -m tools.bench $(BENCH) $(if $(PEER),--peer "$(PEER)" $(if $(PEER_PATH),--peer-path "$(PEER_PATH)")) $(BENCH_ARGS)

bench-proxy: setup ## Measure the proxy: BENCH=latency, replay, discovery or soak, with its options
	@$(BIN)/python -m tools.proxy_bench $(or $(BENCH),latency)

clean: ## Remove caches and build output of this folder; .venv and the per-user cache stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .ansible build dist
	@find runner tests tools plugins -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
