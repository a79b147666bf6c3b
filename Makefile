# klamm from a fresh clone: `make demo`, `make test`. `make` alone lists all targets.
#
# Everything is built into .venv and target. scripts/prerequisites.sh names the programs that a machine needs besides.
# A full run compiles the crates three times: optimised for the extension, unoptimised for the tests, and without code for
# clippy and the documentation.

PYTHON ?= python3
# --locked: a build uses the versions that were tested. `make CARGO_FLAGS=` while changing dependencies.
CARGO_FLAGS ?= --locked

VENV := .venv
BIN := $(VENV)/bin
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find src -name '*.rs')

FREE_THREADED ?= python3.14t
FREE_THREADED_TESTS := tests/unit $(addprefix tests/broker/test_,threads.py producer.py producer_requests.py consumer.py groups.py \
	transactions.py async.py share.py fork.py commits.py reading_in_place.py hooks.py)

# Programs that only some targets need.
TOOLS := target/tools
FUZZ := $(TOOLS)/bin/cargo-fuzz
ABOUT := $(TOOLS)/bin/cargo-about
DENY := $(TOOLS)/bin/cargo-deny
RUNNER := $(TOOLS)/bin/gungraun-runner
# As klamm's own dev profile, so that crates are shared, and with any file for the fuzzer's C++, because nothing is linked.
FUZZ_CHECK := CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
	CUSTOM_LIBFUZZER_PATH='$(abspath tests/fuzz/Cargo.toml)'
SECONDS ?= 60
SEEDS ?= 5000
ROUNDS ?= 10
FEATURES := gzip snappy lz4 zstd tls broker arrow python registry
TARGETS ?= frame api_request api_response record_batch message_set compress legacy login dev_broker registry schema

# Paths of this machine, as panics and assertions would name them, become names that are the same on every machine.
CARGO_DIR := $(or $(CARGO_HOME),$(HOME)/.cargo)
RUST_DIR := $(shell rustc --print sysroot 2>/dev/null)
REMAPPED := CFLAGS='$(CFLAGS) -ffile-prefix-map=$(CARGO_DIR)=cargo -ffile-prefix-map=$(CURDIR)=.' \
	RUSTFLAGS='$(RUSTFLAGS) --remap-path-prefix=$(CARGO_DIR)=cargo --remap-path-prefix=$(CURDIR)=. \
	--remap-path-prefix=$(RUST_DIR)/lib/rustlib/src/rust=rust'
DEVELOP = env -u CONDA_PREFIX VIRTUAL_ENV='$(abspath $(VENV))' PIP_QUIET=1 $(BIN)/maturin develop $(CARGO_FLAGS)
# A wheel for each target that rustup has installed. zig links those that are not this machine's, and finds the oldest glibc.
WHEELS ?= $(filter x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl \
	x86_64-pc-windows-gnu,$(shell rustup target list --installed 2>/dev/null))

# Files of tests at a time: more than cores, because tests of brokers mostly wait. A process that dies is not replaced: pytest-xdist
# 3.8 would wait for it and never report.
WORKERS = 4
PYTEST_FLAGS = -n $(WORKERS) --dist loadfile --max-worker-restart 0
# What differs from the newest PySpark is how Spark calls a source and a sink, and what it shows.
# The oldest Spark that klamm works with.
OLD_SPARK ?= 4.0
OLD_SPARK_TESTS := $(patsubst %,tests/spark/test_%.py,batch_read stream write exactly_once secrets registration)

# One interpreter for every build of pyo3; it is compiled anew whenever this changes.
export PYO3_PYTHON := $(abspath $(BIN)/python)
# Containers often set this; each command that a test starts would then compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# Two compilers, Spark or two brokers at a time are more than a small machine has memory for.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build develop demo test test-fast test-nightly test-rust test-python \
	wheels licences check-licences docs test-docs \
	check check-format check-prose check-loops check-clippy check-features check-python check-docs fmt \
	fuzz soak test-schemas test-matrix test-old-spark test-free-threaded soak-spark bench-peers bench-spark bench-broker bench-codec bench-registry dev-broker clean needs-build needs-rust needs-everything

help: ## this list
	@echo 'make <target>'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'PYTHON=/path/to/python3 chooses the interpreter that .venv is made with.'

demo: needs-everything build ## the main job, end to end; BOOTSTRAP=host:port takes a real cluster, INPUT=path (or -) other text
	@exec $(BIN)/klamm demo $${BOOTSTRAP:+--bootstrap "$$BOOTSTRAP"} $${INPUT:+--input "$$INPUT"}

build: needs-build $(VENV)/.built ## the extension, optimised, into .venv

develop: needs-build $(VENV)/.developed ## the extension, unoptimised, into .venv: a changed line is importable in seconds

test: needs-everything test-rust test-python ## the tests, against the dev broker, Apache Kafka and Spark

test-fast: WORKERS = 6
test-fast: needs-build test-rust develop ## the tests that need no Java: Rust, unit, and brokers against the dev broker
	@echo '==> Python tests, fast lane'
	@$(BIN)/pytest --lane fast $(PYTEST_FLAGS) tests/unit tests/docs tests/broker tests/legacy

test-nightly: export KLAMM_SOAK_SECONDS ?= 600
test-nightly: needs-everything build ## the rare tests: other orders, seeds and releases, the oldest PySpark, faults for longer, fuzzing
	@$(BIN)/pytest --lane nightly $(PYTEST_FLAGS)
	@$(BIN)/pytest -q -o faulthandler_timeout=$$(($(KLAMM_SOAK_SECONDS) + 900)) --lane all tests/soak/test_soak.py tests/soak/test_soak_responses.py
	@$(MAKE) test-old-spark ARGS='$(OLD_SPARK_TESTS)'
	@$(MAKE) fuzz SECONDS=20

test-rust: needs-rust ## the Rust tests: all but what needs Python
	@echo '==> Rust tests'
	@cargo test $(CARGO_FLAGS) --features registry

test-python: needs-everything build target/connect/.installed ## the Python tests, four files at a time; ARGS= goes to pytest instead
	@echo '==> Python tests'
	@$(BIN)/pytest $(or $(ARGS),$(PYTEST_FLAGS))

test-old-spark: needs-everything build target/spark-$(OLD_SPARK)/.installed ## the Spark tests with an older PySpark, OLD_SPARK=4.0 or 4.1; ARGS= goes to pytest
	@echo '==> Spark tests, PySpark $(OLD_SPARK)'
	@target/spark-$(OLD_SPARK)/bin/python -m pytest -W ignore::pytest.PytestUnraisableExceptionWarning $(or $(ARGS),--lane all tests/spark)

test-free-threaded: needs-everything target/free-threaded/.installed ## clients and their threads on a free-threaded CPython from 3.14 on, FREE_THREADED=python3.14t; ARGS= goes to pytest
	@echo '==> tests, $(FREE_THREADED)'
	@target/free-threaded/bin/python -m pytest $(or $(ARGS),$(FREE_THREADED_TESTS))

check: check-format check-prose check-loops check-clippy check-features check-python check-docs ## formatting, prose, lints, types, stubs, docs

check-format: $(VENV)/.installed
	@echo '==> rustfmt and ruff format'
	@cargo fmt --check
	@for package in benches/codec benches/registry/arrow_avro tests/fuzz; do cargo fmt --check --manifest-path $$package/Cargo.toml || exit 1; done
	@$(BIN)/ruff format --check

check-prose:
	@echo '==> prose: long sentences and vague words'
	@$(PYTHON) scripts/check_prose.py

check-loops:
	@echo '==> import loops'
	@$(PYTHON) scripts/import_loops.py --max 7
	@$(PYTHON) scripts/import_loops.py --wide --max 148

check-clippy: needs-build $(VENV)/.installed
	@echo '==> clippy, without the dev broker, with it, and with the Python module'
	@cargo clippy $(CARGO_FLAGS) -- -D warnings
	@cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	@cargo clippy $(CARGO_FLAGS) --all-targets --features python -- -D warnings
	@echo '==> clippy, what the codec bench shares and the fuzz targets'
	@cargo clippy $(CARGO_FLAGS) --manifest-path benches/codec/Cargo.toml --target-dir target --all-targets -- -D warnings
	@$(FUZZ_CHECK) cargo clippy $(CARGO_FLAGS) --manifest-path tests/fuzz/Cargo.toml --target-dir target -- -D warnings

check-features: needs-build ## each feature of the crate alone compiles
	@for feature in $(FEATURES); do \
		echo "==> clippy, feature $$feature alone"; \
		cargo clippy $(CARGO_FLAGS) -q --no-default-features --features "$$feature" -- -D warnings || exit 1; \
	done

check-python: build
	@echo '==> ruff, mypy, and the stub of the extension against the extension'
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/stubtest klamm._klamm --mypy-config-file pyproject.toml

check-docs: needs-build $(VENV)/.installed
	@echo '==> cargo doc'
	@RUSTDOCFLAGS='-D warnings' cargo doc $(CARGO_FLAGS) --no-deps --features python

fmt: $(VENV)/.installed ## format, and fix what can be fixed
	@cargo fmt
	@for package in benches/codec benches/registry/arrow_avro tests/fuzz; do cargo fmt --manifest-path $$package/Cargo.toml || exit 1; done
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

fuzz: needs-rust $(FUZZ) ## each fuzz target for SECONDS=60; TARGETS= names some of them
	@$(PYTHON) tests/fuzz/seed.py target/fuzz/seeds
	@for target in $(TARGETS); do \
		echo "==> fuzz $$target for $(SECONDS) seconds"; mkdir -p target/fuzz/corpus/$$target; \
		PATH="$(abspath $(TOOLS)/bin):$$PATH" cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none --debug-assertions \
			--target-dir target/fuzz $$target target/fuzz/corpus/$$target target/fuzz/seeds/$$target -- \
			-max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 || exit 1; \
	done

# Two builds of one commit are identical: the time in the archives is that of the commit.
wheels: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
wheels: needs-build target/wheels/.installed ## the sdist, and a wheel for each of WHEELS=, into dist; then checks them
	@rm -rf dist
	@$(BIN)/maturin sdist --out dist
	@for target in $(WHEELS); do \
		echo "==> wheel for $$target"; \
		case $$target in *-linux-*) zig=--zig;; *) zig=;; esac; \
		env -u PYO3_PYTHON $(REMAPPED) PATH="$(abspath target/wheels/bin):$$PATH" PYO3_CROSS_PYTHON_VERSION=3.10 \
			$(BIN)/maturin build --profile extension $(CARGO_FLAGS) --target $$target $$zig --out dist || exit 1; \
	done
	@target/wheels/bin/python scripts/remap_wheels.py dist
	@target/wheels/bin/python scripts/check_wheels.py dist

target/wheels/.installed: pyproject.toml $(VENV)/.installed
	@echo '==> what builds and checks wheels, into $(@D)'
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1' </dev/null
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check --group wheels </dev/null
	@touch $@

licences: needs-rust $(ABOUT) ## THIRD-PARTY-LICENSES.txt, the licences of all crates in the extension
	@$(ABOUT) generate --locked --offline --features python about.hbs -o THIRD-PARTY-LICENSES.txt

check-licences: needs-rust $(ABOUT) $(DENY) ## licences and sources of crates, known vulnerabilities, and THIRD-PARTY-LICENSES.txt
	@$(DENY) check
	@$(ABOUT) generate --locked --offline --features python about.hbs -o target/licences.txt
	@diff -q target/licences.txt THIRD-PARTY-LICENSES.txt || { echo 'run make licences'; exit 1; }

docs: develop target/docs/.installed ## the documentation site, into target/site; warnings and broken links are errors
	@target/docs/bin/zensical build --strict --clean >target/docs/build.log 2>&1; code=$$?; cat target/docs/build.log; \
	[ $$code = 0 ] && ! grep '^griffe: ' target/docs/build.log # --strict does not count what griffe says of docstrings

test-docs: develop target/docs/.installed ## the programs of the documentation, and two type checkers on them
	@PYTEST_PLUGINS=klamm.testing target/docs/bin/python -m pytest tests/docs $(ARGS) # the fixture, since klamm is not installed there

target/docs/.installed: pyproject.toml $(VENV)/.installed
	@echo '==> what builds the documentation and runs its programs, into $(@D)'
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1' </dev/null
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check --group docs 'pyarrow>=18' 'pydantic>=2.10' 'mypy>=2.4,<3' \
		'pytest>=9,<10' 'pytest-timeout>=2.4,<3' 'httpx2>=2.16' 'protobuf>=5.29' 'jsonschema>=4.23' \
		'botocore>=1.31' 'opentelemetry-sdk>=1.30,<2' 'prometheus-client>=0.20,<1' </dev/null
	@echo '$(abspath python)' >"$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/klamm.pth"
	@touch $@

soak: export KLAMM_SOAK_SECONDS ?= 3600
soak: export KLAMM_PREFETCH_MB ?= 1000
soak: needs-everything build ## long runs: KLAMM_SOAK_SECONDS=3600 of faults, SEEDS=5000 simulated scenarios of each kind, ROUNDS=10 of the tests in which nodes die
	@$(BIN)/pytest -q -o faulthandler_timeout=$$(($(KLAMM_SOAK_SECONDS) + 900)) --lane all tests/soak
	@KLAMM_SIM_SEEDS=$(SEEDS) cargo test $(CARGO_FLAGS) --release --features arrow --test klamm sim
	@for round in $$(seq $(ROUNDS)); do $(BIN)/pytest -q --lane all tests/broker/test_cluster.py tests/broker/test_exactly_once.py || exit 1; done

test-matrix: needs-everything build ## one program against every release of Kafka from 0.8.0 to 4.4.0; writes docs/compatibility.md
	@KLAMM_RELEASES=all KLAMM_COMPATIBILITY=docs/compatibility.md $(BIN)/pytest -q --lane all tests/matrix $(ARGS)

# Apart from .venv: with pandas come threads and memory that Spark's workers and the benches would have to carry. The bound of
# dateutil is botocore's, which pip looks at as well.
target/connect/.installed: $(VENV)/.installed
	@echo '==> what a client of Spark Connect needs, into $(@D)'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade --target $(@D) 'pandas>=2.2' 'grpcio>=1.76' \
		'grpcio-status>=1.76' 'googleapis-common-protos>=1.71' 'zstandard>=0.25' 'python-dateutil<3' </dev/null
	@touch $@

soak-spark: SEEDS = 100
soak-spark: needs-everything build ## Spark's driver, executors and nodes of Kafka die in SEEDS=100 runs
	@KLAMM_SPARK_SEEDS=$(SEEDS) $(BIN)/pytest -q -n 3 --max-worker-restart 0 --lane all tests/spark/test_killed_driver.py tests/spark/test_killed_executor.py \
		tests/spark/test_killed_node.py tests/spark/test_pipeline.py tests/spark/test_archives.py

bench-peers: needs-everything build ## klamm beside other clients, against Apache Kafka; ARGS= goes to benches/peers/run.py
	@$(BIN)/python benches/peers/run.py $(ARGS)

bench-spark: needs-everything build ## klamm's Spark source and sink beside Spark's own connector; ARGS= goes to benches/spark/run.py
	@$(BIN)/python benches/spark/run.py $(ARGS)

bench-broker: needs-everything build ## the dev broker beside Apache Kafka; ARGS= goes to benches/broker/run.py
	@$(BIN)/python benches/broker/run.py $(ARGS)

bench-registry: needs-everything build ## typed columns and deserializers beside confluent-kafka and spark-avro; ARGS= goes to benches/registry/run.py
	@$(BIN)/python benches/registry/run.py $(ARGS)

test-schemas: needs-everything build ## real .proto files of KLAMM_PROTOS and .avsc files of KLAMM_AVSC, compared with other parsers; see tests/schemas
	@$(BIN)/python tests/schemas/protos.py
	@$(BIN)/python tests/schemas/avsc.py

bench-codec: needs-rust build $(RUNNER) ## the codec beside other codecs: time, records in Python, instructions, size; ARGS= goes to benches/codec/run.py
	@PATH="$(abspath $(TOOLS)/bin):$$PATH" $(PYTHON) benches/codec/run.py $(ARGS)

dev-broker: build ## the embedded broker on a port, until Ctrl+C; ARGS= goes to `klamm dev-broker`
	@exec $(BIN)/klamm dev-broker $(ARGS)

clean: ## everything that was built (not the downloads in the user's cache)
	rm -rf $(VENV) target dist
	find python -name '*.so' -delete

needs-everything:
	@PYTHON='$(PYTHON)' scripts/prerequisites.sh

needs-build:
	@PYTHON='$(PYTHON)' scripts/prerequisites.sh python cargo cc

needs-rust:
	@scripts/prerequisites.sh cargo cc

# The runner must be of the version that benches/codec/Cargo.toml names.
$(FUZZ) $(RUNNER) $(ABOUT) $(DENY):
	@echo '==> $(@F), into $(TOOLS)'
	@cargo install -q --locked --root $(TOOLS) $(TOOL_$(@F))

TOOL_cargo-fuzz := cargo-fuzz@0.13.2
TOOL_gungraun-runner := gungraun-runner@0.20.0
TOOL_cargo-about := cargo-about@0.9.3 --features cli
TOOL_cargo-deny := cargo-deny@0.20.2

# pip before 25.1 has no --group. On a terminal pip shows its progress, elsewhere only what goes wrong.
$(VENV)/.created: pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1' 'maturin>=1.10,<2' </dev/null
	@touch $@

$(VENV)/.installed: $(VENV)/.created
	@echo '==> Python packages for demo, tests and checks, into $(VENV) (about 700 MB, most of it Spark)'
	@quiet=-q; [ ! -t 1 ] || quiet=; \
	$(BIN)/python -m pip install $$quiet --disable-pip-version-check --group dev </dev/null
	@touch $@

# Old releases of PySpark leave sockets to the garbage collector. Such warnings would be failures in the tests of klamm.
target/spark-$(OLD_SPARK)/.installed:
	@echo '==> PySpark $(OLD_SPARK), into $(@D)'
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check 'pyspark==$(OLD_SPARK).*' 'pyarrow>=18,<20' 'confluent-kafka>=2.10,<3' \
		'pytest>=9,<10' 'pytest-timeout>=2.4,<3' </dev/null
	@echo '$(abspath python)' >"$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/klamm.pth"
	@touch $@

# Built as pip does it for a user: the stable ABI is not there.
target/free-threaded/.installed: $(SOURCES)
	@echo '==> klamm for $(FREE_THREADED), into $(@D)'
	@$(FREE_THREADED) -m venv $(@D)
	@env -u PYO3_PYTHON $(@D)/bin/python -m pip install -q --disable-pip-version-check '.[arrow]' 'pytest>=9,<10' 'pytest-timeout>=2.4,<3' </dev/null
	@touch $@

# cargo compiles while pip installs.
$(VENV)/.built: $(VENV)/.created $(SOURCES)
	@$(MAKE) -s --no-print-directory $(VENV)/.installed & pip=$$!; \
	echo '==> the extension module (cargo, release)'; \
	$(REMAPPED) $(DEVELOP) --profile extension --skip-install </dev/null || { wait; exit 1; }; \
	wait $$pip && $(REMAPPED) $(DEVELOP) --profile extension </dev/null
	@rm -f $(VENV)/.developed
	@touch $@

# One of the two is in place at a time, so each removes the other's mark.
$(VENV)/.developed: $(VENV)/.installed $(SOURCES)
	@echo '==> the extension module (cargo, dev)'
	@$(DEVELOP) --profile dev </dev/null
	@rm -f $(VENV)/.built
	@touch $@
