# Voxqueue: `make demo` and `make test` are all that a fresh machine needs.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell cat requirements.lock requirements-dev.lock pyproject.toml | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/.installed-$(VERSION)
DEVELOPED := $(VENV)/.developed-$(VERSION)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
DATA ?= data
PEERS_VERSION := $(shell cat benchmarks/peers/requirements*.txt | cksum | cut -d' ' -f1)
PEERS_INSTALLED := .venv-peers/.installed-$(PEERS_VERSION)

.PHONY: help setup install develop demo serve test check format lock bench peers clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit("Voxqueue needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.installed-* $(VENV)/.developed-* && touch $@

$(DEVELOPED): $(INSTALLED)
	$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

install: $(INSTALLED) ## Make .venv with what requirements.lock pins

develop: $(DEVELOPED) ## Add what tests and checks need, from requirements-dev.lock

setup: install ## Install, and pull the weights
	$(BIN)/voxqueue models pull whisper-base whisper-tiny.en kokoro-82m

demo: setup ## Speak a paragraph and transcribe it; AUDIO=file transcribes that file too
	$(BIN)/python -m app.demo --data-dir $(DATA) $(if $(AUDIO),"$(AUDIO)")

serve: setup ## Keep the service up on http://127.0.0.1:8000
	$(BIN)/voxqueue serve --data-dir $(DATA)

test: setup develop ## Run every test; STACK=servers runs them on PostgreSQL, Valkey and S3
	$(BIN)/python -m pytest $(if $(STACK),--stack $(STACK))

check: develop ## Format, lint, types, import contracts, dependencies, Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/hadolint Dockerfile

format: develop ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: develop ## Resolve both lock files anew; they name no address
	$(COMPILE) --group dev --group build --upgrade -o requirements-dev.lock
	$(COMPILE) --group build -c requirements-dev.lock -o requirements.lock

clean: ## Remove the environment and the caches; data and weights stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis

bench: setup develop $(if $(filter no,$(PEERS)),,peers) ## Speed beside the peers and the stored ratios; PEERS=no leaves the peers out
	$(BIN)/python -m benchmarks.run compare --http $(if $(filter no,$(PEERS)),--no-peers)

peers: $(PEERS_INSTALLED) ## Install the peers that `make bench` compares with

$(PEERS_INSTALLED):
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -r benchmarks/peers/requirements.txt
	$(PYTHON) -m venv .venv-mlx-whisper
	.venv-mlx-whisper/bin/python -m pip install --quiet -r benchmarks/peers/requirements-mlx-whisper.txt
	@rm -f .venv-peers/.installed-* && touch $@
