# Two commands matter, `make run` and `make test`; `make help` tells the rest.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DELETE_ON_ERROR:

PYTHON ?= python3
TORCH_INDEX ?=
VENV := .venv
PY := $(VENV)/bin/python
EXTRAS := test,llm$(shell nvidia-smi -L >/dev/null 2>&1 && echo ,gpu)

# The set-up is done again when this changes: packages, pins, interpreter, place, index of torch.
KEY := $(shell { cat pyproject.toml constraints.txt; "$(PYTHON)" -VV; pwd; \
	echo "$(EXTRAS) $(TORCH_INDEX)"; } 2>&1 | cksum | cut -d' ' -f1)
READY := $(VENV)/ready-$(KEY)

define OTHER_PYTHON
$(PYTHON) is missing or not Python 3.11 to 3.13.
Name another one: make PYTHON=python3.12 run
endef
define NO_VENV
$(PYTHON) cannot make virtual environments.
On Debian and Ubuntu: apt-get install python3-venv
endef
define CPU_TORCH
No NVIDIA GPU found. The default torch brings gigabytes of CUDA packages with it; without them:
    make TORCH_INDEX=https://download.pytorch.org/whl/cpu run
endef
define NO_SANITIZER
compute-sanitizer not found. It comes with the CUDA toolkit; name its place if need be:
    make SANITIZER=/usr/local/cuda/bin/compute-sanitizer sanitize
endef
export OTHER_PYTHON NO_VENV CPU_TORCH NO_SANITIZER

SANITIZER ?= compute-sanitizer
SANITIZER_TOOLS := memcheck racecheck initcheck synccheck

.PHONY: help setup build run test sanitize lab format gallery clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' Makefile | expand -t 10
	@echo
	@echo 'PYTHON=python3.12  another interpreter (3.11 to 3.13)'
	@echo 'TORCH_INDEX=https://download.pytorch.org/whl/cpu  torch without CUDA'
	@echo 'LIBRARIES="cuda"   what to sanitize: cuda cuda_ladder cuda_encode cuda_baselines'
	@echo 'ARGS="..."         more arguments for lab run, pytest, compute-sanitizer or JupyterLab'

setup: $(READY)  ## install the pinned packages into .venv

$(READY):
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
		|| { echo "$$OTHER_PYTHON" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$$NO_VENV" >&2; exit 1; }
	@rm -f $(VENV)/ready-*
	@[ "$$($(PY) -VV 2>&1)" = "$$("$(PYTHON)" -VV)" ] || "$(PYTHON)" -m venv --clear $(VENV)
	@[ -n "$(TORCH_INDEX)" ] || [[ "$(EXTRAS)" = *gpu* ]] || echo "$$CPU_TORCH"
	@echo 'Installing the pinned packages into $(VENV) (a few minutes; log: $(VENV)/pip.log)'
	@$(PY) -m pip install --log $(VENV)/pip.log --disable-pip-version-check \
		-c constraints.txt $(if $(TORCH_INDEX),--extra-index-url "$(TORCH_INDEX)") \
		-e '.[$(EXTRAS)]' | awk '/^Collecting|^Installing collected/ \
		{ printf "%s", ($$1 == "Installing") ? " installing" : "." ; fflush() } END { print "" }'
	@touch $@

build: $(READY)  ## compile kernels/ for this machine
	@$(PY) -m lab_utils.cli build

run: build  ## execute every notebook; report in outputs/latest/index.html
	@$(PY) -m lab_utils.cli run $(ARGS)

test: build  ## run the tests, notebooks and JupyterLab in a browser included
	@$(PY) -m pytest $(ARGS)

# Without torch's cache of memory, every tensor is an allocation of its own, with bounds of its own.
sanitize: build  ## run the GPU kernels under compute-sanitizer's four tools
	@command -v $(SANITIZER) >/dev/null || { echo "$$NO_SANITIZER" >&2; exit 1; }
	@for tool in $(SANITIZER_TOOLS); do echo "$$tool"; PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
		$(SANITIZER) --tool $$tool --num-cuda-barriers 8192 --error-exitcode 1 $(ARGS) $(PY) tests/sanitize.py $(LIBRARIES); \
	done

lab: build  ## open JupyterLab on the notebooks
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m jupyterlab notebooks $(ARGS)

format: $(READY)  ## bring notebooks and Python into their canonical form
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
	@$(PY) -m lab_utils.cli format

gallery: build  ## draw the README's pictures and write its tables again, from data/measured
	@$(PY) -m lab_utils.plots.gallery

clean:  ## remove .venv and caches; outputs/ stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
