# Everything that is done with this repository, by one word each. `make` alone lists the words.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help system system-run install run test test-times rooms coverage clients check check-js docs lock nox wheel release weights-changed clean

STAMP := .venv/.installed
# Less is needed for running: neither browsers nor sound servers, and no tools.
RUNS := .venv/.runs
PY := .venv/bin/python
RECORDING ?= audio_samples/talk.flac
# A file stays in one process, where it shares its servers; the longest files are the first (tests/file_order.py). How
# many processes there are is in tests/conftest.py.
IN_PARALLEL := --numprocesses auto --dist loadfile --no-loadscope-reorder
# The tests start hundreds of Pythons. Each would compile this project anew if it might not keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE
TYPESCRIPT := typescript@5.9.3
# A dead link, a dead anchor or a page without a place in the navigation ends it. The variable silences an advertisement.
DOCS := NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

## make run      watch the words of a recording appear, through a real Triton server (RECORDING=file MODEL=folder);
##               says what it installs (0.85 GB, once), and that is only what running needs
## make test     all tests (ARGS=tests/wire chooses some); installs what they need besides
## make test-times  writes how long the last `make test` took for each file into the order of a fresh clone
## make rooms    the tests of each room with the packages of its part alone
## make coverage  which parts of streamer/ the tests run, by room (ARGS=tests/wire chooses some)
## make clients  original clients of other services against this one (needs the network, once)
## make check    lint, format, types, messages of commits, and the documentation
## make check-js  types of the JavaScript, from its JSDoc (needs Node.js 20 and the network)
## make docs     the documentation as a site, into site/
## make nox      all tests under each supported Python that is at hand
## make weights-changed  all that new weights need (FROM=RUN/averaged WORK=… SPEECH=… TO=…; docs/how-to/training.md)
## make wheel    the installable package, into dist/
## make release  the wheel, the source archive and their checksums, into dist/; checks the recipes of the images
## make lock     requirements.lock for what pyproject.toml asks for (ARGS=--upgrade takes the newest)
## make install  .venv with everything in it (6 GB, once; PYTHON=python3.12 chooses the interpreter)
## make system   packages of Debian or Ubuntu that are still missing, also those of the tests
## make clean    removes what was built, .venv too
help:
	@sed -n 's/^## //p' Makefile

system:
	@scripts/system_packages test

system-run:
	@scripts/system_packages run

# Makes .venv unless there is one that works.
define VENV
@if ! $(PY) -c '' 2>/dev/null; then \
	python=$$(scripts/find_python) && echo "Making .venv with $$python" && "$$python" -m venv --clear .venv; \
fi
endef
# Else the first start would take ten seconds more.
LOOPS := $(PY) -m streamer.engine.compile asr_repo/streaming_asr/1
PIP := $(PY) -m pip install --disable-pip-version-check --constraint requirements.lock

install: $(STAMP)

$(STAMP): pyproject.toml requirements.lock | system
	$(VENV)
	$(PIP) --editable '.[dev]'
	$(LOOPS)
	@touch $(RUNS) $@

$(RUNS): pyproject.toml requirements.lock | system-run
	@echo "Installing what running needs into .venv: the Triton server, onnxruntime, numba and their libraries, and a reader."
	@echo "That is about 0.85 GB, once, and nothing outside this folder. Ctrl-C ends it; make run goes on another time."
	$(VENV)
	$(PIP) --editable '.[embedded,reader]'
	$(LOOPS)
	@touch $@

run: $(RUNS)
	$(PY) -m streamer --server embedded --paced $(if $(MODEL),--model "$(MODEL)") "$(RECORDING)"

# A test that fails is run once more, alone, as the tests of CPython are. A fault fails again. What fails only beside
# other tests is a fault of the test to mend: the last lines name it, each as `flaky: TEST`, for CI to collect.
test: $(STAMP)
	$(PY) -m pytest $(IN_PARALLEL) $(ARGS) || { \
		[ $$? -eq 1 ] && echo "Once more, alone:" && \
		$(PY) -m pytest --last-failed --last-failed-no-failures none --tell-flaky $(ARGS); \
	}

test-times: $(STAMP)
	$(PY) -m tests.file_order

rooms: $(STAMP)
	$(PY) -m nox --session rooms -- $(ARGS)

# Slower than the tests alone: they are followed line by line, in all processes that they start. The table comes even if
# a test fails, and then the target fails after it.
coverage: $(STAMP)
	mkdir -p build && rm -f build/coverage*
	$(PY) -m coverage run -m pytest $(IN_PARALLEL) $(ARGS); status=$$?; \
	$(PY) -m coverage combine --quiet && \
	$(PY) -m coverage json --quiet -o build/coverage.json && \
	$(PY) scripts/measure/coverage_by_room.py build/coverage.json && exit $$status

CLIENTS := build/clients
CLIENTS_IN_JAVASCRIPT := @deepgram/sdk@5.13.0 @soniox/node@2.3.0 @speechmatics/real-time-client@8.5.1 \
	microsoft-cognitiveservices-speech-sdk@1.52.0 openai@6.49.0 ws@8.21.0
clients: $(STAMP) $(CLIENTS)/.installed
	$(CLIENTS)/bin/python -m pip freeze
	if command -v npm >/dev/null; then npm ls --prefix $(CLIENTS); fi
	STREAMER_CLIENTS=$(CLIENTS) $(PY) -m pytest tests/clients $(ARGS)

$(CLIENTS)/.installed: tests/clients/requirements.txt tests/clients/requirements-alone.txt
	$(PY) -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --requirement tests/clients/requirements.txt
	$(CLIENTS)/bin/python -m pip install --disable-pip-version-check --no-deps --requirement tests/clients/requirements-alone.txt
	if command -v npm >/dev/null; then npm install --silent --prefix $(CLIENTS) $(CLIENTS_IN_JAVASCRIPT); fi
	@touch $@

check: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) scripts/check_commits.py
	$(DOCS)

check-js:
	npx --yes --package $(TYPESCRIPT) -- tsc --project jsconfig.json
	npx --yes --package $(TYPESCRIPT) -- tsc --project tests/web/page.jsconfig.json

docs: $(STAMP)
	$(DOCS)
	@echo "The site begins at site/index.html"

lock: $(STAMP)
	$(PY) -m uv pip compile --quiet --universal --python-version 3.10 --all-extras --no-annotate \
		--custom-compile-command 'make lock' --output-file requirements.lock $(ARGS) pyproject.toml

nox: $(STAMP)
	$(PY) -m nox

wheel: $(STAMP)
	$(PY) -m build --wheel --no-isolation

# The wheel is built from the source archive, which so proves to be whole.
DIST := dist
release: $(STAMP)
	rm -f $(DIST)/streamer_asr-* $(DIST)/SHA256SUMS
	$(PY) -m build --no-isolation --outdir $(DIST)
	cd $(DIST) && sha256sum streamer_asr-* > SHA256SUMS && sha256sum --check SHA256SUMS
	$(PY) -m pytest -q -p no:xdist tests/deploy/test_images.py \
		-k "recipes or image_of_the_models or context or scripts_are_programs"
	@echo "$(DIST) has the release. The recipes of the images are checked, but no image is built: that needs their base"
	@echo "images from a registry. docs/how-to/release.md says how to build and publish them."

weights-changed: $(STAMP)
	$(PY) scripts/train/weights_changed.py $(if $(FROM),--from "$(FROM)") --work "$(WORK)" --speech "$(SPEECH)" --to "$(TO)" \
		$(if $(TEXT),--text "$(TEXT)") $(if $(HELDOUT),--heldout "$(HELDOUT)")

clean:
	rm -rf .venv .nox dist build site .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
