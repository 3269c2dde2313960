# Two commands: `make run` shows what Pageyard does, `make test` proves it. Both do all their set-up.

CARGO ?= cargo

.PHONY: run build test lint format clean

# Builds the command and replays the recording that it carries.
run: build
	./target/release/pageyard

build:
	$(CARGO) build --release

test:
	$(CARGO) test --workspace

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

format:
	$(CARGO) fmt --all

clean:
	$(CARGO) clean
