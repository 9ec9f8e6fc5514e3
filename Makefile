# The entry for people: `make` lists what there is. Building itself is cargo's.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

SERVER ?= mariadb
PREFIX ?= /usr/local
DIST = fsynctop-$(if $(filter arm64,$(ARCH)),aarch64,$(firstword $(subst -, ,$(HOST))))
TRACEFS := /sys/kernel/tracing
# Where cargo puts what it builds. What the tools keep for themselves is in target/ whatever that says.
BUILT := $(or $(CARGO_TARGET_DIR),target)
# Tests that attach to the kernel need root; cargo itself does not.
HOST = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
HOST_VARIABLE = $(shell echo $(HOST) | tr 'a-z-' 'A-Z_')
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help deps build lint advisories test tracefs servers kernels soak bench alerts power-failure jvm-engines parquet pictures demo investigation dist packages packages-check \
  image image-check release-check install uninstall clean
.DEFAULT_GOAL := help

help: ## this list
	@echo "fsynctop: which files a database server syncs, how often and how long"
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

deps: ## install what building and testing need and this machine lacks (apt)
	@tools/dependencies

build: deps ## the toolkit, optimised: target/release/fsynctop; and its man pages and completions, in target/pages
	cargo build --release --locked --package fsynctop --package pages
	@$(BUILT)/release/pages $(BUILT)/pages

lint: deps ## formatting, clippy, and the crates that are built in (deny.toml); warnings are errors
	cargo fmt --all --check
	@tools/comment-width
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@tools/dependencies cargo-deny
	cargo deny --locked check --deny warnings --hide-inclusion-graph licenses bans sources

# Its database comes from elsewhere than the crates: not in `lint`, which needs no more network than building does. ADVISORY_DB names a
# clone of it that was carried to where it cannot be fetched (docs/advisories.md).
ifdef ADVISORY_DB
advisories: export GIT_CONFIG_COUNT := 1
advisories: export GIT_CONFIG_KEY_0 := url.$(abspath $(ADVISORY_DB)).insteadOf
advisories: export GIT_CONFIG_VALUE_0 := https://github.com/RustSec/advisory-db
endif
advisories: deps ## known vulnerabilities of the crates that are built in, by the database of RustSec
	@tools/dependencies cargo-deny
	@status=0; cargo deny --locked check advisories || status=$$?; \
	for database in "$${CARGO_HOME:-$$HOME/.cargo}"/advisory-dbs/advisory-db-*/.git; do \
	  [ ! -e "$$database" ] || git --git-dir="$$database" log -1 --format='The database is of %cs.'; done; \
	exit $$status

test: deps tracefs ## every kind of test, those that need root and a kernel included; of the kernels three or four, in brief
	@tools/dependencies cargo-deb
	@mkdir -p target && rm -f target/test-times
	@tools/test-times part target/test-times "lint" $(MAKE) --no-print-directory lint
	@SUDO='$(SUDO)' tools/run-tests

# The files of tests that hold for each kind of server (on_each). Not part of `test`: npm, which fetches this one, takes two minutes to
# install and is of no other use here.
SERVER_TESTS := beside::servers beside::verify:: beside::server_status beside::real_servers beside::server_lives beside::server_places \
  beside::exporter_counts alone::factors
servers: export FSYNCTOP_SERVERS := mysql@5.6
servers: deps tracefs ## the tests of real servers on an old one, MySQL 5.6, instead of those of today; npm fetches it
	@tools/dependencies servers
	cargo build --workspace --locked
	$(if $(SUDO),CARGO_TARGET_$(HOST_VARIABLE)_RUNNER='sudo -E') cargo test --workspace --locked --no-fail-fast --test root \
	  -- --include-ignored $(SERVER_TESTS)

# On x86-64: one binary is made by this machine's compiler, the one for arm64 by tools/arm64.
# What is tested is that it works there, not how fast: a quick build will do, for two guests the quickest, and with
# QUICK=1 what the tests have just built.
# The guest of arm64 is emulated instruction by instruction, and its program cross-compiled: with QUICK=1 only where what it tests has
# changed since it passed.
ARM64_PASSED := tools/kernels/arm64.passed
KERNELS_QUICK = cargo run --locked --quiet --package kernels -- --programs target/kernels/quick --keep target/kernels/quick/guests --quick
kernels: export CARGO_PROFILE_RELEASE_OPT_LEVEL := 1
kernels: deps ## run it under the kernels of Debian 11 to the next, and write docs/kernels.md; GUEST=7.2 for some, QUICK=1
	@mkdir -p target/kernels/amd64 target/kernels/quick/amd64
ifdef QUICK
	cargo build --workspace --locked
	@for program in fsynctop syncgen; do strip -o target/kernels/quick/amd64/$$program $(BUILT)/debug/$$program; done
	@if [ -z "$(GUEST)" ] && [ "$$(tools/kernels/sources)" = "$$(cat $(ARM64_PASSED))" ]; then \
	  echo "arm64 has passed with these programs and probes ($(ARM64_PASSED)): only amd64 is run"; \
	  $(KERNELS_QUICK) --architecture amd64; \
	else \
	  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 tools/arm64/build target/kernels/quick/arm64 fsynctop syncgen; \
	  $(KERNELS_QUICK) $(if $(GUEST),--only $(GUEST),&& tools/kernels/sources >$(ARM64_PASSED)); \
	fi
else
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target $(HOST) --package fsynctop --package syncgen
	@for program in fsynctop syncgen; do strip -o target/kernels/amd64/$$program $(BUILT)/$(HOST)/release/$$program; done
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 tools/arm64/build target/kernels/arm64 fsynctop syncgen
	cargo run --locked --quiet --package kernels -- --programs target/kernels --keep target/kernels/guests \
	  $(if $(GUEST),--only $(GUEST),--page docs/kernels.md && tools/kernels/sources >$(ARM64_PASSED))
endif

soak: deps tracefs ## an exporter beside a busy server for MINUTES (30): counts stay exact and memory bounded
	cargo build --release --workspace --locked
	$(if $(SUDO),CARGO_TARGET_$(HOST_VARIABLE)_RUNNER='sudo -E') FSYNCTOP_SOAK_MINUTES=$(or $(MINUTES),30) \
	  cargo test --release --workspace --locked --test root soak:: -- --include-ignored --nocapture

bench: deps tracefs ## what tracing costs, beside other tracers, and write docs/overhead.md; QUICK=1, ONLY="sync getppid"
	@tools/dependencies bench
	cargo build --release --locked --package fsynctop --package bench --package insert-load --package faultfs
ifneq ($(if $(ONLY),$(filter guest,$(ONLY)),guest),)
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target $(HOST) --package fsynctop --package bench
	@mkdir -p target/bench/guest
	@for program in fsynctop bench; do strip -o target/bench/guest/$$program $(BUILT)/$(HOST)/release/$$program; done
endif
	$(SUDO) $(BUILT)/release/bench $(if $(QUICK),--quick) $(ONLY)

alerts: deps tracefs ## each alert of examples/prometheus made to fire by a real situation, and silent in what looks like it
	cargo build --locked --package fsynctop --package faultfs
	$(SUDO) env BIN='$(abspath $(BUILT)/debug)' tools/alerts

power-failure: deps ## how much of a recording a power failure costs: guests are killed with their hypervisor while they record
	cargo build --locked --package fsynctop --package syncgen
	$(SUDO) env BIN='$(abspath $(BUILT)/debug)' tools/power-failure

# Not part of `test`: who changes neither their profiles nor how Java processes are found needs no JDK.
jvm-engines: deps tracefs ## a real Kafka and a real ZooKeeper: each file has its role, and syncs are as they count them
	@tools/dependencies jvm-engines
	cargo build --locked --package fsynctop
	$(SUDO) env BIN='$(abspath $(BUILT)/debug)' tools/jvm-engines/check

# Not part of `test`: the feature is off in what is released, and to build its crates and the tests once more takes two minutes.
parquet: deps ## what export writes as Parquet, read by DuckDB and pandas, which are fetched once
	@tools/dependencies parquet
	cargo clippy --workspace --all-targets --features parquet --locked -- -D warnings
	PARQUET_PYTHON="$$(tools/parquet/readers)/bin/python" cargo test --workspace --features parquet --locked --lib export:: -- --include-ignored

pictures: deps tracefs ## draw the pictures of the documentation anew, from throw-away servers
	@tools/dependencies pictures
	cargo build --release --workspace --locked
	$(SUDO) env BIN='$(abspath $(BUILT)/release)' tools/pictures

tracefs:
	@[ -e $(TRACEFS)/events ] || $(SUDO) mount -t tracefs tracefs $(TRACEFS) || \
	  echo "tracefs cannot be mounted on $(TRACEFS): what needs tracepoints will say so" >&2

# Without optimisation: its user waits for the compiler, not for the program, and the programs that run in the kernel are clang's.
demo: deps ## trace a throw-away server under load; SERVER=mysql or SERVER=postgres for those, else MariaDB
	@echo "Building (the first time takes some minutes)"
	@cargo build --locked --package fsynctop --package insert-load
	@tools/demo $(SERVER)

investigation: deps tracefs ## why commits are faster than one sync allows, and what writes are amplified to: docs/investigation.md, writes.md
	cargo build --release --locked --package fsynctop --package insert-load
	$(SUDO) env BIN='$(abspath $(BUILT)/release)' tools/investigation
	$(SUDO) env BIN='$(abspath $(BUILT)/release)' tools/write-amplification

dist: deps ## one static binary for any distribution, in dist/; ARCH=arm64 for that architecture instead of this one
	@mkdir -p dist
ifeq ($(ARCH),arm64)
	tools/arm64/build target/dist fsynctop
	@install -m 755 target/dist/fsynctop dist/$(DIST)
else
	@cargo fetch --quiet --locked --target $(HOST)
	RUSTFLAGS='-C target-feature=+crt-static' tools/reproducibly cargo build --release --locked --target $(HOST)
	@strip -o dist/$(DIST) $(BUILT)/$(HOST)/release/fsynctop
endif
	@cd dist; binary=$(DIST); \
	  file $$binary | grep -qE 'static-pie linked|statically linked' || { file $$binary; echo "$$binary is not static" >&2; exit 1; }; \
	  if readelf -d $$binary | grep NEEDED; then echo "$$binary needs libraries" >&2; exit 1; fi; \
	  sha256sum $$binary >$$binary.sha256; \
	  echo "dist/$$binary: $$(stat -c %s $$binary | numfmt --to=iec --suffix=B), static, sha256 $$(cut -d' ' -f1 $$binary.sha256)"

# Root, where a user has no range of subordinate ids: buildah gives the files in the image to root. From x86-64 only, as `make kernels`.
image: deps ## the container image of both architectures, without a daemon: dist/fsynctop-image.tar, an OCI layout
	@[ $(firstword $(subst -, ,$(HOST))) = x86_64 ] || { echo "make image builds both architectures from x86-64 only; examples/container/Dockerfile builds on any" >&2; exit 1; }
	@tools/dependencies image
	$(MAKE) --no-print-directory dist
	$(MAKE) --no-print-directory dist ARCH=arm64
	tools/packages/licences dist/LICENCES-OF-WHAT-IS-BUILT-IN
	$(SUDO) tools/image

# Helm and the schemas of Kubernetes are put into the cache first, which takes some minutes.
image-check: image tracefs ## take the image apart and trace a server from it; the Helm chart by helm and Kubernetes' schemas
	@tools/dependencies image-check charts
	$(SUDO) tools/image-check
	tools/charts-check

release-check: deps ## what packagers rely on: equal binaries, no network, the crate by itself, the SBOM; target/release-check/out
	@tools/dependencies release
	tools/release-check

# One build for each architecture, and the packages are made of that.
packages: deps ## tarball, .deb and .rpm for amd64 and arm64, in dist/, with checksums; on x86-64
	@tools/dependencies packages
	$(MAKE) --no-print-directory dist
	$(MAKE) --no-print-directory dist ARCH=arm64
	RUSTFLAGS='-C target-feature=+crt-static' tools/reproducibly cargo run --release --locked --quiet --target $(HOST) --package pages -- target/packages/pages
	@tools/packages/licences target/packages/LICENCES
	@rm -f dist/*.deb dist/*.rpm dist/*.tar.gz
	@for architecture in x86_64 aarch64; do for format in deb rpm tar; do \
	  tools/packages/lay-out $$format dist/fsynctop-$$architecture target/packages/pages target/packages/LICENCES target/packages/$$format; \
	  tools/packages/pack $$format $$architecture dist; done; done
	@cd dist; sha256sum *.deb *.rpm *.tar.gz >SHA256SUMS

packages-check: packages tracefs ## install, use, upgrade and remove these packages in clean roots of Debian 12 and 13, and of rpm
	@tools/dependencies packages-check
	$(SUDO) tools/packages/check dist

install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: ## copy what `make build` built: program, unit, pages, completions; PREFIX (/usr/local), DESTDIR
	@tools/install --binary $(BUILT)/release/fsynctop --pages $(BUILT)/pages

uninstall: export PREFIX := $(PREFIX)
uninstall: export DESTDIR := $(DESTDIR)
uninstall: ## remove what `make install` copied, but a configuration that was changed; PREFIX, DESTDIR
	@tools/install --remove

clean: ## remove everything that was built
	rm -rf dist
	cargo clean
