# Two commands: `make run` shows what Pageyard does, `make test` tests it. Both do all their own set-up.

CARGO ?= cargo
NIGHTLY ?= nightly
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

.PHONY: run build lab test verify verify-here night build-tests build-loom build-shuttle test-recordings test-experiments test-shuttle test-loom test-stop \
	test-freestanding embed test-kernel test-bounds test-portable test-viewer test-pages test-python test-alerts notebook wheel install lint format static stress operations damaged executions races fuzz miri tsan doc deny semver publish-dry-run packages rehearse-release aarch64 pages book clean

# Builds the command and replays its built-in recording.
run: build
	./target/release/pageyard

build:
	$(CARGO) build --release -p pageyard-cli

# Builds the laboratory's command: benchmarks, experiments, the router, what-ifs, backtests, the judge.
lab:
	$(CARGO) build --release -p pageyard-lab

# Tests come in three tiers, by what they cost. `make test` finds a mistake quickly: every test of what is published, but those
# below. `make verify` adds the laboratory's, what needs a kernel's tracepoints, the model checkers, threads stopped at every step,
# experiments, a short storm, aarch64 in an emulator, instruction counts, the viewer in a browser, the book and every planted
# mistake. `make night` has no limit: guests that judge the reference, ten minutes of each storm on each protection, 10^9 random
# operations, damaged metadata, races, and fuzzing.
LOOM = RUSTFLAGS="--cfg pageyard_loom" $(CARGO) test -p pageyard -p pageyard-packets --release --test loom --target-dir target/loom
SHUTTLE = RUSTFLAGS="--cfg pageyard_shuttle" $(CARGO) test -p pageyard -p pageyard-packets --profile checked --test shuttle --target-dir target/shuttle
# Without what make says of its jobs, which the tests of documentation would otherwise look for in vain.
TEST = env -u MAKEFLAGS $(CARGO) test --profile checked
# Benchmarks, experiments and the laboratory's command: a sixth of the compiler's time, and the slowest tests of commands.
LABORATORY = pageyard-bench pageyard-lab
PRODUCT = $(TEST) --workspace $(LABORATORY:%=--exclude %)
# Tests of the second tier, by their names.
RECORDINGS = recording::
EXPERIMENTS = experiment_
# Of those, the ones that take a minute each: `make verify-here IGNORED=` leaves them out.
IGNORED ?= --include-ignored
test: build-tests
	$(PRODUCT) -- --skip $(RECORDINGS) --skip $(EXPERIMENTS)

# The parts of the second tier that need nothing but a toolchain, two at a time: what the checkers build is one crate after
# another, and tests of recordings mostly wait. What a part printed comes when it has ended.
# `make verify-here EXPERIMENT_TESTS= MODEL=` leaves the experiments and the model's largest spaces out, as CI does.
MODEL ?= --include-ignored
EXPERIMENT_TESTS ?= test-experiments
verify-here:
	$(MAKE) --jobs=3 build-tests build-loom build-shuttle
	$(MAKE) --jobs=2 --output-sync=target \
		test-recordings $(EXPERIMENT_TESTS) test-shuttle test-loom test-stop test-freestanding test-bounds test-portable

VERIFY_STRESS_SECONDS ?= 10
verify: test
	$(MAKE) test-laboratory
	$(MAKE) verify-here
	$(MAKE) test-viewer
	$(MAKE) embed
	$(MAKE) test-kernel
	$(MAKE) test-python notebook
	$(MAKE) book
	$(MAKE) stress STRESS_SECONDS=$(VERIFY_STRESS_SECONDS)
	$(MAKE) aarch64
	bench/instructions/run
	bench/mutants/run

night: verify
	$(MAKE) packages
	$(MAKE) test-alerts
	bench/linux/judge/run
	$(MAKE) stress
	$(MAKE) operations
	$(MAKE) damaged
	$(MAKE) executions
	$(MAKE) races
	$(MAKE) fuzz

build-tests:
	$(PRODUCT) --no-run

build-loom:
	$(LOOM) --no-run

build-shuttle:
	$(SHUTTLE) --no-run

test-laboratory:
	$(TEST) $(LABORATORY:%=-p %) -- --skip $(EXPERIMENTS)

test-experiments:
	$(TEST) --workspace --tests --quiet -- $(EXPERIMENTS) $(IGNORED)

test-recordings:
	$(PRODUCT) --tests --quiet -- $(RECORDINGS)

test-shuttle:
	$(SHUTTLE)

test-loom:
	$(LOOM)

# A thread stopped before every atomic step; each step one of the model's rules. `make verify` explores all of the model.
test-stop:
	$(CARGO) test --profile checked -p pageyard --features step-hook --test stop --test model -- $(MODEL)
	$(CARGO) test --profile checked -p pageyard --lib bias::model -- $(MODEL)

test-freestanding:
	$(CARGO) build --release --manifest-path crates/pageyard/examples/freestanding/Cargo.toml --target-dir target/freestanding
	./target/freestanding/release/pageyard-freestanding

# A kernel with Pageyard as its frame allocator: built for three processors, and booted in QEMU with two CPUs.
test-kernel:
	crates/pageyard/examples/kernel/run build
	crates/pageyard/examples/kernel/run

# The examples of programs that embed Pageyard, and those in C against the installed library, as its users compile them.
EMBED = $(CURDIR)/target/embed
C_EXAMPLES = crates/pageyard-capi/examples
embed:
	$(CARGO) run --quiet --release -p pageyard --features alloc --example hypervisor
	for example in balloon pipeline buffer_pool; do \
		$(CARGO) run --quiet --release -p pageyard-arena --features pools --example $$example || exit 1; \
	done
	$(CARGO) run --quiet --release -p pageyard-debug --example who-has-it
	$(MAKE) test-freestanding
	$(MAKE) install DESTDIR=$(EMBED)
	for example in forward ukalloc; do \
		$(CC) $(C_EXAMPLES)/$$example.c -o $(EMBED)/$$example -I$(EMBED)$(PREFIX)/include -L$(EMBED)$(PREFIX)/lib -lpageyard -lpthread && \
		LD_LIBRARY_PATH=$(EMBED)$(PREFIX)/lib $(EMBED)/$$example || exit 1; \
	done

# How deep calls reach down the stack and how large the engine's code is, against docs/design/bounds.md.
test-bounds:
	bench/bounds.py

# The oldest compiler and the other processors that are promised.
test-portable:
	bench/portable

# Every kind of call at once, with overflow checks and assertions, from more threads than CPUs: of the engine, of handles and
# of packet buffers, ten minutes of each under each protection of the per-CPU lists.
# `make stress STRESS_SECONDS=15` is shorter; `make stress STRESS="--of pools --percpu rseq --seed 7"` passes anything on.
STRESS_SECONDS ?= 600
stress:
	$(CARGO) build --profile checked --workspace --example stress
	$${CARGO_TARGET_DIR:-target}/checked/examples/stress --seconds $(STRESS_SECONDS) $(STRESS)

# A thousand million random operations of a seed of their own, judged by the naive model: every engine, and pairs of engines that have
# to agree. Less than an hour on two cores. `make operations OPERATIONS=1000000` makes fewer, `SEED=7` the same again.
OPERATIONS ?= 56000000
SEED ?= $(shell date +%s)
operations:
	PAGEYARD_OPS=$(OPERATIONS) PAGEYARD_SEED=$(SEED) $(TEST) -p pageyard -p pageyard-arena -p pageyard-linux \
		--test engine --test suite --test reference -- --nocapture random_operations both_engines_agree_wherever

# Ten million words of an engine's metadata damaged between calls, each of which has to end: three minutes.
damaged:
	PAGEYARD_DAMAGED=10000000 $(TEST) -p pageyard-arena --test damaged -- --nocapture

# Executions of the engine on three threads, in random schedules of single steps, each step judged by the model's rules.
EXECUTIONS ?= 3000
executions:
	PAGEYARD_EXECUTIONS=$(EXECUTIONS) $(CARGO) test --profile checked -p pageyard --features step-hook --test model -- --nocapture each_step

# The tests that depend on how threads meet, 300 times while the machine is busy: hours. `make races RUNS=5` is shorter; LOOPS=1
# keeps one busy loop instead of one for each CPU.
RUNS ?= 300
races:
	bench/races $(RUNS) $(LOOPS)

# The pages of experiments, opened in headless Chromium at three widths; screenshots stay in target/pages. An experiment without a
# document there is run with --quick first, minutes for all of them. `make pages PAGES="--measure zonelist"` runs one again.
pages:
	$(CARGO) build --release -p pageyard-lab -p pageyard-bench --bins --example pages
	bench/pages/run $(PAGES)

# The pages as a book with search, in target/book, and a check of its links. Installs mdbook where it is missing. A link to a source
# leads to this checkout; `make book REPOSITORY=https://host/project/blob/main` makes it lead there.
MDBOOK = 0.5.4
book:
	command -v mdbook >/dev/null || $(CARGO) install mdbook --version $(MDBOOK) --locked --no-default-features --features search
	REPOSITORY="$(REPOSITORY)" mdbook build docs
	bench/structure/book.py check target/book

lint:
	bench/mutants/run --check
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile checked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --profile checked -p pageyard --features step-hook --test stop -- -D warnings

format:
	$(CARGO) fmt --all

# A binary that needs nothing but a kernel: musl where its target is installed, else static glibc. `make static
# STATIC=pageyard-lab` makes the laboratory's.
STATIC ?= pageyard-cli
static:
	@if rustup target list --installed 2>/dev/null | grep -q x86_64-unknown-linux-musl && command -v musl-gcc >/dev/null; then \
		$(CARGO) build --release -p $(STATIC) --target x86_64-unknown-linux-musl; \
	else \
		RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release -p $(STATIC) --target x86_64-unknown-linux-gnu; \
	fi

# The engine under an interpreter that knows what undefined behaviour is; takes nightly with miri and rust-src.
miri:
	MIRIFLAGS="-Zmiri-strict-provenance" $(CARGO) +$(NIGHTLY) miri test -p pageyard -p pageyard-packets -p pageyard-sync --target-dir target/miri --lib
	MIRIFLAGS="-Zmiri-strict-provenance" $(CARGO) +$(NIGHTLY) miri test -p pageyard --target-dir target/miri --test engine -- threads::

# The engine in threads, with every unordered access reported; takes nightly with rust-src, to instrument std as well.
tsan:
	RUSTFLAGS="-Zsanitizer=thread" $(CARGO) +$(NIGHTLY) test -Zbuild-std --target-dir target/tsan \
		--target $$(rustc -vV | sed -n 's/^host: //p') -p pageyard --test engine -- threads::

# Ten minutes for each reader; takes nightly and cargo-fuzz.
fuzz:
	fuzz/run 600

# Every page of documentation, and no warning: links that lead nowhere, to private items or to two things, bare addresses. Once
# with private items, for those who read the sources, and last without, which is what stays in `target/doc`.
DOC = RUSTDOCFLAGS="-D warnings" $(CARGO) doc --profile checked --workspace --no-deps --keep-going
doc:
	$(DOC) --document-private-items
	$(DOC)

# Licences, sources and versions of everything that is linked, by the rules of deny.toml; takes cargo-deny. `make deny
# DENY="check advisories"` also asks for known weaknesses and fetches their list.
DENY ?= check bans licenses sources
deny:
	$(CARGO) deny --all-features $(DENY)

# Whether the libraries' public interfaces, all features on, broke since BASE (the last tag, or else the commit before) by more
# than the version says. While the version is the same, nothing that callers use may go or change. Takes cargo-semver-checks.
# `make semver BASE=v0.1.0 SEMVER="--package pageyard"` compares one crate.
BASE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1)
LAB = testkit judge bench documents lab structure
SEMVER ?= --workspace --exclude pageyard-cli --exclude pageyard-python $(LAB:%=--exclude pageyard-%)
semver:
	$(CARGO) semver-checks $(SEMVER) --baseline-rev $(BASE)

# Packs every crate that is published and builds each from its package alone, in order, uploading nothing.
# Cargo unpacks the packages into its home, and would use those of an earlier run of the same version.
publish-dry-run:
	rm -rf $${CARGO_HOME:-$$HOME/.cargo}/registry/src/-*/pageyard*-$(VERSION)
	$(CARGO) publish --workspace --dry-run --quiet

# Packages of the command for Debian and Red Hat's family, in target/packages; `packaging/build` says more.
packages:
	packaging/build target/packages --try

# A whole release, rehearsed on a clone of what is committed: packages, wheel, C library, changelog, tag. `bench/release --help`
# makes one.
rehearse-release:
	bench/release $(VERSION) --repository https://host/pageyard

# aarch64 under an emulator: all crates compiled, tests of core, engine and packets, a minute of the storm.
aarch64:
	bench/aarch64

# The C library: header, both libraries and the file for pkg-config. `make install DESTDIR=/tmp/root PREFIX=/usr`.
PREFIX ?= /usr/local
C_TO = $(DESTDIR)$(PREFIX)
install:
	$(CARGO) build --release -p pageyard-capi
	install -d $(C_TO)/include $(C_TO)/lib/pkgconfig
	install -m 644 crates/pageyard-capi/include/pageyard.h $(C_TO)/include/
	install -m 644 $${CARGO_TARGET_DIR:-target}/release/libpageyard_capi.a $(C_TO)/lib/libpageyard.a
	install -m 755 $${CARGO_TARGET_DIR:-target}/release/libpageyard_capi.so $(C_TO)/lib/libpageyard.so.$(VERSION)
	ln -sf libpageyard.so.$(VERSION) $(C_TO)/lib/libpageyard.so.0
	ln -sf libpageyard.so.0 $(C_TO)/lib/libpageyard.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' crates/pageyard-capi/pageyard.pc.in > $(C_TO)/lib/pkgconfig/pageyard.pc

# The Python package: its wheel, in target/wheels, and an environment of its own in which that wheel is installed and tested.
PYTHON ?= python3
VENV = target/python
PIP = --quiet --disable-pip-version-check
wheel:
	rm -rf target/wheels
	$(PYTHON) -m venv $(VENV)/build
	$(VENV)/build/bin/pip install $(PIP) 'maturin>=1.9,<2'
	$(VENV)/build/bin/maturin build --quiet --release --manifest-path crates/pageyard-python/Cargo.toml --out target/wheels

$(VENV)/clean: wheel
	$(PYTHON) -m venv --clear $@
	$@/bin/pip install $(PIP) "$$(echo target/wheels/pageyard-$(VERSION)-*.whl)[arrow,pandas,polars,dask]" duckdb

test-python: build $(VENV)/clean
	$(VENV)/clean/bin/python -W error -m unittest discover --start-directory crates/pageyard-python/tests
	$(VENV)/clean/bin/pip install $(PIP) mypy
	cd $(VENV) && clean/bin/mypy --strict --package pageyard

# Fires each alert that ships in a Prometheus of its own, on metrics that a watch of this host wrote (needs root and prometheus).
test-alerts: build
	target/release/pageyard watch -o target/alerts --no-picture --for 1 --metrics target/alerts.prom > /dev/null
	packaging/test-alerts target/alerts.prom

# Runs the notebook in the same environment. `make notebook SAVE=1` keeps its pictures in docs/notebooks.
NOTEBOOK = docs/notebooks/huge-pages.ipynb
notebook: $(VENV)/clean
	$(VENV)/clean/bin/pip install $(PIP) nbconvert ipykernel matplotlib
	$(VENV)/clean/bin/jupyter nbconvert --log-level ERROR --to notebook --execute --ExecutePreprocessor.record_timing=False $(NOTEBOOK) \
		$(if $(SAVE),--inplace,--output-dir $(CURDIR)/target/notebooks)

clean:
	$(CARGO) clean

# The viewer: that its page is what the sources build, and maps of all recordings and comparisons in a browser (needs npm and
# chromium). Screenshots of each stay in target/maps.
MAPS = target/maps
test-viewer: build test-pages

# The same with the command as it was built last.
test-pages:
	cd viewer && npm ci --silent --ignore-scripts && ./check
	viewer/maps $(MAPS)
	cd viewer && PAGEYARD_MAPS=$(CURDIR)/$(MAPS) npm test --silent
