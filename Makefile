# Two commands: `make run` shows what Pageyard does, `make test` proves it. Both do all their set-up.

CARGO ?= cargo

.PHONY: run build test lint format clean

# Builds the command and replays the recording that it carries.
run: build
	./target/release/pageyard

build:
	$(CARGO) build --release

# The model checker and the freestanding example build with settings of their own, and so in folders of their own.
test:
	$(CARGO) test --workspace
	$(CARGO) test -p pageyard --features step-hook --test engine_stop
	RUSTFLAGS="--cfg loom" $(CARGO) test -p pageyard --release --test loom_engine --target-dir target/loom
	$(CARGO) build --release --manifest-path crates/pageyard/examples/freestanding/Cargo.toml --target-dir target/freestanding
	./target/freestanding/release/freestanding

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

format:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean
