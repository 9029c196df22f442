# What to do with a checkout; `make help` lists it.

SHELL := /bin/bash
FUZZ_SECONDS ?= 60
export CARGO_TERM_COLOR ?= auto

.DEFAULT_GOAL := help
.PHONY: help build install uninstall deb release demo test test-guest setup style lint units doctests \
	least-rust licences bench fuzz clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the program: target/release/gemelo
	@scripts/setup.sh build
	cargo build --release --locked --package gemelo

# PREFIX (/usr/local), DESTDIR and BINARY are variables of the script. Nothing is built here, so that
# root installs what a user has built.
install: ## Install what `make build` made: PREFIX=/usr/local, DESTDIR=
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" BINARY="$(BINARY)" scripts/install.sh install

uninstall: ## Remove what `make install` installed; pools stay
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh uninstall

deb: build ## Build a Debian package in target/debian
	@scripts/deb.sh

release: ## Make the artefacts of a release in target/release-VERSION, from what is committed
	@scripts/setup.sh release
	cargo fetch --locked
	@scripts/release.sh

demo: build ## Scan real data, run load with its distribution, scan what was written, compare
	scripts/demo.sh

test: setup style ## Everything that CI checks
	@scripts/test.sh

test-guest: ## Boot a Debian by QEMU and use the package there as an administrator would: as root, two hours
	cargo build --locked --package gemelo
	tests/guest/run.sh

setup: ## Install, or name, the packages that the tests need
	@scripts/setup.sh

style:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- -D warnings

# nextest runs test binaries side by side and stops what hangs; plain cargo does without.
units:
	@set -e; if cargo nextest --version >/dev/null 2>&1; then set -x; \
		cargo nextest run --workspace --locked --no-fail-fast; \
	else set -x; \
		cargo test --workspace --lib --bins --tests --locked --no-fail-fast; \
	fi

# nextest does not know documentation tests.
doctests:
	cargo test --workspace --doc --locked --quiet

least-rust: ## Check that the oldest compiler that Cargo.toml promises builds the program
	@scripts/least-rust.sh

licences:
	@scripts/check-licences.sh

bench: build ## Run the benchmarks; each prints ours and the peer's figure
	@set -e; for script in benches/*.sh; do echo "== $$script"; "$$script"; done

fuzz: ## Fuzz every parser for FUZZ_SECONDS (60) each; needs cargo-fuzz and a nightly toolchain
	@cargo fuzz --version >/dev/null 2>&1 || { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1; }
	@set -e; for target in $$(cargo +nightly fuzz list); do \
		echo "== $$target"; \
		cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS); \
	done

clean: ## Remove what was built
	cargo clean
