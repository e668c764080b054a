# Two commands do everything, set-up included:  make demo  and  make test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Experiment trackers want other versions of packages that the tests use. In an environment of their
# own, whose packages come first, those of $(VENV) behind them, both have their way.
TRACKERS := .venv-trackers
TRACKERS_STAMP := $(TRACKERS)/.installed
JOBS ?= 2
# pip with the versions the tests are run with.
PIP := -m pip install --quiet -c .ci/constraints.txt
# One thread a test worker: several workers with several threads each get in each other's way.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

.PHONY: demo test test-all test-matrix test-chaos lint types format docs clean

demo: $(STAMP)
	@echo "Four models of 8x8 digits, gaussian and masked noise, each with two weightings, are trained"
	@echo "and measured alike: three to four minutes on two idle cores. Ctrl-C stops; make demo goes on."
	$(BIN)/elbowroom compare digits denoiser.channels=32 train.steps=250 train.log_every=10 train.evaluate_every=125 \
		sampler.steps=32 --vary process=gaussian,masked --vary weighting=elbo,sigmoid \
		--samples 500 --jobs $(JOBS) --out demo
	@echo
	@echo "Look at demo/report.html: samples of all four side by side, curves, what each figure means."
	@echo "Next: $(BIN)/elbowroom weighting edm --process masked --project   is it a bound? its repair"
	@echo "      $(BIN)/elbowroom train digits process=gaussian --out runs/mine   a longer run of one"
	@echo "      $(BIN)/elbowroom new-plugin my-weighting --kind weighting   a package of your own"

test: lint types
	$(TEST) -m "not slow"

test-all: $(STAMP) $(TRACKERS_STAMP)
	$(BIN)/python $(PIP) -e ".[dinov2,docs,hf,ray,release,submitit,text,trainers]"
	$(TEST) -m "slow or extra"
	OMP_NUM_THREADS=1 $(TRACKERS)/bin/python -m pytest -m extra tests/plugins/mlflow tests/plugins/wandb

# Oldest and newest dependencies; other Pythons: make test-matrix PYTHONS="3.10 3.13".
test-matrix:
	.ci/matrix $(PYTHONS)

# Random kills, damages, full disks and configs: see tests/chaos/__main__.py for its settings.
test-chaos: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/python tests/typecheck.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	$(BIN)/python docs/site/build.py

$(STAMP): pyproject.toml .ci/constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python $(PIP) -e ".[dev]"
	touch $(STAMP)

# The last line: tests of what cannot be imported would be skipped.
$(TRACKERS_STAMP): $(STAMP)
	rm -rf $(TRACKERS)
	$(BIN)/python -m venv --without-pip $(TRACKERS)
	$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
		> "$$($(TRACKERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/behind.pth"
	$(TRACKERS)/bin/python $(PIP) --no-build-isolation -e ".[mlflow,wandb]"
	$(TRACKERS)/bin/python -c "import mlflow, wandb"
	touch $(TRACKERS_STAMP)

clean:
	rm -rf $(VENV) $(TRACKERS) .venv-matrix demo build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
