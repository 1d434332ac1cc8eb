# Everything runs in its own virtual environment; `make demo` and `make test` need nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all sanitize faults fuzz soak check fmt paper rows clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e ".[dev]"
	touch $@

demo: $(READY)  ## train TaMatch on the embedded digits and open the report's path
	$(BIN)/tamatch train --out runs/demo --overwrite

check: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check  ## everything that fits in ten minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow and not gpu" -n 2

test-all: check  ## the long versions too, under an hour
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not gpu" -n 2

# Each tensor is an allocation of its own, or what lies beside it in torch's pool would be no error.
SANITIZER := PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer \
	--report-api-errors no --target-processes all
# racecheck reports races inside cuDNN's and cuBLAS's kernels, too, and fails with an internal error
# when it is told to pass over these: of its report, the lines on our kernels count.
OURS := _render|_sum_statistics|_both_sums|_normalise|_sum_gradients|_spread_gradients
OURS := $(OURS)|_weight_gradient|_convolve|_widen|_attend|_attend_backward
OURS := $(OURS)|forward|backward|weight_gradient|add_up
sanitize: $(READY)  ## on a GPU: the kernels' memory accesses, and races in what they share
	$(SANITIZER) --tool memcheck --error-exitcode 1 $(BIN)/python -m pytest tests/gpu/test_sides.py -m gpu
	$(SANITIZER) --tool racecheck --log-file races.log \
		$(BIN)/python -m pytest tests/gpu/test_sides.py -m gpu -k "17 or 32"
	! grep -E "access at ($(OURS))\+0x" races.log

faults: $(READY)  ## kills, full disks, damage and NaN, hundreds of times; under 45 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults tests/runs/test_resume.py \
		tests/storage/test_checkpoint.py -m "not gpu" -n 2 -p tests.faults.table

soak: $(READY)  ## half an hour of training steps: memory and open files stay flat
	$(BIN)/python -m tests.soak.soak 30

FUZZ_MINUTES ?= 10
fuzz: $(READY)  ## random configuration, command lines, tables, images, run folders
	OMP_NUM_THREADS=1 $(BIN)/python -W error -m tests.faults.fuzz $(FUZZ_MINUTES)

paper: $(READY)  ## docs/reproduction.md and its figures, from results/
	$(BIN)/python -m paper report --figures

rows: $(READY)  ## table, docs and golden files of methods that are not there yet
	$(BIN)/python -m tests.rows

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
