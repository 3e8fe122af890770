# Commands of this repository; `make` alone lists them.

PYTHON  ?= python3
VENV    ?= .venv
NETWORK ?= resnet18
# Extra arguments: Hydra overrides for `make tune`, pytest's options for `make test`.
ARGS    ?=

TORCH     := torch>=2.6,<2.14
# The label +cpu is what no CUDA build carries, so pip cannot bring gigabytes of CUDA packages by mistake.
CPU_TORCH := torch==2.13.0+cpu
CPU_INDEX := https://download.pytorch.org/whl/cpu

BIN       := $(VENV)/bin
PIP       := $(BIN)/python -m pip
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install tune test lint figures

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## Create the virtual environment VENV (default .venv) and install into it

tune: $(INSTALLED) ## Tune NETWORK (default resnet18); overrides by ARGS="..."
	$(BIN)/foretune tune network=$(NETWORK) $(ARGS)

# Two at a time, a file in one process: most tests wait for processes of their own. Slow files are first
# (tests/conftest.py), which reordering by the number of tests would undo. A run whose process crashed ends, as xdist
# waits without end for the process that replaces it.
test: $(INSTALLED) ## Run the tests; pytest's options by ARGS="..."
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder --max-worker-restart=0 $(ARGS)

lint: $(INSTALLED) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

figures: $(INSTALLED) ## Write the tables of README.md and docs/ from benchmarks/results
	$(BIN)/python -m benchmarks.figures

# torch goes first and is then held, so that no other package can replace the build chosen here.
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@if [ "$$(uname -s)" != Linux ] || nvidia-smi -L >/dev/null 2>&1; then \
	    $(PIP) install "$(TORCH)"; \
	else \
	    $(PIP) install "$(CPU_TORCH)" || { \
	        echo "The package index has no CPU build of torch; taking it from $(CPU_INDEX)"; \
	        $(PIP) install --index-url $(CPU_INDEX) "$(CPU_TORCH)"; \
	    }; \
	fi
	@$(BIN)/python -c "from importlib.metadata import version; print('torch==' + version('torch'))" \
	    > $(VENV)/torch-constraint.txt
	$(PIP) install --constraint $(VENV)/torch-constraint.txt --editable ".[networks,onnx,rivals,xgboost,ray,rpc,test,lint]"
	@touch $@
