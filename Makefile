# Voxqueue: `make demo` and `make test` are all that a fresh machine needs.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)
DATA ?= data

.PHONY: help setup install demo serve test check format lock peers clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit("Voxqueue needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.installed-* && touch $@

install: $(STAMP) ## Make .venv with everything that is pinned in requirements.lock

setup: install ## Install, and pull the weights
	$(BIN)/voxqueue models pull whisper-base whisper-tiny.en kokoro-82m

demo: setup ## Speak a paragraph and transcribe it; AUDIO=file transcribes that file too
	$(BIN)/python -m app.demo --data-dir $(DATA) $(if $(AUDIO),"$(AUDIO)")

serve: setup ## Keep the service up on http://127.0.0.1:8000
	$(BIN)/voxqueue serve --data-dir $(DATA)

test: setup ## Run every test
	$(BIN)/python -m pytest

check: install ## Format, lint, types, import contracts, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .

format: install ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: install ## Resolve requirements.lock anew; it names no address
	$(BIN)/uv pip compile pyproject.toml --group dev --group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --upgrade -o requirements.lock

clean: ## Remove the environment and the caches; data and weights stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis

peers: ## Install the peers that `make benchmark` compares with
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -r benchmarks/peers/requirements.txt
	$(PYTHON) -m venv .venv-mlx-whisper
	.venv-mlx-whisper/bin/python -m pip install --quiet -r benchmarks/peers/requirements-mlx-whisper.txt
