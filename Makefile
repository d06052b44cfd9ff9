# Everything a developer or CI does. Needs python3 >= 3.11 and make; `make contract` also npm, `make browser` Chromium.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
COMPILE := $(BIN)/uv --system-certs pip compile pyproject.toml --group build --universal --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --python-version 3.11 --quiet

help: ## What there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Reinstalled when the lock or the project's metadata has changed, so that a second start takes no time.
$(RUNTIME): requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

run: $(RUNTIME) ## Serve on SQLite at 127.0.0.1:8000, migrated
	@$(BIN)/traincost serve --migrate

test: $(DEV) ## Every test, on every core, on SQLite and on PostgreSQLs that it starts
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

check: $(DEV) ## Format, lint, types, import contracts, drift of locks and of openapi.yaml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory check-lock check-openapi

check-lock: $(DEV)
	@cp requirements.txt $(VENV)/requirements.txt && cp requirements-dev.txt $(VENV)/requirements-dev.txt
	@$(COMPILE) --output-file $(VENV)/requirements.txt
	@$(COMPILE) --group dev --output-file $(VENV)/requirements-dev.txt
	@diff requirements.txt $(VENV)/requirements.txt && diff requirements-dev.txt $(VENV)/requirements-dev.txt \
		|| { echo "The locks are not those of pyproject.toml: run 'make lock'."; exit 1; }

check-openapi: $(DEV)
	@$(BIN)/traincost openapi | diff openapi.yaml - \
		|| { echo "openapi.yaml is not what the code says: run 'make openapi' and look at the difference."; exit 1; }

openapi: $(DEV) ## Write openapi.yaml from the code
	$(BIN)/traincost openapi --output openapi.yaml

lock: $(DEV) ## Write requirements*.txt from pyproject.toml, keeping pins that still fit
	$(COMPILE) --output-file requirements.txt
	$(COMPILE) --group dev --output-file requirements-dev.txt

contract: $(DEV) ## Lint the contract; generate clients in TypeScript and Python and use them (needs npm)
	$(BIN)/python -m contract

browser: $(DEV) ## The pages in headless Chromium, offline (needs Debian's chromium)
	$(BIN)/python -m pytest tests/browser -m browser -o addopts="-ra --strict-markers --import-mode=importlib"

bench: $(DEV) ## Measure side by side on one core each for server and load
	$(BIN)/python -m bench

backtest: $(RUNTIME) ## Replay published runs: predicted against measured, beside two baselines
	$(BIN)/python -m service.backtest

refit: $(DEV) ## Fit the step model's constants again, whole sources held out; changes nothing
	$(BIN)/python -m bench.refit

golden: $(DEV) ## Write the golden reports again; look at the difference before it is kept
	$(BIN)/python -m tests.golden

fuzz: $(DEV) ## Over 20,000 generated requests against a live server
	$(BIN)/python -m tests.fuzz

soak: $(DEV) ## More kills under load than `make test` has time for
	$(BIN)/python -m pytest tests/faults -m soak -o addopts="-ra --strict-markers --import-mode=importlib"

format: $(DEV) ## Format and mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what was made
	rm -rf $(VENV) contract/node_modules contract/build .hypothesis .schemathesis .pytest_cache .mypy_cache .ruff_cache

.PHONY: help run test check check-lock check-openapi openapi lock contract browser bench backtest refit golden fuzz soak format clean
