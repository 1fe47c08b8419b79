# Two commands do everything, from git, make and some python3: `make demo` and `make test`.
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# none, camera_moved, cameras_swapped, camera_rotated, camera_channels, camera_dead, light, tray_moved, base_moved, joint_zero
FAULT ?= cameras_swapped
export HF_HUB_DISABLE_TELEMETRY = 1

.PHONY: demo test lint bench clean

$(STAMP): pyproject.toml discovery/pyproject.toml tools/make_venv.sh
	sh tools/make_venv.sh $(VENV)
	$(BIN)/python -m pip install --quiet --editable ./discovery --editable ".[sim,dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py --fault=$(FAULT) --output_dir=outputs/demo || test $$? -eq 1 # 1: a fault was found

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python benchmarks/open_loop.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
